package hostservice

import (
	"errors"
	"net/netip"

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
	s := &slice{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
		service: o.Labels[discoveryv1.LabelServiceName], ipv6: o.AddressType == discoveryv1.AddressTypeIPv6}
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
// shall look for another node in time.
func countReady(slices []*slice, node string) int {
	families := [2]map[netip.Addr]struct{}{{}, {}}
	for _, s := range slices {
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
func (s *served) look() (at netip.AddrPort, node *string, c endpointslice.Conditions) {
	return s.at, &s.node, s.Conditions
}

// serving are the endpoints of a Service's port that get traffic, sorted: the controller's choice. Those at the port of
// hosts' tunnels are OVN's to reach, which knows hosts' from pods': what the agent sends has the host's address, and tunnels
// believe that.
func serving(all []*slice, port servicePort, ipv4, publishNotReady bool) []served {
	var list []served
	for _, s := range all {
		for _, p := range s.ports {
			if s.ipv6 == ipv4 || p.name != port.name || p.protocol != port.protocol || p.protocol == udp && p.port == contract.TunnelPort {
				continue
			}
			for _, e := range s.endpoints {
				list = append(list, served{netip.AddrPortFrom(e.addr, p.port), e.node, e.Conditions})
			}
		}
	}
	return endpointslice.Choose(endpointslice.Once(list, (*served).look), (*served).look, publishNotReady)
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
		informer.AddIndexers(cache.Indexers{byService: func(object any) ([]string, error) { return []string{object.(*slice).key()}, nil }}),
		informer.SetWatchErrorHandlerWithContext(forbidden("endpointslices")))
}

// key is its Service's.
func (s *slice) key() string { return s.Namespace + "/" + s.service }
