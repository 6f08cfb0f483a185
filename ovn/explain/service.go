package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/endpointslice"
)

// front is what clients know a Service by: an address and one of its ports.
type front struct {
	*corev1.Service
	port corev1.ServicePort
	// at is the address and port that were asked for; the zero one stands for its ClusterIPs.
	at   netip.AddrPort
	sort sort
	node string // whose NodePort it is
}

// sort is one of addresses.
type sort string

const (
	clusterIP    sort = "a ClusterIP"
	externalIP   sort = "an external address"
	loadBalancer sort = "the load balancer's address"
	nodePort     sort = "a NodePort"
)

// text says whose an address is that was asked for.
func (f *front) text() string {
	if !f.at.IsValid() {
		return ""
	}
	what := string(f.sort)
	if f.node != "" {
		what = "Node " + f.node + "'s NodePort"
	}
	return fmt.Sprintf("%s is %s of Service %s: this is about each of its ready endpoints", f.at, what, f.key())
}

func (f *front) key() string { return f.Namespace + "/" + f.Name }

// front is the Service that a question leads to, nil if that is none.
func (c *Cluster) front(q Question) (*front, error) {
	if !q.To.Service {
		return c.frontAt(q)
	}
	s := c.services[q.To.Key()]
	if s == nil {
		return nil, fmt.Errorf("there is no Service %s", q.To.Key())
	}
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return uint16(p.Port) == q.Port && protocolOf(&p.Protocol) == q.Protocol
	})
	if i < 0 {
		return nil, fmt.Errorf("the Service %s has no port %d/%s", q.To.Key(), q.Port, q.Protocol)
	}
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil, fmt.Errorf("the Service %s has no ClusterIP; ask about its pods", q.To.Key())
	}
	return &front{Service: s, port: s.Spec.Ports[i], sort: clusterIP}, nil
}

// frontAt is the Service that is to be had at the address that a question is about.
func (c *Cluster) frontAt(q Question) (*front, error) {
	addr := q.To.Addr
	if !addr.IsValid() || c.podAt(addr) != nil {
		return nil, nil
	}
	for _, s := range c.byAge() {
		has := sortOf(s, addr)
		if has == clusterIP && q.Protocol == icmp {
			return nil, fmt.Errorf("%s is a ClusterIP of Service %s/%s, and Services have no ICMP; ask one of its pods", addr, s.Namespace, s.Name)
		}
		for _, port := range s.Spec.Ports {
			f := &front{Service: s, port: port, at: netip.AddrPortFrom(addr, q.Port), sort: has}
			switch {
			case protocolOf(&port.Protocol) != q.Protocol || c.nodes[addr] != "" && contract.HostsOwn(q.Protocol, q.Port):
			case has != "" && uint16(port.Port) == q.Port:
				return f, nil
			case port.NodePort != 0 && uint16(port.NodePort) == q.Port && c.nodePortsOf(addr) != "" && isOf(s, addr):
				f.sort, f.node = nodePort, c.nodePortsOf(addr)
				return f, nil
			}
		}
		if has == clusterIP {
			return nil, fmt.Errorf("%s is a ClusterIP of Service %s/%s, which has no port %d/%s; ask for one of its ports: %s", addr, s.Namespace, s.Name, q.Port, q.Protocol, portsOf(s))
		}
	}
	return nil, c.unserved(addr)
}

// unserved says of an address in the Services' ranges that none has it.
func (c *Cluster) unserved(addr netip.Addr) error {
	i := slices.IndexFunc(c.ranges, func(p netip.Prefix) bool { return p.Contains(addr) })
	switch {
	case i < 0:
		return nil
	case c.running:
		return fmt.Errorf("%s is in the Services' range %s, and no Service has it; ask for one that is there, as svc/NAMESPACE/NAME:PORT", addr, c.ranges[i])
	}
	return fmt.Errorf("%s is in the Services' range %s, and manifests do not say where a Service leads; ask about its pods, at their own port", addr, c.ranges[i])
}

// byAge are the Services that weft serves, the older first: of two that want one address and port it has it.
func (c *Cluster) byAge() []*corev1.Service {
	var list []*corev1.Service
	for _, s := range c.services {
		if !contract.Unserved(s.Labels) && s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// sortOf is what an address is of a Service's, "" if none.
func sortOf(s *corev1.Service, addr netip.Addr) sort {
	is := func(text string) bool {
		other, err := netip.ParseAddr(text)
		return err == nil && other.Unmap() == addr
	}
	switch {
	case slices.ContainsFunc(s.Spec.ClusterIPs, is):
		return clusterIP
	case !isOf(s, addr):
	case slices.ContainsFunc(s.Spec.ExternalIPs, is):
		return externalIP
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer && slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		return ptr.Deref(i.IPMode, corev1.LoadBalancerIPModeVIP) == corev1.LoadBalancerIPModeVIP && is(i.IP)
	}):
		return loadBalancer
	}
	return ""
}

// isOf says whether a Service is of an address' family.
func isOf(s *corev1.Service, addr netip.Addr) bool {
	return slices.ContainsFunc(s.Spec.ClusterIPs, func(text string) bool { return strings.Contains(text, ":") == addr.Is6() })
}

func portsOf(s *corev1.Service) string {
	var list []string
	for _, p := range s.Spec.Ports {
		list = append(list, fmt.Sprintf("%d/%s", p.Port, protocolOf(&p.Protocol)))
	}
	return listing(list)
}

// target is a connection's second end.
type target struct {
	*pod
	number uint16
	vip    netip.AddrPort // of the Service that leads there
	// gateway is what stands between, nil if the client's own switch has the Service's load balancer.
	gateway *gateway
	// barredBy is the Service that does not admit the client.
	barredBy string
}

// targets are the pods that a connection may reach.
func (c *Cluster) targets(q Question, f *front, from *pod) ([]target, error) {
	if f == nil {
		p, err := c.end(q.To)
		if err != nil {
			return nil, err
		}
		if q.To.Addr.IsValid() { // it may be one of several that the pod has
			p = p.alone(q.To.Addr)
		}
		return []target{{pod: p, number: q.Port}}, nil
	}
	gateway, err := c.gatewayOf(f, from)
	if err != nil {
		return nil, err
	}
	var list []target
	for _, slice := range c.slices[f.key()] {
		for _, port := range slice.Ports {
			if port.Port == nil || protocolOf(port.Protocol) != q.Protocol || ptr.Deref(port.Name, "") != f.port.Name {
				continue
			}
			if number, bad := endpointslice.ParsePort(*port.Port); bad == "" {
				list = append(list, c.endpoints(f, slice, number, gateway)...)
			}
		}
	}
	if len(list) == 0 {
		on := ""
		if gateway != nil && gateway.local && f.node != "" {
			on = " on Node " + f.node + ", and externalTrafficPolicy is Local"
		}
		return nil, fmt.Errorf("the Service %s has no ready endpoint for port %d/%s%s", f.key(), f.port.Port, q.Protocol, on)
	}
	for i := range list {
		if f.sort == loadBalancer && !c.admitted(f, from) {
			list[i].barredBy = f.key()
		}
	}
	slices.SortFunc(list, func(a, b target) int { return a.addresses[0].Compare(b.addresses[0]) })
	return list, nil
}

// alone is a pod with one of its addresses.
func (p *pod) alone(addr netip.Addr) *pod {
	alone := *p
	alone.addresses = []netip.Addr{addr}
	return &alone
}

// endpoints are those of a slice that are ready, behind the Service's address of their family.
func (c *Cluster) endpoints(f *front, slice *discoveryv1.EndpointSlice, number uint16, by *gateway) []target {
	var list []target
	for _, endpoint := range slice.Endpoints {
		elsewhere := by != nil && by.local && f.node != "" && ptr.Deref(endpoint.NodeName, "") != f.node
		if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready || elsewhere {
			continue
		}
		for _, text := range endpoint.Addresses {
			addr, bad := endpointslice.ParseAddr(text, slice.AddressType == discoveryv1.AddressTypeIPv6)
			if bad != "" || f.at.IsValid() && f.at.Addr().Is4() != addr.Is4() {
				continue // a domain name's slice, or another family's
			}
			p, _ := c.end(End{Addr: addr}) // there is always one
			t := target{pod: p.alone(addr), number: number, vip: f.at, gateway: by}
			for _, text := range f.Spec.ClusterIPs {
				if vip, err := netip.ParseAddr(text); err == nil && vip.Is4() == addr.Is4() && !f.at.IsValid() {
					t.vip = netip.AddrPortFrom(vip, uint16(f.port.Port))
				}
			}
			list = append(list, t)
		}
	}
	return list
}

// admitted says whether a Service's source ranges have a client, or the client is a node's host.
func (c *Cluster) admitted(f *front, from *pod) bool {
	if len(f.Spec.LoadBalancerSourceRanges) == 0 || from.why != "" && from.port != "" {
		return true
	}
	return slices.ContainsFunc(f.Spec.LoadBalancerSourceRanges, func(text string) bool {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		return err == nil && slices.ContainsFunc(from.addresses, func(a netip.Addr) bool { return a.Is4() == f.at.Addr().Is4() && p.Contains(a) })
	})
}

// protocolOf is a port's, as a question names it.
func protocolOf(p *corev1.Protocol) string {
	if p == nil || *p == "" {
		return "tcp"
	}
	return strings.ToLower(string(*p))
}
