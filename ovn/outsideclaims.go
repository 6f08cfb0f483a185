package ovn

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// claim is a port outside of the cluster that a Service wants to be reached by: of one address, or of
// every node where the address is the zero one. One Service can have it.
type claim struct {
	addr     netip.Addr
	port     uint16
	protocol protocol
}

func (c claim) String() string {
	if !c.addr.IsValid() {
		return fmt.Sprintf("node port %d/%s", c.port, c.protocol)
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(c.addr, c.port), c.protocol)
}

func (c claim) compare(o claim) int {
	return cmp.Or(c.addr.Compare(o.addr), cmp.Compare(c.port, o.port), cmp.Compare(c.protocol, o.protocol))
}

// everywhere is the claim to the same port of every node.
func (c claim) everywhere() claim { return claim{port: c.port, protocol: c.protocol} }

// claims are all that a Service wants, sorted.
func (s *service) claims() []claim {
	if s == nil || s.ignored || s.isInside() {
		return nil
	}
	var list []claim
	for _, p := range s.nodePorts {
		list = append(list, claim{port: p.number, protocol: p.protocol})
	}
	if s.healthPort != 0 {
		list = append(list, claim{port: s.healthPort, protocol: "tcp"})
	}
	for _, p := range s.ports {
		for _, addr := range s.outside() {
			list = append(list, claim{addr, p.port, p.protocol})
		}
	}
	slices.SortFunc(list, claim.compare)
	return slices.Compact(list)
}

// isInside says that a Service has nothing outside, as most have not.
func (s *service) isInside() bool {
	return len(s.nodePorts)+len(s.externalIPs)+len(s.ingress)+s.leftOut == 0 && s.healthPort == 0
}

// outside are the addresses that a Service is to have outside, of the families that it has.
func (s *service) outside() []netip.Addr {
	return slices.DeleteFunc(s.externalAddresses(), func(a netip.Addr) bool { return !s.isOf(a.Is4()) })
}

// isCheck says whether a claim is that of a Service's health check, which every node's agent answers at all
// its addresses, of both families.
func (s *service) isCheck(c claim) bool {
	return c == (claim{port: s.healthPort, protocol: "tcp"})
}

// fieldOf is where a Service has a claim from.
func (s *service) fieldOf(c claim) string {
	switch {
	case s.isCheck(c):
		return "spec.healthCheckNodePort"
	case !c.addr.IsValid():
		return "spec.ports[].nodePort"
	case slices.Contains(s.externalIPs, c.addr):
		return "spec.externalIPs"
	}
	return "status.loadBalancer.ingress"
}

// hasAt says whether a Service that has a claim has it at an address.
func (s *service) hasAt(c claim, addr netip.Addr) bool {
	return s.isOf(addr.Is4()) || s.isCheck(c)
}

// otherAt is the field by which a Service has a node's port for something else than it wants there by a claim; ""
// where both are one port of the Service.
func (s *service) otherAt(wanted claim) string {
	if s.isCheck(wanted.everywhere()) {
		return "spec.healthCheckNodePort"
	}
	if slices.ContainsFunc(s.nodePorts, func(p nodePort) bool {
		return p.number == wanted.port && p.protocol == wanted.protocol && p.servicePort.port == wanted.port
	}) {
		return ""
	}
	return "spec.ports[].nodePort"
}

// portsAt are the ports that a Service has of an address outside.
func (s *service) portsAt(addr netip.Addr) []servicePort {
	if s.denied == nil {
		return s.ports
	}
	return slices.DeleteFunc(slices.Clone(s.ports), func(p servicePort) bool {
		wanted := claim{addr, p.port, p.protocol}
		_, doubled := s.denied.doubled[wanted]
		return doubled || s.denied.denies(wanted)
	})
}

// denial is what a Service wants and does not get.
type denial struct {
	claims    map[claim]struct{}
	addresses map[netip.Addr]struct{}
	// doubled are claims to addresses outside that the Service has anyway, by a NodePort of its.
	doubled map[claim]struct{}
	told    []claim // that another Service has, as the owner is told
}

func (d *denial) denies(c claim) bool {
	if d == nil {
		return false
	}
	_, address := d.addresses[c.addr]
	_, port := d.claims[c]
	return address || port
}

// portName is that of a Service's port with a number, or with a NodePort.
func (s *service) portName(kind protocol, number uint16, onNodes bool) string {
	if onNodes {
		i := slices.IndexFunc(s.nodePorts, func(p nodePort) bool { return p.protocol == kind && p.number == number })
		return s.nodePorts[i].name
	}
	i := slices.IndexFunc(s.ports, func(p servicePort) bool { return p.protocol == kind && p.port == number })
	return s.ports[i].name
}

// isOf says whether a Service is of an address family.
func (s *service) isOf(ipv4 bool) bool {
	return slices.ContainsFunc(s.clusterIPs, func(ip netip.Addr) bool { return ip.Is4() == ipv4 })
}

// externalAddresses are those by which a Service is known outside, each once.
func (s *service) externalAddresses() []netip.Addr {
	list := slices.Concat(s.externalIPs, s.ingress)
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// uses says whether a Service has a port of a protocol.
func (s *service) uses(kind protocol) bool {
	return slices.ContainsFunc(s.ports, func(p servicePort) bool { return p.protocol == kind })
}

// first is a Service with so many of its ports.
func (s *service) first(ports int) *service {
	if ports >= len(s.ports) {
		return s
	}
	part := *s
	part.ports = s.ports[:ports]
	part.nodePorts = slices.DeleteFunc(slices.Clone(s.nodePorts), func(p nodePort) bool {
		return !slices.Contains(part.ports, p.servicePort)
	})
	return &part
}

// affinityTimeout is OVN's option of that name.
func (s *service) affinityTimeout() string { return strconv.Itoa(min(s.stickySeconds, maxSticky)) }

// maxSticky is the longest, in seconds, that OVN keeps a client at its endpoint: an OpenFlow idle timeout
// has 16 bits, while Kubernetes allows a day.
const maxSticky = 1<<16 - 1

// claim is what a pod wants by a host port; one of all addresses wants it everywhere on its node.
func (h hostPort) claim() claim { return claim{h.ip, h.port, h.protocol} }
