package services

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/settings"
)

// nodeNumbers are those of the nodes that a life may have, with or without a Node.
const nodeNumbers = 4

var families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}

// life is a cluster to which random things happen, as Weft and as the nodes' kube-proxies see it.
type life struct {
	random  *rand.Rand
	windows int             // nodes from this number on run Windows
	third   corev1.Protocol // that of the ports that are called "c"
	weft    *ovn.Rehearsal
	proxies map[string][]*kubeProxy // by node, for each family
	objects map[string]runtime.Object
	born    int
	story   []string
}

func newLife(seed, number uint64) (*life, error) {
	l := &life{random: rand.New(rand.NewPCG(seed, number)), windows: nodeNumbers, third: corev1.ProtocolSCTP,
		proxies: map[string][]*kubeProxy{}, objects: map[string]runtime.Object{}}
	if number%2 == 1 { // Weft keeps SCTP off Windows nodes, which kube-proxy does not
		l.windows, l.third = nodeNumbers-2, corev1.ProtocolTCP
	}
	config := settings.DefaultConfig()
	config.Northbound = []string{"unix:none"}
	config.PodCIDRs, config.ServiceCIDRs = []string{"10.244.0.0/16", "fd00:10:244::/48"},
		[]string{"10.96.0.0/16", "fd00:10:96::/112"}
	var err error
	if l.weft, err = ovn.NewRehearsal(config); err != nil {
		return nil, err
	}
	for i := range nodeNumbers {
		for _, family := range families {
			l.proxies[nodeName(i)] = append(l.proxies[nodeName(i)], newKubeProxy(nodeName(i), family))
		}
	}
	return l, l.put(&corev1.Namespace{ObjectMeta: l.meta("", "default")})
}

func nodeName(number int) string { return fmt.Sprint("n", number) }

// step is some events that come together.
func (l *life) step() error {
	var now, gone []runtime.Object
	taken := map[string]bool{}
	for range 1 + l.random.IntN(3) {
		o := l.event()
		k := keyOf(o)
		if taken[k] {
			continue
		}
		taken[k] = true
		if l.objects[k] != nil && l.random.IntN(3) == 0 {
			gone = append(gone, l.objects[k])
		} else {
			now = append(now, o)
		}
	}
	return l.apply(now, gone)
}

func (l *life) put(now ...runtime.Object) error { return l.apply(now, nil) }

func (l *life) apply(now, gone []runtime.Object) error {
	follow := func(k string, o any) {
		for _, both := range l.proxies {
			for _, p := range both {
				p.update(l.objects[k], o)
			}
		}
	}
	for _, o := range now {
		k := keyOf(o)
		l.story = append(l.story, "put "+describe(o))
		follow(k, o)
		l.objects[k] = o
	}
	for _, o := range gone {
		l.story = append(l.story, "delete "+keyOf(o))
		follow(keyOf(o), nil)
		delete(l.objects, keyOf(o))
	}
	return l.weft.Update(now, gone)
}

func keyOf(o runtime.Object) string {
	meta := o.(metav1.Object)
	return fmt.Sprintf("%T %s", o, meta.GetName())
}

// meta is a new object's, or that of the one that is there.
func (l *life) meta(namespace, name string) metav1.ObjectMeta {
	l.born++
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint("uid-", l.born)),
		CreationTimestamp: metav1.NewTime(time.Unix(1700000000+int64(l.random.IntN(4)), 0))}
}

// again has an object keep what an update cannot change.
func again[T metav1.Object](l *life, o T) T {
	if before, ok := l.objects[fmt.Sprintf("%T %s", o, o.GetName())].(T); ok {
		o.SetUID(before.GetUID())
		o.SetCreationTimestamp(before.GetCreationTimestamp())
	}
	return o
}

func (l *life) event() runtime.Object {
	switch n := l.random.IntN(12); {
	case n < 3:
		return l.node(l.random.IntN(nodeNumbers))
	case n < 6:
		return l.service(l.random.IntN(4))
	case n < 11:
		return l.slice(l.random.IntN(4))
	}
	return l.pod(l.random.IntN(4))
}

func one[T any](l *life, of ...T) T { return of[l.random.IntN(len(of))] }

// node is one with a gateway of some kind, or none.
func (l *life) node(number int) *corev1.Node {
	o := again(l, &corev1.Node{ObjectMeta: l.meta("", nodeName(number))})
	o.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", number), fmt.Sprintf("fd00:10:244:%d::/64", number)}
	o.Labels = map[string]string{}
	if zone := one(l, "", "z1", "z2"); zone != "" {
		o.Labels[corev1.LabelTopologyZone] = zone
	}
	facts := contract.NodeFacts{Chassis: chassis(number), MTU: 1442, OS: contract.Linux,
		Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprint("192.0.2.1", number)),
			netip.MustParseAddr(fmt.Sprint("2001:db8:1::", 1+number))}}
	if number >= l.windows {
		facts.OS = contract.Windows
	}
	gateway := &contract.Gateway{Network: "external", MAC: fmt.Sprintf("02:00:00:00:00:%02x", number),
		Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("203.0.113.1%d/24", number)),
			netip.MustParsePrefix(fmt.Sprintf("2001:db8::1%d/64", number))}}
	switch l.random.IntN(4) {
	case 0:
		facts.Gateway = gateway
	case 1, 2:
		facts.Gateway, gateway.HostAddresses = gateway, true
		facts.Addresses = contract.Addrs(gateway.Addresses)
	}
	o.Annotations = map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)}
	return o
}

func chassis(number int) string { return fmt.Sprint("chassis-", number) }

func (l *life) service(number int) *corev1.Service {
	o := again(l, &corev1.Service{ObjectMeta: l.meta("default", fmt.Sprint("s", number))})
	o.Spec.Type = one(l, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer,
		corev1.ServiceTypeLoadBalancer)
	v4, v6 := fmt.Sprint("10.96.0.1", number), fmt.Sprint("fd00:10:96::1", number)
	o.Spec.ClusterIPs = one(l, []string{v4}, []string{v6}, []string{v4, v6}, []string{v6, v4}, []string{v4, v6})
	for i, name := range []string{"a", "b", "c"} {
		if l.random.IntN(3) == 0 && i > 0 {
			continue
		}
		port := corev1.ServicePort{Name: name, Port: one[int32](l, 80, 443, 8080) + int32(i),
			Protocol: []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, l.third}[i]}
		if o.Spec.Type != corev1.ServiceTypeClusterIP && l.random.IntN(4) > 0 {
			if port.NodePort = int32(30000 + 10*number + i); l.random.IntN(4) == 0 {
				port.Port = port.NodePort
			}
		}
		o.Spec.Ports = append(o.Spec.Ports, port)
	}
	if l.random.IntN(3) == 0 {
		o.Spec.ExternalIPs = one(l, []string{"198.51.100.1"}, []string{"198.51.100.1", "2001:db8:5::1"},
			[]string{"198.51.100.2", "198.51.100.007"})
	}
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for _, ip := range one(l, nil, []string{"198.51.100.1"}, []string{"198.51.100.3", "2001:db8:5::1"},
			[]string{"192.0.2.10", "2001:db8:1::2"}) {
			mode := one(l, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy)
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip,
				IPMode: &mode})
		}
	}
	if (o.Spec.Type != corev1.ServiceTypeClusterIP || len(o.Spec.ExternalIPs) > 0) && l.random.IntN(2) == 0 {
		o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
			o.Spec.HealthCheckNodePort = int32(31000 + number)
		}
	}
	internal := one(l, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyCluster,
		corev1.ServiceInternalTrafficPolicyLocal)
	o.Spec.InternalTrafficPolicy = &internal
	if l.random.IntN(4) == 0 {
		seconds := one[int32](l, 1, 10800, 86400)
		o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		o.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{
			TimeoutSeconds: &seconds}}
	}
	switch l.random.IntN(20) {
	case 0:
		o.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
	case 1:
		o.Labels = map[string]string{one(l, contract.ProxyNameLabel, contract.HeadlessLabel): ""}
	case 2:
		o.Spec.Type, o.Spec.ExternalName, o.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "example.net", nil
	}
	if len(o.Spec.ClusterIPs) > 0 {
		o.Spec.ClusterIP = o.Spec.ClusterIPs[0]
	}
	return o
}

// slice is one of a Service's three. Of one family two have no endpoint in common but one: when slices differ on an
// endpoint, kube-proxy takes what it comes to first.
func (l *life) slice(service int) *discoveryv1.EndpointSlice {
	which := l.random.IntN(3)
	o := again(l, &discoveryv1.EndpointSlice{ObjectMeta: l.meta("default", fmt.Sprintf("s%d-%d", service, which)),
		AddressType: discoveryv1.AddressTypeIPv4})
	o.Labels = map[string]string{discoveryv1.LabelServiceName: fmt.Sprint("s", service)}
	candidates := []string{"10.244.%d.3", "10.244.%d.4", "192.0.2.1%d"}
	switch which {
	case 1:
		candidates = []string{"10.244.%d.5", "203.0.113.1%d"}
	case 2:
		o.AddressType, candidates = discoveryv1.AddressTypeIPv6, []string{"fd00:10:244:%d::3", "fd00:10:244:%d::4",
			"2001:db8::1%d"}
	}
	number := one[int32](l, 8080, 9090)
	for i, name := range []string{"a", "b", "c"} {
		if l.random.IntN(4) > 0 {
			protocol, at := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, l.third}[i], number
			if l.random.IntN(30) == 0 {
				at = one[int32](l, 0, -5, 65536+8080, 70000)
			}
			o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: &name, Port: &at, Protocol: &protocol})
		}
	}
	l.fill(o, candidates)
	if o.AddressType == discoveryv1.AddressTypeIPv4 && l.random.IntN(4) == 0 {
		shared := discoveryv1.Endpoint{Addresses: []string{"10.244.0.100"}}
		if l.random.IntN(2) == 0 {
			name := nodeName(0)
			shared.NodeName = &name
		}
		o.Endpoints = append(o.Endpoints, shared)
	}
	return o
}

// fill gives a slice endpoints on some nodes, with or without hints.
func (l *life) fill(o *discoveryv1.EndpointSlice, candidates []string) {
	hints := l.random.IntN(4)
	for i := range nodeNumbers {
		for _, format := range candidates {
			if l.random.IntN(5) > 1 {
				continue
			}
			name := nodeName(i)
			e := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf(format, i)}, NodeName: &name}
			if l.random.IntN(3) == 0 {
				e.Conditions = discoveryv1.EndpointConditions{Ready: one(l, nil, new(bool)), Serving: one(l, nil, new(bool),
					truth()), Terminating: one(l, nil, new(bool), truth(), truth())}
			}
			if l.random.IntN(12) == 0 {
				e.NodeName = nil
			}
			if hints > 0 && l.random.IntN(12) > 0 {
				e.Hints = l.hints(hints)
			}
			o.Endpoints = append(o.Endpoints, e)
		}
	}
	if l.random.IntN(10) == 0 {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{Addresses: []string{"127.0.0.1"}},
			discoveryv1.Endpoint{Addresses: []string{"010.244.0.9"}})
	}
}

func (l *life) hints(what int) *discoveryv1.EndpointHints {
	h := &discoveryv1.EndpointHints{}
	if what&1 > 0 {
		for _, zone := range one(l, []string{"z1"}, []string{"z2"}, []string{"z1", "z2"}, []string{"z3"}) {
			h.ForZones = append(h.ForZones, discoveryv1.ForZone{Name: zone})
		}
	}
	if what&2 > 0 {
		for _, node := range one(l, []string{"n0"}, []string{"n1"}, []string{"n1", "n2"}, []string{"n9"}) {
			h.ForNodes = append(h.ForNodes, discoveryv1.ForNode{Name: node})
		}
	}
	return h
}

func truth() *bool {
	yes := true
	return &yes
}

// pod is one with a hostPort.
func (l *life) pod(number int) *corev1.Pod {
	o := &corev1.Pod{ObjectMeta: l.meta("default", fmt.Sprint("p", number)),
		Spec: corev1.PodSpec{NodeName: nodeName(l.random.IntN(nodeNumbers))}}
	if before, ok := l.objects[keyOf(o)].(*corev1.Pod); ok {
		return before // what a pod has it keeps
	}
	port := corev1.ContainerPort{ContainerPort: 80, HostPort: one[int32](l, 8443, 8444, 30000),
		Protocol: corev1.ProtocolTCP}
	if l.random.IntN(3) == 0 {
		port.HostIP = fmt.Sprint("203.0.113.1", strings.TrimPrefix(o.Spec.NodeName, "n"))
	}
	o.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{port}}}
	return o
}

// list are the objects of a type, by name.
func list[T runtime.Object](l *life) []T {
	var all []T
	for _, o := range l.objects {
		if one, ok := o.(T); ok {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(keyOf(a), keyOf(b)) })
	return all
}
