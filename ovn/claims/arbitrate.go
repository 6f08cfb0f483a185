package claims

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
)

// Arbitrate decides what a Service gets of what it wants outside, and says what it does not.
func (a *Arbiter) Arbitrate(name string, s *objects.Service) (*objects.Service, []objects.Problem) {
	if s.IsInside() {
		return s, nil
	}
	d := &objects.Rejection{Claims: map[objects.Claim]struct{}{}, Addresses: map[netip.Addr]struct{}{},
		Doubled: map[objects.Claim]struct{}{}}
	found := objects.NewComplaints(objects.ServiceKind, &s.ObjectMeta)
	if s.LeftOut > 0 {
		found.Add(tooManyExternalAddresses, func() string {
			return fmt.Sprintf("spec.externalIPs, status.loadBalancer.ingress: %d addresses are left out, since a Service is "+
				"served at %d addresses and ports outside at most; give fewer addresses, or split the Service's ports", s.LeftOut,
				outside.Most)
		})
	}
	for _, addr := range s.Outside() {
		if why := a.invalid(addr); why != "" {
			d.Addresses[addr] = struct{}{}
			found.Add(badExternalAddress, func() string {
				return fmt.Sprintf("%s: %s is %s, and is not served; give an address of the networks outside",
					s.FieldOf(objects.Claim{Addr: addr}), addr, why)
			})
		} else if owner := a.hosts.taken(s, addr); owner != outside.Nobody {
			d.Addresses[addr] = struct{}{}
			found.Add(addressTaken, func() string {
				return fmt.Sprintf("spec.externalIPs: %s belongs to %s; the Service is not served there at any port; give an "+
					"address that no host has, use a NodePort, or ask the cluster's operator to allow it (host-external-ip-cidrs)",
					addr, a.hosts.ownerName(owner, addr))
			})
		}
	}
	for _, wanted := range a.book.of[name] {
		if _, ok := d.Addresses[wanted.Addr]; !ok {
			a.arbitrateClaim(name, s, wanted, d, found)
		}
	}
	for _, p := range s.NodePorts {
		if !a.settings.NodePorts.Contains(p.Number) {
			found.Add(nodePortOutOfRange, func() string {
				return fmt.Sprintf("spec.ports[].nodePort: %d is not in %s; it is served, since the API server has allowed it; "+
					"give weft's node-port-range the API server's --service-node-port-range, or choose a port in it",
					p.Number, a.settings.NodePorts)
			})
		}
	}
	if len(d.Claims)+len(d.Addresses)+len(d.Doubled) == 0 {
		return s, found.Problems()
	}
	served := *s
	served.Rejected = d
	return &served, found.Problems()
}

// arbitrateClaim decides whether a Service gets an address and port that it wants and that is valid.
func (a *Arbiter) arbitrateClaim(name string, s *objects.Service, wanted objects.Claim, d *objects.Rejection,
	found *objects.Complaints) {
	if owner := a.reserved(wanted); owner != outside.Nobody {
		d.Claims[wanted] = struct{}{}
		found.Add(addressTaken, func() string {
			return fmt.Sprintf("%s: %s belongs to %s; the Service is not served there; choose another address or port",
				s.FieldOf(wanted), wanted, a.reservedName(owner, wanted))
		})
		return
	}
	if holder, _ := a.holder(wanted); holder != name {
		d.Claims[wanted] = struct{}{}
		found.Add(addressConflict, func() string {
			d.Told = append(d.Told, wanted)
			return fmt.Sprintf("%s: Service %s already has %s, and %s; this Service is not served there until that one gives "+
				"it up; choose another address or port",
				s.FieldOf(wanted), holder, wanted, a.right(wanted, holder, s))
		})
		return
	}
	node, holder, ok := a.nodePortAt(wanted)
	switch {
	case !ok:
	case holder == name:
		d.Doubled[wanted] = struct{}{}
		if field := s.OtherAt(wanted); field != "" {
			found.Add(addressConflict, func() string {
				return fmt.Sprintf("%s: %s is Node %s's, and %s of the Service itself has the port there; clients are served by "+
					"that; choose another address or port",
					s.FieldOf(wanted), wanted, node, field)
			})
		}
	default:
		d.Claims[wanted] = struct{}{}
		found.Add(addressConflict, func() string {
			return fmt.Sprintf("%s: %s is Node %s's, and Service %s has the port there (%s); it is not served for this one as "+
				"long as that has it; choose another address or port",
				s.FieldOf(wanted), wanted, node, holder,
				a.services.Service(holder).FieldOf(wanted.Everywhere()))
		})
	}
}

// nodePortAt is the Service that has a port of a node's address as its NodePort, or for its health check, if any
// has.
func (a *Arbiter) nodePortAt(wanted objects.Claim) (node, name string, ok bool) {
	if node, ok = a.services.NodePortsAt(wanted.Addr); !ok {
		return "", "", false
	}
	name, ok = a.holder(wanted.Everywhere())
	return node, name, ok && a.services.Service(name).HasAt(wanted.Everywhere(), wanted.Addr)
}

// right says why another Service has what a Service wants.
func (a *Arbiter) right(wanted objects.Claim, holder string, s *objects.Service) string {
	if name, ok := a.heldBy(wanted.Addr); ok && name == holder {
		return "got the address from an AddressPool"
	}
	if slices.Contains(a.services.Service(holder).Ingress, wanted.Addr) && !slices.Contains(s.Ingress, wanted.Addr) {
		return "has the address in its status.loadBalancer"
	}
	return "is older"
}

// reserved says whose a port outside is that no Service may have.
func (a *Arbiter) reserved(wanted objects.Claim) outside.Owner {
	return a.hosts.rules().KeepExternal(string(wanted.Protocol), netip.AddrPortFrom(wanted.Addr, wanted.Port))
}

// reservedName says for people whose such a port is.
func (a *Arbiter) reservedName(owner outside.Owner, wanted objects.Claim) string {
	switch {
	case owner == outside.EveryHost:
		return "the hosts of the nodes (host-ports)"
	case owner == outside.Daemon:
		return fmt.Sprintf("a program on Node %s, which listens there or did a short time ago "+
			"(end it there, and the port is free ten minutes later)", a.hosts.listener(string(wanted.Protocol),
			netip.AddrPortFrom(wanted.Addr, wanted.Port)))
	case a.settings.HostPorts.Has(string(wanted.Protocol), wanted.Port):
		return a.hosts.ownerName(owner, wanted.Addr) + ", since host-ports has the port"
	}
	return a.hosts.ownerName(owner, wanted.Addr)
}

// invalid says why an address cannot be one that clients outside have for a Service.
func (a *Arbiter) invalid(addr netip.Addr) string {
	if why := outside.Fit(addr); why != "" {
		return why
	}
	if ipam.Family(a.settings.Pods, addr) == nil {
		return "of a family that pods do not have"
	}
	if key, in, ok := a.settings.ClusterRange(func(p netip.Prefix) bool { return p.Contains(addr) }); ok {
		return "in " + key + " " + in.String() + ", which is the cluster's own"
	}
	return ""
}
