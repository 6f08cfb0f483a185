package connectivity

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Labels of the namespaces and pods of tests.
const (
	nameLabel      = "app.kubernetes.io/name"
	managedByLabel = "app.kubernetes.io/managed-by"
	// Name is the value of the label app.kubernetes.io/name of all namespaces and pods of tests.
	Name = "weft-connectivity-test"

	roleLabel   = "role"
	numberLabel = "node" // the node's number in the test
)

// podSecurity is the label of a namespace that says what its pods may do.
const podSecurity = "pod-security.kubernetes.io/enforce"

// role is what a pod is for. Each node has a pod of each role, but of hostRole on Linux nodes alone.
type role string

const (
	serverRole  role = "server"  // it is asked
	clientRole  role = "client"  // it asks
	guardedRole role = "guarded" // a NetworkPolicy lets clients alone ask it
	hostRole    role = "host"    // it has its host's network, and asks
)

// Ports of the pods. Those on their host's network have Options.HostPort.
const (
	httpPort = 8080
	udpPort  = 8081
)

// Ports of the Services.
const (
	serviceHTTPPort = 80
	serviceUDPPort  = 81
)

// Names of the Services in front of all servers.
const (
	allServers   = "servers"
	localServers = "servers-local" // with the externalTrafficPolicy Local
)

// numbered is the name of a node's pod of a role, and of the Service in front of it alone.
func numbered(r role, number int) string { return fmt.Sprintf("%s-%d", r, number) }

func rolesOf(n Node, hostNetwork bool) []role {
	roles := []role{serverRole, clientRole, guardedRole}
	if hostNetwork && n.System == linux {
		roles = append(roles, hostRole)
	}
	return roles
}

// newNamespace is one whose pods may do no more than they have to. Pod Security lets pods on their host's network run
// with the level privileged alone.
func newNamespace(name string, nodes []Node, hostNetwork bool) *corev1.Namespace {
	level := "restricted"
	for _, n := range nodes {
		if len(rolesOf(n, hostNetwork)) > len(rolesOf(n, false)) {
			level = "privileged"
		}
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{nameLabel: Name, managedByLabel: "weft", podSecurity: level}}}
}

// newPods are a node's. They go by the node's name past the scheduler, since the node may be cordoned or tainted.
func newPods(o Options, node Node, number int) (pods []*corev1.Pod) {
	for _, r := range rolesOf(node, o.HostNetwork) {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: numbered(r, number),
				Labels: map[string]string{nameLabel: Name, roleLabel: string(r), numberLabel: strconv.Itoa(number)}},
			Spec: corev1.PodSpec{
				NodeName:                      node.Name,
				HostNetwork:                   r == hostRole,
				Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				TerminationGracePeriodSeconds: ptr.To[int64](1),
				AutomountServiceAccountToken:  ptr.To(false),
				EnableServiceLinks:            ptr.To(false),
				// spec.os is left out: with it, Windows pods must not have the fields that Pod Security wants of others.
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot:   ptr.To(true),
					RunAsUser:      ptr.To[int64](1000),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: ptr.To("ContainerUser")},
				},
				Containers: []corev1.Container{newContainer(o, node, r)},
			},
		})
	}
	return pods
}

func newContainer(o Options, node Node, r role) corev1.Container {
	http, udp := httpPort, udpPort
	if r == hostRole {
		http, udp = o.HostPort, -1 // no second port of the host
	}
	image := o.Image
	if node.System == windows {
		image = o.WindowsImage
	}
	return corev1.Container{
		Name: "netexec", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:  []string{"netexec", fmt.Sprintf("--http-port=%d", http), fmt.Sprintf("--udp-port=%d", udp)},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(http)}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 2, TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/hostname", Port: intstr.FromInt(http)}}},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
	}
}

// newServices are one in front of each node's server, and two in front of all of them. They have servers that are not
// Ready, too: what a kubelet's probe meets is a result of its own.
func newServices(nodes []Node) []*corev1.Service {
	list := []*corev1.Service{newService(allServers, corev1.ServiceTypeNodePort, nil),
		newService(localServers, corev1.ServiceTypeNodePort, nil)}
	list[1].Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	for number := range nodes {
		list = append(list, newService(numbered(serverRole, number), corev1.ServiceTypeClusterIP,
			map[string]string{numberLabel: strconv.Itoa(number)}))
	}
	return list
}

func newService(name string, kind corev1.ServiceType, selector map[string]string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{nameLabel: Name}},
		Spec: corev1.ServiceSpec{
			Type: kind, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyPreferDualStack), PublishNotReadyAddresses: true,
			Selector: map[string]string{roleLabel: string(serverRole)},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: serviceHTTPPort, TargetPort: intstr.FromInt(httpPort)},
				{Name: "udp", Port: serviceUDPPort, TargetPort: intstr.FromInt(udpPort), Protocol: corev1.ProtocolUDP}},
		}}
	for key, value := range selector {
		s.Spec.Selector[key] = value
	}
	return s
}

// newPolicy lets clients alone ask the guarded pods.
func newPolicy() *networkingv1.NetworkPolicy {
	with := func(r role) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: string(r)}}
	}
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clients-only"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: with(guardedRole),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{PodSelector: ptr.To(with(clientRole))}}}},
		}}
}
