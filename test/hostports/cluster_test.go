package hostports

import (
	"encoding/json"
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

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hostservice"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
)

const nodes = 3

// cluster is one to which random things happen.
type cluster struct {
	random     *rand.Rand
	controller *ovn.Rehearsal
	objects    map[string]runtime.Object
	networks   map[string]contract.NodeNetwork // by node, as the controller has written them
	born       int
	story      []string
}

func newCluster(seed, number uint64) (*cluster, error) {
	c := &cluster{random: rand.New(rand.NewPCG(seed, number)), objects: map[string]runtime.Object{},
		networks: map[string]contract.NodeNetwork{}}
	config := settings.DefaultConfig()
	config.Northbound = []string{"unix:none"}
	config.PodCIDRs, config.ServiceCIDRs = []string{"10.244.0.0/16", "fd00:10:244::/48"},
		[]string{"10.96.0.0/16", "fd00:10:96::/112"}
	config.HostCIDRs = []string{"192.0.2.200/32", "192.0.2.208/28"}
	if config.AllocateLoadBalancerAddresses = number%2 == 0; number%3 == 0 {
		config.HostExternalIPCIDRs = []string{"203.0.113.10/31", "2001:db8::11/128"}
	}
	if number%5 == 0 {
		config.HostPorts = []string{"tcp/22", "udp/53", "tcp/30000"}
	}
	if number%4 == 3 {
		config.PodCIDRs, config.ServiceCIDRs = config.PodCIDRs[:1], config.ServiceCIDRs[:1]
	}
	var err error
	if c.controller, err = ovn.NewRehearsal(config); err != nil {
		return nil, err
	}
	first := []runtime.Object{&corev1.Namespace{ObjectMeta: c.meta("", "default")},
		&v1alpha1.AddressPool{ObjectMeta: c.meta("", "pool"),
			Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"203.0.113.240/30"}}}}
	for i := range nodes {
		first = append(first, c.node(i))
	}
	return c, c.apply(first, nil)
}

func nodeName(number int) string { return fmt.Sprint("n", number) }

func one[T any](c *cluster, of ...T) T { return of[c.random.IntN(len(of))] }

// step is some events that come together.
func (c *cluster) step() error {
	var now, gone []runtime.Object
	taken := map[string]bool{}
	for range 1 + c.random.IntN(3) {
		o := c.event()
		k := keyOf(o)
		if taken[k] {
			continue
		}
		taken[k] = true
		if c.objects[k] != nil && c.random.IntN(3) == 0 {
			gone = append(gone, c.objects[k])
		} else {
			now = append(now, o)
		}
	}
	return c.apply(now, gone)
}

func keyOf(o runtime.Object) string { return fmt.Sprintf("%T %s", o, o.(metav1.Object).GetName()) }

// apply has the controller take the events in. What it writes to nodes and Services is there afterwards.
func (c *cluster) apply(now, gone []runtime.Object) error {
	for len(now)+len(gone) > 0 {
		for _, o := range now {
			c.objects[keyOf(o)] = o
			text, _ := json.Marshal(o)
			c.story = append(c.story, fmt.Sprintf("put %T %s", o, text))
		}
		for _, o := range gone {
			delete(c.objects, keyOf(o))
			c.story = append(c.story, "delete "+keyOf(o))
		}
		if err := c.controller.Update(now, gone); err != nil {
			return err
		}
		now, gone = nil, nil
		for _, note := range c.controller.Notes() {
			changed, err := c.write(note)
			if err != nil {
				return err
			}
			if changed != nil {
				now = append(now, changed)
			}
		}
	}
	return nil
}

// write is what becomes of an object by what the controller writes to it; nil if that is nothing to anybody.
func (c *cluster) write(p part.Patch) (runtime.Object, error) {
	var patch struct {
		Metadata metav1.ObjectMeta
		Status   corev1.ServiceStatus
	}
	if err := json.Unmarshal(p.JSON(time.Now()), &patch); err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Name: p.Name}
	switch p.Kind {
	case objects.NodeKind:
		network, _, err := contract.Parse[contract.NodeNetwork](patch.Metadata.Annotations, contract.NodeNetworkAnnotation)
		c.networks[p.Name] = network
		return nil, err
	case objects.PodKind:
		if there, ok := c.objects[keyOf(&corev1.Pod{ObjectMeta: meta})].(*corev1.Pod); ok {
			there = there.DeepCopy()
			there.Annotations = patch.Metadata.Annotations
			return there, nil
		}
	case objects.ServiceKind:
		if there, ok := c.objects[keyOf(&corev1.Service{ObjectMeta: meta})].(*corev1.Service); ok {
			there = there.DeepCopy()
			there.Status.LoadBalancer.Ingress = patch.Status.LoadBalancer.Ingress
			return there, nil
		}
	}
	return nil, nil
}

// meta is a new object's.
func (c *cluster) meta(namespace, name string) metav1.ObjectMeta {
	c.born++
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint("uid-", c.born)),
		CreationTimestamp: metav1.NewTime(time.Unix(1700000000+int64(c.random.IntN(4)), 0))}
}

// again has an object keep what an update cannot change.
func again[T metav1.Object](c *cluster, o T) T {
	if before, ok := c.objects[fmt.Sprintf("%T %s", o, o.GetName())].(T); ok {
		o.SetUID(before.GetUID())
		o.SetCreationTimestamp(before.GetCreationTimestamp())
	}
	return o
}

func (c *cluster) event() runtime.Object {
	switch n := c.random.IntN(12); {
	case n < 2:
		return c.node(c.random.IntN(nodes))
	case n < 7:
		return c.service(c.random.IntN(5))
	case n < 8:
		return c.apiServer()
	}
	return c.pod(c.random.IntN(6))
}

// node is one with a gateway of some kind, or none.
func (c *cluster) node(number int) *corev1.Node {
	o := again(c, &corev1.Node{ObjectMeta: c.meta("", nodeName(number))})
	o.Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", number), fmt.Sprintf("fd00:10:244:%d::/64", number)}
	o.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("203.0.113.1", number)}}
	facts := contract.NodeFacts{Chassis: fmt.Sprint("chassis-", number), MTU: 1442, OS: contract.Linux}
	gateway := &contract.Gateway{Network: "external", MAC: fmt.Sprintf("02:00:00:00:00:%02x", number),
		Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("203.0.113.1%d/24", number)),
			netip.MustParsePrefix(fmt.Sprintf("2001:db8::1%d/64", number))}}
	facts.Addresses = contract.Addrs(gateway.Addresses)
	switch c.random.IntN(6) {
	case 0:
	case 1: // a router with addresses of its own
		facts.Gateway = gateway
		gateway.Addresses = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("203.0.113.2%d/24", number))}
	default:
		facts.Gateway, gateway.HostAddresses = gateway, true
	}
	if c.random.IntN(3) == 0 { // a second network card
		facts.Addresses = append(facts.Addresses, netip.MustParseAddr(fmt.Sprint("198.18.0.1", number)))
	}
	facts.Listeners = c.listeners(facts.Addresses)
	o.Annotations = map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)}
	return o
}

var every = []netip.Addr{{}, {}, netip.IPv4Unspecified(), netip.IPv6Unspecified()}

// listeners are daemons of a host with some addresses: of all of these, of a family's, or of one.
func (c *cluster) listeners(addrs []netip.Addr) (list contract.Listeners) {
	for range c.random.IntN(4) {
		list = append(list, contract.Listener{Protocol: one(c, "tcp", "tcp", "udp"), Port: uint16(one(c, numbers...)),
			Addr: one(c, slices.Concat(addrs, every)...)})
	}
	return list
}

// Ports and addresses that more than one may want.
var (
	protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	numbers   = []int32{80, 8443, 30000, 30001, 31000}
	addresses = []string{"203.0.113.10", "203.0.113.11", "2001:db8::10", "2001:db8::11", "198.18.0.11", "203.0.113.20",
		"198.51.100.1", "2001:db8:5::1", "203.0.113.240", "192.0.2.200", "192.0.2.210", "192.0.2.99", "10.244.0.9",
		"255.255.255.255", "203.0.113.012"}
)

func (c *cluster) service(number int) *corev1.Service {
	o := again(c, &corev1.Service{ObjectMeta: c.meta("default", fmt.Sprint("s", number))})
	o.Spec.Type = one(c, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer,
		corev1.ServiceTypeLoadBalancer)
	v4, v6 := fmt.Sprint("10.96.0.1", number), fmt.Sprint("fd00:10:96::1", number)
	o.Spec.ClusterIPs = one(c, []string{v4}, []string{v4}, []string{v6}, []string{v4, v6})
	for _, ip := range o.Spec.ClusterIPs {
		o.Spec.IPFamilies = append(o.Spec.IPFamilies, map[bool]corev1.IPFamily{true: corev1.IPv4Protocol,
			false: corev1.IPv6Protocol}[strings.Contains(ip, ".")])
	}
	taken := map[string]bool{}
	for i := range 1 + c.random.IntN(3) {
		port := corev1.ServicePort{Name: fmt.Sprint("p", i), Port: one(c, append(numbers, 22)...),
			Protocol: one(c, protocols...)}
		if k := fmt.Sprint(port.Port, port.Protocol); taken[k] {
			continue
		} else {
			taken[k] = true
		}
		if o.Spec.Type != corev1.ServiceTypeClusterIP && c.random.IntN(3) > 0 {
			port.NodePort = one[int32](c, 30000, 30001, 31000)
			if k := fmt.Sprint("node port ", port.NodePort, port.Protocol); taken[k] {
				port.NodePort = 0
			} else {
				taken[k] = true
			}
		}
		o.Spec.Ports = append(o.Spec.Ports, port)
	}
	for range c.random.IntN(3) {
		o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, one(c, addresses...))
	}
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
		c.balance(o)
	}
	switch c.random.IntN(20) {
	case 0:
		o.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
	case 1:
		o.Labels = map[string]string{one(c, contract.ProxyNameLabel, contract.HeadlessLabel): ""}
	case 2:
		o.Spec.Type, o.Spec.ExternalName, o.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "example.net", nil
	}
	return o
}

// balance is what a load balancer's controller has made of a Service.
func (c *cluster) balance(o *corev1.Service) {
	if c.random.IntN(3) == 0 {
		o.Spec.LoadBalancerClass = new(one(c, v1alpha1.PoolClass, "example.net/other"))
	}
	for range c.random.IntN(3) {
		mode := one(c, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeVIP,
			corev1.LoadBalancerIPModeProxy)
		o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: one(c, addresses...), IPMode: &mode})
	}
	if c.random.IntN(3) == 0 {
		o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		number := one[int32](c, 30000, 31000, 31001)
		// as the API server has it
		if !slices.ContainsFunc(o.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == number }) {
			o.Spec.HealthCheckNodePort = number
		}
	}
}

// apiServer says where the API server is: on hosts, or behind an address outside, or nowhere that is known.
func (c *cluster) apiServer() *discoveryv1.EndpointSlice {
	o := again(c, &discoveryv1.EndpointSlice{ObjectMeta: c.meta("default", "kubernetes"),
		AddressType: discoveryv1.AddressTypeIPv4})
	o.Labels = map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
	protocol, number := corev1.ProtocolTCP, one[int32](c, 8443, 6443)
	o.Ports = []discoveryv1.EndpointPort{{Name: new("https"), Port: &number, Protocol: &protocol}}
	o.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{one(c, "203.0.113.10", "203.0.113.11", "192.0.2.99")}}}
	return o
}

// pod is one with hostPorts. What a pod has it keeps.
func (c *cluster) pod(number int) *corev1.Pod {
	on := c.random.IntN(nodes)
	o := &corev1.Pod{ObjectMeta: c.meta("default", fmt.Sprint("p", number)), Spec: corev1.PodSpec{NodeName: nodeName(on)}}
	if before, ok := c.objects[keyOf(o)].(*corev1.Pod); ok {
		return before
	}
	var ports []corev1.ContainerPort
	for range 1 + c.random.IntN(3) {
		port := corev1.ContainerPort{ContainerPort: one[int32](c, 80, 81), HostPort: one(c, numbers...),
			Protocol: one(c, protocols...)}
		if c.random.IntN(3) == 0 {
			port.HostIP = one(c, fmt.Sprint("203.0.113.1", on), fmt.Sprint("2001:db8::1", on), fmt.Sprint("198.18.0.1", on),
				"127.0.0.1", "0.0.0.0", "::", "203.0.113.99")
		}
		if !slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { // as the API server has it
			return p.HostPort == port.HostPort && p.Protocol == port.Protocol && p.HostIP == port.HostIP
		}) {
			ports = append(ports, port)
		}
	}
	o.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Ports: ports}}
	return o
}

// agent is a node's, with what it has heard of.
func (c *cluster) agent(number int) (r hostservice.Rehearsal, facts contract.NodeFacts, err error) {
	r.Node = nodeName(number)
	for _, o := range c.objects {
		switch o := o.(type) {
		case *corev1.Node:
			if r.Objects = append(r.Objects, o); o.Name != nodeName(number) {
				continue
			}
			if facts, _, err = contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation); err != nil {
				return r, facts, err
			}
			r.Listeners = facts.Listeners
			r.Host = hostservice.Host{Addresses: facts.Addresses, Network: c.networks[o.Name], Management: true,
				Router: facts.Gateway != nil, SCTP: true}
			if facts.Gateway != nil {
				r.Host.Reserved = contract.Addrs(facts.Gateway.Addresses)
				if !facts.Gateway.HostAddresses {
					r.Host.Routers = r.Host.Reserved
				}
			}
		case *corev1.Service, *discoveryv1.EndpointSlice:
			r.Objects = append(r.Objects, o)
		case *corev1.Pod:
			if o.Spec.NodeName == nodeName(number) && o.Annotations != nil {
				r.Pods = append(r.Pods, agentPod(o))
			}
		}
	}
	return r, facts, nil
}

// agentPod is a pod as an agent reads it.
func agentPod(o *corev1.Pod) hostservice.Pod {
	// what write has taken over
	network, _, _ := contract.Parse[contract.PodNetwork](o.Annotations, contract.PodNetworkAnnotation)
	p := hostservice.Pod{Namespace: o.Namespace, Name: o.Name, UID: o.UID, Created: o.CreationTimestamp.Time,
		Addresses: contract.Addrs(network.Addresses)}
	for _, port := range o.Spec.Containers[0].Ports {
		if at, ok := contract.HostIP(port.HostIP); ok {
			p.Ports = append(p.Ports, hostservice.PodPort{HostIP: at, HostPort: uint16(port.HostPort),
				Port: uint16(port.ContainerPort), Protocol: strings.ToLower(string(port.Protocol))})
		}
	}
	return p
}
