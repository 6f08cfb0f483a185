package objects

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Claim is a port outside of the cluster that a Service wants to be reached by: of one address, or of
// every node where the address is the zero one. One Service can have it.
type Claim struct {
	Addr     netip.Addr
	Port     uint16
	Protocol Protocol
}

func (c Claim) String() string {
	if !c.Addr.IsValid() {
		return fmt.Sprintf("node port %d/%s", c.Port, c.Protocol)
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(c.Addr, c.Port), c.Protocol)
}

func (c Claim) Compare(o Claim) int {
	return cmp.Or(c.Addr.Compare(o.Addr), cmp.Compare(c.Port, o.Port), cmp.Compare(c.Protocol, o.Protocol))
}

// Everywhere is the claim to the same port of every node.
func (c Claim) Everywhere() Claim { return Claim{Port: c.Port, Protocol: c.Protocol} }

// Claims are all that a Service wants, sorted.
func (s *Service) Claims() []Claim {
	if s == nil || s.Ignored || s.IsInside() {
		return nil
	}
	var list []Claim
	for _, p := range s.NodePorts {
		list = append(list, Claim{Port: p.Number, Protocol: p.Protocol})
	}
	if s.HealthPort != 0 {
		list = append(list, Claim{Port: s.HealthPort, Protocol: "tcp"})
	}
	for _, p := range s.Ports {
		for _, addr := range s.Outside() {
			list = append(list, Claim{addr, p.Port, p.Protocol})
		}
	}
	slices.SortFunc(list, Claim.Compare)
	return slices.Compact(list)
}

// IsInside says that a Service has nothing outside, as most have not.
func (s *Service) IsInside() bool {
	return len(s.NodePorts)+len(s.ExternalIPs)+len(s.Ingress)+s.LeftOut == 0 && s.HealthPort == 0
}

// Outside are the addresses that a Service is to have outside, of the families that it has.
func (s *Service) Outside() []netip.Addr {
	return slices.DeleteFunc(s.ExternalAddresses(), func(a netip.Addr) bool { return !s.HasFamily(a.Is4()) })
}

// isCheck says whether a claim is that of a Service's health check, which every node's agent answers at all
// its addresses, of both families.
func (s *Service) isCheck(c Claim) bool {
	return c == (Claim{Port: s.HealthPort, Protocol: "tcp"})
}

// FieldOf is where a Service has a claim from.
func (s *Service) FieldOf(c Claim) string {
	switch {
	case s.isCheck(c):
		return "spec.healthCheckNodePort"
	case !c.Addr.IsValid():
		return "spec.ports[].nodePort"
	case slices.Contains(s.ExternalIPs, c.Addr):
		return "spec.externalIPs"
	}
	return "status.loadBalancer.ingress"
}

// HasAt says whether a Service that has a claim has it at an address.
func (s *Service) HasAt(c Claim, addr netip.Addr) bool {
	return s.HasFamily(addr.Is4()) || s.isCheck(c)
}

// OtherAt is the field by which a Service has a node's port for something else than it wants there by a claim; ""
// where both are one port of the Service.
func (s *Service) OtherAt(wanted Claim) string {
	if s.isCheck(wanted.Everywhere()) {
		return "spec.healthCheckNodePort"
	}
	if slices.ContainsFunc(s.NodePorts, func(p NodePort) bool {
		return p.Number == wanted.Port && p.Protocol == wanted.Protocol && p.ServicePort.Port == wanted.Port
	}) {
		return ""
	}
	return "spec.ports[].nodePort"
}

// PortsAt are the ports that a Service has of an address outside.
func (s *Service) PortsAt(addr netip.Addr) []ServicePort {
	if s.Rejected == nil {
		return s.Ports
	}
	return slices.DeleteFunc(slices.Clone(s.Ports), func(p ServicePort) bool {
		wanted := Claim{addr, p.Port, p.Protocol}
		_, doubled := s.Rejected.Doubled[wanted]
		return doubled || s.Rejected.Rejects(wanted)
	})
}

// Rejection is what a Service wants and does not get.
type Rejection struct {
	Claims    map[Claim]struct{}
	Addresses map[netip.Addr]struct{}
	// Doubled are claims to addresses outside that the Service has anyway, by a NodePort of its.
	Doubled map[Claim]struct{}
	Told    []Claim // that another Service has, as the owner is told
}

func (d *Rejection) Rejects(c Claim) bool {
	if d == nil {
		return false
	}
	_, address := d.Addresses[c.Addr]
	_, port := d.Claims[c]
	return address || port
}

// PortName is that of a Service's port with a number, or with a NodePort.
func (s *Service) PortName(kind Protocol, number uint16, onNodes bool) string {
	if onNodes {
		i := slices.IndexFunc(s.NodePorts, func(p NodePort) bool { return p.Protocol == kind && p.Number == number })
		return s.NodePorts[i].Name
	}
	i := slices.IndexFunc(s.Ports, func(p ServicePort) bool { return p.Protocol == kind && p.Port == number })
	return s.Ports[i].Name
}

// HasFamily says whether a Service is of an address family.
func (s *Service) HasFamily(ipv4 bool) bool {
	return slices.ContainsFunc(s.ClusterIPs, func(ip netip.Addr) bool { return ip.Is4() == ipv4 })
}

// ExternalAddresses are those by which a Service is known outside, each once.
func (s *Service) ExternalAddresses() []netip.Addr {
	list := slices.Concat(s.ExternalIPs, s.Ingress)
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// Uses says whether a Service has a port of a protocol.
func (s *Service) Uses(kind Protocol) bool {
	return slices.ContainsFunc(s.Ports, func(p ServicePort) bool { return p.Protocol == kind })
}

// First is a Service with so many of its ports.
func (s *Service) First(ports int) *Service {
	if ports >= len(s.Ports) {
		return s
	}
	part := *s
	part.Ports = s.Ports[:ports]
	part.NodePorts = slices.DeleteFunc(slices.Clone(s.NodePorts), func(p NodePort) bool {
		return !slices.Contains(part.Ports, p.ServicePort)
	})
	return &part
}
