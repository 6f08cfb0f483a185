package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/services"
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
	return fmt.Sprintf("%s is %s of Service %s: this is about each endpoint that the client may get", f.at, what, f.key())
}

func (f *front) key() string { return f.Namespace + "/" + f.Name }

// front is the Service that a question leads to, nil if that is none.
func (c *Cluster) front(q Question, from *pod) (*front, error) {
	if !q.To.Service {
		return c.frontAt(q, from)
	}
	s := c.services[q.To.Key()]
	if s == nil {
		return nil, fmt.Errorf("there is no Service %s", q.To.Key())
	}
	if contract.Unserved(s.Labels) {
		return nil, fmt.Errorf("the Service %s has a label (%s or %s) that leaves it to somebody else, and weft does not "+
			"serve it; ask about its pods", q.To.Key(), contract.ProxyNameLabel, contract.HeadlessLabel)
	}
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil, fmt.Errorf("the Service %s has no ClusterIP; ask about its pods", q.To.Key())
	}
	port, err := q.portOf(s)
	if err != nil {
		return nil, err
	}
	return &front{Service: s, port: port, sort: clusterIP}, nil
}

// portOf is the port of a Service that a question means.
func (q *Question) portOf(s *corev1.Service) (corev1.ServicePort, error) {
	var fitting []corev1.ServicePort
	for _, p := range s.Spec.Ports {
		if (q.Port == 0 || q.Port == uint16(p.Port)) && (q.PortName == "" || q.PortName == p.Name) &&
			(q.Protocol == "" || q.Protocol == protocolOf(&p.Protocol)) {
			fitting = append(fitting, p)
		}
	}
	key := s.Namespace + "/" + s.Name
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) > 1:
		return corev1.ServicePort{}, fmt.Errorf("the Service %s has %d ports; name one of them: %s", key, len(fitting),
			portsOf(s))
	}
	asked := strings.TrimPrefix(q.destination(), q.To.String()+":")
	return corev1.ServicePort{}, fmt.Errorf("the Service %s has no port %s; ask for one of its ports: %s", key, asked,
		portsOf(s))
}

// frontAt is the Service that is to be had at the address that a question is about.
func (c *Cluster) frontAt(q Question, from *pod) (*front, error) {
	addr := q.To.Addr
	if !addr.IsValid() || c.podAt(addr) != nil {
		return nil, nil
	}
	at := netip.AddrPortFrom(addr, q.Port)
	for _, door := range c.nodes.doors(addr, from) {
		b, ok := c.balanced.Behind(q.Protocol, at, door)
		if !ok {
			continue
		}
		s := c.services[b.Service]
		i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			return p.Name == b.Port && protocolOf(&p.Protocol) == q.Protocol
		})
		f := &front{Service: s, port: s.Spec.Ports[i], at: at, sort: sortOf(s, addr)}
		if b.NodePort {
			f.sort, f.node = nodePort, c.nodes.nodePortsOf(addr)
		}
		return f, nil
	}
	for _, s := range c.byAge() {
		switch has := sortOf(s, addr); {
		case has == clusterIP && q.Protocol == icmp:
			return nil, fmt.Errorf("%s is a ClusterIP of Service %s/%s, and Services have no ICMP; ask one of its pods", addr,
				s.Namespace, s.Name)
		case has == clusterIP:
			return nil, fmt.Errorf("%s is a ClusterIP of Service %s/%s, which has no port %d/%s; ask for one of its ports: %s",
				addr, s.Namespace, s.Name, q.Port, q.Protocol, portsOf(s))
		}
	}
	return nil, c.unserved(addr)
}

// unserved says of an address in the Services' ranges that none has it.
func (c *Cluster) unserved(addr netip.Addr) error {
	i := slices.IndexFunc(c.nodes.ranges, func(p netip.Prefix) bool { return p.Contains(addr) })
	switch {
	case i < 0:
		return nil
	case c.running:
		return fmt.Errorf("%s is in the Services' range %s, and no Service has it; ask for one that is there, as "+
			"svc/NAMESPACE/NAME:PORT", addr, c.nodes.ranges[i])
	}
	return fmt.Errorf("%s is in the Services' range %s, and manifests do not say where a Service leads; ask about its "+
		"pods, at their own port", addr, c.nodes.ranges[i])
}

// byAge are the Services that weft serves, the older first: of two that want one address and port it has it.
func (c *Cluster) byAge() []*corev1.Service {
	var list []*corev1.Service
	for _, s := range c.services {
		if !contract.Unserved(s.Labels) && s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != "" &&
			s.Spec.ClusterIP != corev1.ClusterIPNone {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
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
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer && slices.ContainsFunc(s.Status.LoadBalancer.Ingress,
		func(i corev1.LoadBalancerIngress) bool {
			return ptr.Deref(i.IPMode, corev1.LoadBalancerIPModeVIP) == corev1.LoadBalancerIPModeVIP && is(i.IP)
		}):
		return loadBalancer
	}
	return ""
}

// isOf says whether a Service is of an address' family.
func isOf(s *corev1.Service, addr netip.Addr) bool {
	return slices.ContainsFunc(s.Spec.ClusterIPs, func(text string) bool {
		return strings.Contains(text, ":") == addr.Is6()
	})
}

func portsOf(s *corev1.Service) string {
	var list []string
	for _, p := range s.Spec.Ports {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d/%s", p.Name, p.Port, protocolOf(&p.Protocol))))
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
	gateway, err := c.nodes.gatewayOf(f, from)
	if err != nil {
		return nil, err
	}
	list := c.behind(q, f, from, gateway)
	if len(list) == 0 {
		return nil, fmt.Errorf("the Service %s has no ready endpoint for port %d/%s%s", f.key(), f.port.Port, q.Protocol,
			f.where(from, gateway))
	}
	for i := range list {
		if f.sort == loadBalancer && !f.admits(from) {
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

// where says that only some endpoints count, if it is so.
func (f *front) where(from *pod, by *gateway) string {
	internal := ptr.Deref(f.Spec.InternalTrafficPolicy,
		corev1.ServiceInternalTrafficPolicyCluster) == corev1.ServiceInternalTrafficPolicyLocal
	switch {
	case by != nil && by.local && f.node != "":
		return " on Node " + f.node + ", and externalTrafficPolicy is Local"
	case by == nil && f.sort == clusterIP && internal:
		return " on Node " + from.node + ", and internalTrafficPolicy is Local"
	}
	return ""
}

// behind are the endpoints that a client gets: as the rows of the Service have them where it comes by.
func (c *Cluster) behind(q Question, f *front, from *pod, by *gateway) []target {
	asked := []netip.AddrPort{f.at}
	if !f.at.IsValid() {
		asked = nil
		for _, text := range f.Spec.ClusterIPs {
			if vip, err := netip.ParseAddr(text); err == nil {
				asked = append(asked, netip.AddrPortFrom(vip, uint16(f.port.Port)))
			}
		}
	}
	doors := []services.Door{{Node: from.node}}
	switch {
	case by != nil && f.node != "":
		doors = []services.Door{{Node: by.node, Outside: true}}
	case by != nil: // any that has one
		doors = nil
		for _, node := range slices.Sorted(maps.Keys(c.nodes.gates)) {
			doors = append(doors, services.Door{Node: node, Outside: true})
		}
	}
	var list []target
	for _, vip := range asked {
		known := map[netip.AddrPort]bool{}
		for _, door := range doors {
			b, _ := c.balanced.Behind(q.Protocol, vip, door)
			for _, at := range b.Endpoints {
				if known[at] {
					continue
				}
				known[at] = true
				p, _ := c.end(End{Addr: at.Addr()}) // there is always one
				list = append(list, target{pod: p.alone(at.Addr()), number: at.Port(), vip: vip, gateway: by})
			}
		}
	}
	return list
}

// admits says whether a Service's source ranges have a client, or the client is a node's host.
func (f *front) admits(from *pod) bool {
	if len(f.Spec.LoadBalancerSourceRanges) == 0 || from.why != "" && from.port != "" {
		return true
	}
	return slices.ContainsFunc(f.Spec.LoadBalancerSourceRanges, func(text string) bool {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		return err == nil && slices.ContainsFunc(from.addresses, func(a netip.Addr) bool {
			return a.Is4() == f.at.Addr().Is4() && p.Contains(a)
		})
	})
}

// protocolOf is a port's, as a question names it.
func protocolOf(p *corev1.Protocol) string {
	if p == nil || *p == "" {
		return "tcp"
	}
	return strings.ToLower(string(*p))
}
