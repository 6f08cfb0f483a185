package ovn

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
)

// TestUnreadChangesMakeNoWork: two trimmed objects differ exactly if the translation sees a difference.
func TestUnreadChangesMakeNoWork(t *testing.T) {
	annotated := func(key string) map[string]string { return map[string]string{key: "{}"} }
	for _, c := range []struct {
		name          string
		before, after runtime.Object
		want          bool
	}{
		{"node: heartbeat", kubeNode("l1"), edit(kubeNode("l1"), func(n *corev1.Node) {
			n.ResourceVersion = "2"
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
			n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		}), false},
		{"node: podCIDRs", kubeNode("l1"), kubeNode("l1", "10.244.0.0/24"), true},
		{"node: facts", kubeNode("l1"), edit(kubeNode("l1"), func(n *corev1.Node) {
			n.Annotations = annotated(contract.NodeFactsAnnotation)
		}), true},
		{"node: operating system", kubeNode("l1"), edit(kubeNode("l1"), func(n *corev1.Node) {
			n.Labels = map[string]string{corev1.LabelOSStable: "windows"}
		}), true},
		{"node: gateway", kubeNode("l1"), edit(kubeNode("l1"), func(n *corev1.Node) {
			n.Labels = map[string]string{objects.GatewayLabel: ""}
		}), true},
		{"node: another label", kubeNode("l1"), edit(kubeNode("l1"), func(n *corev1.Node) {
			n.Labels = map[string]string{"a": "b"}
		}), true},
		{"node: ready", kubeNode("l1"), edit(kubeNode("l1"), func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}), true},
		{"node: network", kubeNode("l1"), edit(kubeNode("l1"), func(n *corev1.Node) {
			n.Annotations = annotated(contract.NodeNetworkAnnotation)
		}), true},
		{"pod: conditions", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}}
			p.Spec.Containers = []corev1.Container{{Name: "c"}}
		}), false},
		{"pod: completed", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
		}), true},
		{"pod: address", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.3"}}
		}), true},
		{"pod: annotation", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.Annotations = annotated(contract.PodNetworkAnnotation)
		}), true},
		{"pod: host port", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 80}}}}
		}), true},
		{"pod: host port for the host alone", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{
				{Ports: []corev1.ContainerPort{{HostIP: "127.0.0.1", HostPort: 8080, ContainerPort: 80}}}}
		}), false},
		{"pod: of a controller", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.OwnerReferences = dnsPod().OwnerReferences
		}), true},
		{"service: node port", web(), web(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 }), true},
		{"service: external policy", web(), web(func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}), true},
		{"service: health check", web(checked(30081, corev1.ServiceExternalTrafficPolicyLocal)),
			web(checked(30082, corev1.ServiceExternalTrafficPolicyLocal)), true},
		{"service: health check of another policy", web(checked(30081, corev1.ServiceExternalTrafficPolicyCluster)),
			web(checked(30082, corev1.ServiceExternalTrafficPolicyCluster)), false},
		{"service: external address", web(), web(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }),
			true},
		{"service: ingress that is a proxy", web(balanced("192.0.2.1", corev1.LoadBalancerIPModeVIP)),
			web(balanced("192.0.2.1", corev1.LoadBalancerIPModeProxy)), true},
		{"pod: label", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) {
			p.Labels = map[string]string{"a": "b"}
		}), true},
		{"pod: another incarnation", kubePod("p", "l1"), edit(kubePod("p", "l1"), func(p *corev1.Pod) { p.UID = "other" }),
			true},
		{"service: selector", web(), web(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }), false},
		{"service: load balancer status", web(), web(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		}), true},
		{"service: port", web(), web(func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), true},
		{"service: internalTrafficPolicy", web(), web(local), true},
		{"service: headless label", web(), web(func(s *corev1.Service) {
			s.Labels = map[string]string{objects.HeadlessLabel: ""}
		}), true},
		{"slice: whose pod an endpoint is", webSlice("a", at("10.244.0.3", "l1")), edit(webSlice("a", at("10.244.0.3", "l1")),
			func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].TargetRef = &corev1.ObjectReference{Name: "p"}
			}), false},
		{"service: affinity", web(), web(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }),
			true},
		{"service: how long affinity lasts", sticky(60), sticky(61), true},
		{"service: source ranges", web(), web(func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
		}), true},
		{"slice: hints", webSlice("a", at("10.244.0.3", "l1")), webSlice("a", forZones(at("10.244.0.3", "l1"), "z1")), true},
		{"slice: the order of hints", webSlice("a", forZones(at("10.244.0.3", "l1"), "z1", "z2")),
			webSlice("a", forZones(at("10.244.0.3", "l1"), "z2", "z1")), false},
		{"slice: readiness", webSlice("a", at("10.244.0.3", "l1")), webSlice("a", unready(at("10.244.0.3", "l1"))), true},
		{"slice: a bad address", webSlice("a"), webSlice("a", at("nonsense", "l1")), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := trim(c.before), trim(c.after)
			if got := changed(before, after); got != c.want {
				t.Errorf("changed is %v, want %v", got, c.want)
			}
			if changed(after, trim(c.after)) {
				t.Error("an object differs from itself")
			}
		})
	}
}

// balanced has an address of a load balancer.
func balanced(ip string, mode corev1.LoadBalancerIPMode) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip, IPMode: &mode}}
	}
}

// checked has a health check by a policy that may know none.
func checked(port int32, policy corev1.ServiceExternalTrafficPolicy) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, policy, port
	}
}

// TestTrimmedObjectsAreCompared field by field: one that is added must be in equal, too.
func TestTrimmedObjectsAreCompared(t *testing.T) {
	for kind, fields := range map[reflect.Type]int{
		reflect.TypeFor[objects.Node](): 10, reflect.TypeFor[objects.Pod](): 12, reflect.TypeFor[objects.Service](): 21,
		reflect.TypeFor[objects.EndpointSlice](): 8,
	} {
		if n := kind.NumField(); n != fields {
			t.Errorf("%s has %d fields, equal knows %d", kind, n, fields)
		}
	}
}

func TestTrimHandsOnWhatItDoesNotKnow(t *testing.T) {
	o := &corev1.ConfigMap{}
	if got := trim(o); got != any(o) {
		t.Errorf("got %v", got)
	}
}
