package oracle

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weftnet/weft/models/contract"
)

// generator makes up scenes and packets. Everything is drawn from small sets, so that what policies ask for is
// often there.
type generator struct {
	*rand.Rand
	families families
	labels   []string // keys
	names    []string // of namespaces
}

func newGenerator(seed, number uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, number)), labels: []string{"app", "tier", "x/y"},
		names: []string{"prod", "test", "kube-system", "a-b"}}
	g.families = pick(g, families{true, true}, families{true, true}, families{true, false}, families{false, true})
	return g
}

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// one says yes once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// several makes up to most of something, and often none.
func several[T any](g *generator, most int, one func() T) []T {
	var list []T
	for range g.IntN(most + 1) {
		list = append(list, one())
	}
	return list
}

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

func (g *generator) scene(wide bool) *scene {
	s := &scene{families: g.families}
	for i := range 1 + g.IntN(3) {
		s.nodes = append(s.nodes, g.node(i))
	}
	for _, i := range g.Perm(len(g.names))[:2+g.IntN(3)] {
		s.namespaces = append(s.namespaces, g.namespace(g.names[i]))
	}
	for i := range 6 + g.IntN(7) {
		s.pods = append(s.pods, g.pod(i, pick(g, s.namespaces...).Name, pick(g, s.nodes...)))
	}
	g.policies(s, wide)
	return s
}

func (g *generator) namespace(name string) *corev1.Namespace {
	n := &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: g.labelled()}}
	metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelMetadataName, n.Name)
	return n
}

// policies gives a scene some; if wide, those of the whole cluster among them.
func (g *generator) policies(s *scene, wide bool) {
	policies := 2 + g.IntN(5)
	if wide {
		policies = g.IntN(4)
	}
	for i := range policies {
		s.policies = append(s.policies, g.policy(i, pick(g, s.namespaces...).Name))
	}
	if wide {
		s.wide = g.clusterPolicies()
	}
}

// labelled are some labels; a value may be empty.
func (g *generator) labelled() map[string]string {
	set := map[string]string{}
	for _, key := range g.labels {
		if g.IntN(3) > 0 {
			set[key] = g.value()
		}
	}
	return set
}

func (g *generator) value() string { return pick(g, "a", "a", "b", "c", "") }

func (g *generator) node(i int) *corev1.Node {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: g.labelled()}}
	facts := contract.NodeFacts{Chassis: fmt.Sprintf("chassis-%d", i), MTU: 1442,
		Gateway: &contract.Gateway{Network: "external", MAC: fmt.Sprintf("02:00:00:00:00:%02x", i+1)}}
	add := func(cidr, host, gateway, next string) {
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, cidr)
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: pick(g, corev1.NodeInternalIP, corev1.NodeExternalIP), Address: host})
		facts.Addresses = append(facts.Addresses, netip.MustParseAddr(host))
		facts.Gateway.Addresses = append(facts.Gateway.Addresses, netip.MustParsePrefix(gateway))
		facts.Gateway.NextHops = append(facts.Gateway.NextHops, netip.MustParseAddr(next))
	}
	if g.families.ipv4 {
		add(fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("192.0.2.%d", i+1), fmt.Sprintf("203.0.113.%d/24", i+1),
			"203.0.113.254")
	}
	if g.families.ipv6 {
		add(fmt.Sprintf("fd00:10:244:%d::/64", i), fmt.Sprintf("2001:db8:1::%d", i+1), fmt.Sprintf("2001:db8::%d/64", i+1),
			"2001:db8::ffff")
	}
	n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.Name})
	n.Annotations = map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)}
	return n
}

// oldAddresses are those that completed pods have had.
var oldAddresses = []string{"10.244.0.200", "fd00:10:244::200"}

func (g *generator) pod(i int, namespace string, node *corev1.Node) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%d", i), Labels: g.labelled()}}
	p.Spec.NodeName = node.Name
	p.Spec.Containers = []corev1.Container{{Name: "c", Ports: g.containerPorts(3)}}
	if g.one(3) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Ports: g.containerPorts(2)})
	}
	if g.one(4) {
		c := corev1.Container{Name: "init", Ports: g.containerPorts(2)}
		if g.one(2) {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = []corev1.Container{c}
	}
	p.Status.Phase = corev1.PodRunning
	switch {
	case g.one(10):
		p.Spec.HostNetwork = true
		for _, a := range hostAddresses(node) {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
		}
	case g.one(10):
		p.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
		for _, a := range oldAddresses {
			if g.families.has(netip.MustParseAddr(a)) {
				p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
			}
		}
	}
	return p
}

// portNames of containers' ports; policies also ask for one that nobody has.
var portNames = []string{"web", "dns-tcp", "x"}

// containerPorts are a container's, of which no two have one name. Two containers' may.
func (g *generator) containerPorts(most int) []corev1.ContainerPort {
	named := map[string]bool{}
	return several(g, most, func() corev1.ContainerPort {
		port := corev1.ContainerPort{Name: pick(g, append(portNames, "")...), ContainerPort: int32(pick(g, portNumbers...)),
			Protocol: pick(g, append(protocols, corev1.ProtocolTCP)...)}
		if named[port.Name] {
			port.Name = ""
		}
		named[port.Name] = true
		return port
	})
}

// portNumbers are those of containers and packets, edges of ranges among them.
var portNumbers = []uint16{1, 79, 80, 81, 443, 8080, 8081, 8090, 65534, 65535}

// selector is any that the API allows.
func (g *generator) selector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for g.one(3) {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[pick(g, g.labels...)] = g.value()
	}
	for g.one(3) {
		e := metav1.LabelSelectorRequirement{Key: pick(g, g.labels...), Operator: pick(g, metav1.LabelSelectorOpIn,
			metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			e.Values = append(several(g, 2, g.value), g.value())
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

// namespaceSelector also asks for the label that each namespace has of its name.
func (g *generator) namespaceSelector() *metav1.LabelSelector {
	if g.one(4) {
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: pick(g, g.names...)}}
	}
	return g.selector()
}

func (g *generator) policy(i int, namespace string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{TypeMeta: metav1.TypeMeta{Kind: "NetworkPolicy", APIVersion: "networking.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("np%d", i)}}
	p.Spec.PodSelector = *g.selector()
	p.Spec.PolicyTypes = pick(g, nil, []networkingv1.PolicyType{"Ingress"}, []networkingv1.PolicyType{"Egress"},
		[]networkingv1.PolicyType{"Ingress", "Egress"})
	p.Spec.Ingress = several(g, 3, func() networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: several(g, 3, g.peer), Ports: several(g, 3, g.port)}
	})
	p.Spec.Egress = several(g, 3, func() networkingv1.NetworkPolicyEgressRule {
		return networkingv1.NetworkPolicyEgressRule{To: several(g, 3, g.peer), Ports: several(g, 3, g.port)}
	})
	return p
}

func (g *generator) peer() (p networkingv1.NetworkPolicyPeer) {
	switch g.IntN(4) {
	case 0:
		p.PodSelector = g.selector()
	case 1:
		p.NamespaceSelector = g.namespaceSelector()
	case 2:
		p.PodSelector, p.NamespaceSelector = g.selector(), g.namespaceSelector()
	default:
		p.IPBlock = g.block()
	}
	return p
}

func (g *generator) block() *networkingv1.IPBlock {
	whole := g.cidr(0)
	b := &networkingv1.IPBlock{CIDR: whole.String()}
	for range g.IntN(4) {
		// The API wants a real part.
		if part := g.cidr(whole.Bits() + 1); part.Addr().Is4() == whole.Addr().Is4() && part.Bits() > whole.Bits() &&
			whole.Masked().Contains(part.Addr()) {
			b.Except = append(b.Except, part.String())
		}
	}
	return b
}

// cidr is of either family, whatever the cluster has, about pods, nodes or others; it may have bits set beyond
// its length.
func (g *generator) cidr(least int) netip.Prefix {
	texts, lengths := []string{"10.244.0.3", "10.244.0.4", "10.244.0.7", "10.244.1.3", "10.244.1.6", "10.244.2.9",
		"192.0.2.1", "192.0.2.2", "198.51.100.7", "203.0.113.9"}, []int{0, 1, 8, 16, 23, 24, 28, 29, 30, 31, 32}
	if g.one(2) {
		texts, lengths = []string{"fd00:10:244::3", "fd00:10:244::4", "fd00:10:244::7", "fd00:10:244:1::3",
			"fd00:10:244:1::6", "2001:db8:1::1", "2001:db8:1::2", "2001:db8:9::7"}, []int{0, 1, 32, 48, 63, 64, 120, 125, 126,
			127, 128}
	}
	addr := netip.MustParseAddr(pick(g, texts...))
	p := netip.PrefixFrom(addr, min(max(pick(g, lengths...), least), addr.BitLen()))
	if g.one(2) {
		return p.Masked()
	}
	return p
}

func (g *generator) port() (p networkingv1.NetworkPolicyPort) {
	if g.IntN(4) > 0 {
		protocol := pick(g, protocols...)
		p.Protocol = &protocol
	}
	switch g.IntN(6) {
	case 0:
	case 1, 2:
		name := intstr.FromString(pick(g, append(portNames, "nobodys")...))
		p.Port = &name
	default:
		first, last := g.ports()
		number := intstr.FromInt32(first)
		p.Port = &number
		if g.one(2) {
			p.EndPort = &last
		}
	}
	return p
}

// ports are the ends of a range.
func (g *generator) ports() (first, last int32) {
	a, b := int32(pick(g, portNumbers...)), int32(pick(g, portNumbers...))
	return min(a, b), max(a, b)
}

// outsiders are addresses of nobody in the cluster, some of which have been a pod's.
var outsiders = append([]string{"198.51.100.7", "203.0.113.9", "10.244.0.250", "10.9.9.9", "255.0.0.1", "2001:db8:9::7",
	"fd00:10:244::250", "fd77::1"}, oldAddresses...)

func (g *generator) connection(s *scene) connection {
	c := connection{from: g.end(s), to: g.end(s),
		protocol: pick(g, append(protocols, corev1.ProtocolTCP, corev1.ProtocolTCP, icmp)...), family: g.IntN(2)}
	if c.protocol != icmp {
		c.port = pick(g, portNumbers...)
	}
	return c
}

// end is mostly a pod.
func (g *generator) end(s *scene) string {
	switch g.IntN(8) {
	case 0:
		return pick(g, outsiders...)
	case 1:
		n := pick(g, s.nodes...)
		return pick(g, append(hostAddresses(n), managementAddresses(n)...)...).String()
	}
	p := pick(g, s.pods...)
	return p.Namespace + "/" + p.Name
}
