package hostservice

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/endpointslice"
)

// slice is an EndpointSlice cut down to what its hosts do for it.
type slice struct {
	metav1.ObjectMeta
	service   string // its name
	ipv6      bool
	ports     []slicePort
	endpoints []endpoint
}

type slicePort struct {
	name     string
	protocol string
	port     uint16
}

type endpoint struct {
	addr netip.Addr
	node string // "": on none
	endpointslice.Conditions
}

// trimSlice is the informers' transform.
func trimSlice(object any) (any, error) {
	o, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	s := &slice{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.ResourceVersion},
		service: o.Labels[discoveryv1.LabelServiceName], ipv6: o.AddressType == discoveryv1.AddressTypeIPv6}
	if contract.Unserved(o.Labels) || o.AddressType == discoveryv1.AddressTypeFQDN {
		return s, nil
	}
	for _, p := range o.Ports {
		if p.Port == nil {
			continue
		}
		number, bad := endpointslice.ParsePort(*p.Port) // the controller tells of one
		if bad != "" {
			continue
		}
		port := slicePort{protocol: tcp, port: number}
		if p.Name != nil {
			port.name = *p.Name
		}
		if p.Protocol != nil {
			port.protocol = protocolOf(*p.Protocol)
		}
		s.ports = append(s.ports, port)
	}
	for _, e := range o.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		addr, bad := endpointslice.ParseAddr(e.Addresses[0], s.ipv6)
		if bad != "" {
			continue
		}
		one := endpoint{addr: addr, Conditions: endpointslice.ReadConditions(e.Conditions)}
		if e.NodeName != nil {
			one.node = *e.NodeName
		}
		s.endpoints = append(s.endpoints, one)
	}
	return s, nil
}

// countReady is the number of a node's ready endpoints. A pod of a dual-stack Service is in a slice of each
// family, and counts once. One that still serves while it terminates does not: a load balancer outside
// must look for another node in time.
func countReady(all []*slice, node string) int {
	families := [2]map[netip.Addr]struct{}{{}, {}}
	for _, s := range all {
		family := families[0]
		if s.ipv6 {
			family = families[1]
		}
		for _, e := range s.endpoints {
			if e.Ready && e.node == node {
				family[e.addr] = struct{}{}
			}
		}
	}
	return max(len(families[0]), len(families[1]))
}

// served is an endpoint at the port that a Service's port stands for.
type served struct {
	at   netip.AddrPort
	node string
	endpointslice.Conditions
}

// look is an [endpointslice.Look].
func (e *endpoint) look() (addr netip.Addr, node string, c endpointslice.Conditions) {
	return e.addr, e.node, e.Conditions
}

// endpointsKey finds the endpoints of a Service's port.
type endpointsKey struct {
	name, protocol string
	ipv4           bool
}

// endpointsOf are a Service's, of all slices.
type endpointsOf = endpointslice.Behind[endpointsKey, endpoint]

// behind is what slices say of a Service's endpoints. As with the controller's, hosts' tunnels are none: pods may have
// their port to themselves.
func behind(all []*slice, pods []netip.Prefix) *endpointsOf {
	found := endpointslice.NewBehind[endpointsKey]((*endpoint).look)
	for _, s := range all {
		list, ofPods := make([]*endpoint, len(s.endpoints)), []*endpoint(nil)
		for i := range s.endpoints {
			if list[i] = &s.endpoints[i]; contain(pods, list[i].addr) {
				ofPods = append(ofPods, list[i])
			}
		}
		numbers, tunnels := map[endpointsKey]uint16{}, map[endpointsKey]uint16{}
		for _, p := range s.ports {
			of := numbers
			if isTunnel(p.protocol, p.port) {
				of = tunnels
			}
			of[endpointsKey{p.name, p.protocol, !s.ipv6}] = p.port
		}
		found.Add(list, maps.All(numbers))
		if len(tunnels) > 0 {
			found.Add(ofPods, maps.All(tunnels))
		}
	}
	return found
}

// isTunnel says whether a port is that of hosts' tunnels.
func isTunnel(protocol string, number uint16) bool {
	return protocol == udp && number == contract.TunnelPort
}

// serving are the endpoints of a Service's port that get traffic, so many at most, sorted: the controller's choice.
// Those at the port of hosts' tunnels are OVN's to reach, which knows hosts' from pods': what the agent sends has the
// host's address, and tunnels believe that.
func serving(from *endpointsOf, port endpointsKey, most int, publishNotReady bool) []served {
	var list []served
	for _, e := range from.First(port, most, nil) {
		list = append(list, served{e.At, e.Node, e.Of.Conditions})
	}
	list = endpointslice.Choose(list, func(s *served) endpointslice.Conditions { return s.Conditions }, publishNotReady)
	return slices.DeleteFunc(list, func(s served) bool { return isTunnel(port.protocol, s.at.Port()) })
}

// byService is the index of slices by "namespace/name" of their Services.
const byService = "service"

// newSlices watches the slices of Services with some labels: one watch, however many of them are to be followed, as
// whoever may write Services can have thousands.
func newSlices(client kubernetes.Interface, namespace, labels string) (cache.SharedIndexInformer, error) {
	informer := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = labels }),
		informers.WithTransform(trimSlice),
	).Discovery().V1().EndpointSlices().Informer()
	return informer, errors.Join(
		informer.AddIndexers(cache.Indexers{byService: func(object any) ([]string, error) {
			return []string{object.(*slice).key()}, nil
		}}),
		informer.SetWatchErrorHandlerWithContext(forbidden("endpointslices")))
}

// key is its Service's.
func (s *slice) key() string { return s.Namespace + "/" + s.service }
