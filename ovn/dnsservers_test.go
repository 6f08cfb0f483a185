package ovn

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
)

// dnsPod is a Pod of kube-system on l2, and dnsSlice an EndpointSlice with it as the only endpoint of kube-dns.
func dnsPod(edits ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", UID: "dns-uid",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "coredns", UID: "r",
			Controller: &yes}}},
		Spec:   corev1.PodSpec{NodeName: "l2"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.244.1.9"}}}}
	for _, edit := range edits {
		edit(o)
	}
	return o
}

func dnsSlice(edits ...func(*discoveryv1.Endpoint)) *discoveryv1.EndpointSlice {
	name, port, protocol, node, yes := "dns", int32(53), corev1.ProtocolUDP, "l2", true
	e := discoveryv1.Endpoint{Addresses: []string{"10.244.1.9"}, NodeName: &node, TargetRef: &corev1.ObjectReference{
		Kind: "Pod", Namespace: "kube-system", Name: "dns", UID: "dns-uid"},
		Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}}
	for _, edit := range edits {
		edit(&e)
	}
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{
			{Name: &name, Port: &port, Protocol: &protocol}}, Endpoints: []discoveryv1.Endpoint{e}}
}

// TestWhoIsADNSServer: a node's word counts where a pod that a controller has made serves DNS, and by the key
// dns-server-nodes.
func TestWhoIsADNSServer(t *testing.T) {
	no := false
	endpoint := func(edit func(*discoveryv1.Endpoint)) *discoveryv1.EndpointSlice { return dnsSlice(edit) }
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		slice *discoveryv1.EndpointSlice
		nodes []string
		want  bool
	}{
		"a pod of a ReplicaSet": {dnsPod(), dnsSlice(), nil, true},
		"of a DaemonSet, on the host's network": {dnsPod(func(o *corev1.Pod) {
			o.Spec.HostNetwork, o.OwnerReferences[0].Kind = true, "DaemonSet"
		}), dnsSlice(), nil, true},
		"it goes, and serves until then": {dnsPod(), endpoint(func(e *discoveryv1.Endpoint) {
			yes := true
			e.Conditions.Ready, e.Conditions.Terminating = &no, &yes
		}), nil, true},
		"it is not ready": {dnsPod(), endpoint(func(e *discoveryv1.Endpoint) {
			e.Conditions.Ready, e.Conditions.Serving = &no, &no
		}), nil, false},
		"there is no pod": {nil, dnsSlice(), nil, false},
		"another pod of the name": {dnsPod(func(o *corev1.Pod) { o.UID = "other" }), dnsSlice(), nil,
			false},
		"a pod of another node": {dnsPod(func(o *corev1.Pod) { o.Spec.NodeName = "l1" }), dnsSlice(),
			nil, false},
		"a pod of another namespace": {dnsPod(func(o *corev1.Pod) { o.Namespace = "shop" }), dnsSlice(),
			nil, false},
		"an endpoint that names no pod": {dnsPod(), endpoint(func(e *discoveryv1.Endpoint) {
			e.TargetRef = nil
		}), nil, false},
		"a mirror pod": {dnsPod(func(o *corev1.Pod) {
			o.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}), dnsSlice(), nil, false},
		"a pod of the Node": {dnsPod(func(o *corev1.Pod) { o.OwnerReferences[0].Kind = "Node" }),
			dnsSlice(), nil, false},
		"a pod with an owner that does not control it": {dnsPod(func(o *corev1.Pod) {
			o.OwnerReferences[0].Controller = &no
		}), dnsSlice(), nil, false},
		"a pod of nobody": {dnsPod(func(o *corev1.Pod) { o.OwnerReferences = nil }), dnsSlice(),
			nil, false},
		"a pod that has ended": {dnsPod(func(o *corev1.Pod) { o.Status.Phase = corev1.PodFailed }),
			dnsSlice(), nil, false},
		"a node that the key names": {nil, dnsSlice(), []string{"l2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, podFirst := range []bool{true, false} {
				s := &dnsScene{T: t, w: newWorld(), now: midnight}
				s.c = newCluster(ovntest.Settings(t,
					func(config *settings.Config) { ovntest.Dual(config); config.DNSNodes = c.nodes }))
				s.c.At(s.now)
				s.c.begin(records.Records{}, s.w.Keys(), s.w.Get)
				s.c.domains.Use("www.example.com", 1)
				s.saw("l2", "www.example.com 203.0.113.66 90")
				puts := []func(){
					func() {
						if c.pod != nil {
							s.touch(s.w.put(objects.TrimPod(c.pod)))
						}
					},
					func() { s.touch(s.w.put(objects.TrimSlice(c.slice))) },
				}
				if !podFirst {
					puts[0], puts[1] = puts[1], puts[0]
				}
				puts[0]()
				puts[1]()
				want := "www.example.com:"
				if c.want {
					want += " 203.0.113.66"
				}
				s.want("the answer that l2 has seen", want)
			}
		})
	}
}

// TestDNSServersComeAndGo: what a node says after its server has gone is not believed.
func TestDNSServersComeAndGo(t *testing.T) {
	s := newDNSScene(t)
	s.c.domains.Use("www.example.com", 1)
	s.touch(s.w.put(objects.TrimPod(dnsPod()), objects.TrimSlice(dnsSlice())))
	s.saw("l2", "www.example.com 203.0.113.1 90")
	s.want("with its server", "www.example.com: 203.0.113.1")
	delete(s.w.objects, objects.Key{Kind: objects.PodKind, Name: "kube-system/dns"})
	s.touch([]part.Event{objects.Key{Kind: objects.PodKind, Name: "kube-system/dns"}})
	s.saw("l2", "www.example.com 203.0.113.2 90")
	s.want("the pod is gone, its slice not yet")
	again := dnsPod(func(o *corev1.Pod) { o.UID = types.UID("again") })
	s.touch(s.w.put(objects.TrimPod(again), objects.TrimSlice(dnsSlice(func(e *discoveryv1.Endpoint) {
		e.TargetRef.UID = again.UID
	}))))
	s.want("a new pod of the name", "www.example.com: 203.0.113.2")
}
