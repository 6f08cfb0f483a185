package ovn

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
)

// enter and leave keep an index of names.
func enter[K comparable](index map[K]map[string]struct{}, at K, name string) {
	if index[at] == nil {
		index[at] = map[string]struct{}{}
	}
	index[at][name] = struct{}{}
}

func leave[K comparable](index map[K]map[string]struct{}, at K, name string) {
	if delete(index[at], name); len(index[at]) == 0 {
		delete(index, at)
	}
}

// holder is who has a claim of those that want it, if anybody has: whoever has the address from an
// AddressPool, else the first with a right to it.
func (b *serviceBook) holder(wanted objects.Claim) (name string, ok bool) {
	if name, ok := b.heldBy(wanted.Addr); ok {
		return name, true
	}
	if list := b.claims.by[wanted]; len(list) > 0 {
		return list[0].name, true
	}
	return "", false
}

// heldBy is who has an address from an AddressPool, and so all its ports. A host's address is no pool's, whatever a
// Service's status says: load balancers' controllers give it to many Services, each with other ports, and who has one of
// these the hosts' agents know, which know of no pools.
func (b *serviceBook) heldBy(addr netip.Addr) (name string, ok bool) {
	name, ok = b.pools.holder(addr)
	return name, ok && b.hosts.rules().At(addr) == outside.Nobody
}

// updateClaims takes in what a Service wants outside, and has everybody looked at again for whom it makes
// a difference: other Services, pods with host ports, and sticky Services with such endpoints.
func (b *serviceBook) updateClaims(name string, object *objects.Service) {
	was, before := b.claims.of[name], b.claims.as[name]
	now, as := object.Claims(), rightsOf(name, object)
	for rival := range b.claims.update(name, now, as) {
		b.dirty[rival] = struct{}{}
	}
	changed := changedClaims(was, now)
	if before != nil && !before.equal(as) {
		changed = slices.Concat(was, now)
	}
	if len(changed) == 0 {
		return
	}
	b.touchSelves()
	b.pods.touchHostPorts(changed)
	b.touchNodePorts(changed)
}

// changedClaims are those that are in one of two sorted lists alone.
func changedClaims(was, now []objects.Claim) []objects.Claim {
	var changed []objects.Claim
	for len(was) > 0 && len(now) > 0 {
		switch order := was[0].Compare(now[0]); {
		case order == 0:
			was, now = was[1:], now[1:]
		case order < 0:
			changed, was = append(changed, was[0]), was[1:]
		default:
			changed, now = append(changed, now[0]), now[1:]
		}
	}
	return slices.Concat(changed, was, now)
}

// touchNodePorts has the Services looked at again that want NodePorts among the claims at nodes' own addresses.
func (b *serviceBook) touchNodePorts(claims []objects.Claim) {
	for _, one := range claims {
		if one.Addr.IsValid() {
			continue
		}
		for addr := range b.gateways.nodes {
			for _, rival := range b.claims.by[objects.Claim{Addr: addr, Port: one.Port, Protocol: one.Protocol}] {
				b.dirty[rival.name] = struct{}{}
			}
		}
	}
}

// touchClaims has the Services looked at again that want something of an address.
func (b *serviceBook) touchClaims(addr netip.Addr) {
	for name := range b.claims.at[addr] {
		b.dirty[name] = struct{}{}
	}
}

// judge decides what a Service gets of what it wants outside, and says what it does not.
func (b *serviceBook) judge(name string, s *objects.Service) (*objects.Service, []objects.Problem) {
	if s.IsInside() {
		return s, nil
	}
	d := &objects.Rejection{Claims: map[objects.Claim]struct{}{}, Addresses: map[netip.Addr]struct{}{}, Doubled: map[objects.Claim]struct{}{}}
	found := objects.NewComplaints(objects.ServiceKind, &s.ObjectMeta)
	if s.LeftOut > 0 {
		found.Add("TooManyExternalAddresses", func() string {
			return fmt.Sprintf("spec.externalIPs, status.loadBalancer.ingress: %d addresses are left out, since a Service is served at %d addresses and ports outside at most; give fewer addresses, or split the Service's ports", s.LeftOut, outside.Most)
		})
	}
	for _, addr := range s.Outside() {
		if why := b.unfit(addr); why != "" {
			d.Addresses[addr] = struct{}{}
			found.Add("BadExternalAddress", func() string {
				return fmt.Sprintf("%s: %s is %s, and is not served; give an address of the networks outside", s.FieldOf(objects.Claim{Addr: addr}), addr, why)
			})
		} else if owner := b.hosts.taken(s, addr); owner != outside.Nobody {
			d.Addresses[addr] = struct{}{}
			found.Add("AddressTaken", func() string {
				return fmt.Sprintf("spec.externalIPs: %s is %s, and stays so at every port; give an address of no host, use a NodePort, or have the cluster's operator allow it (host-external-ip-cidrs)", addr, b.hosts.ownerName(owner, addr))
			})
		}
	}
	for _, wanted := range b.claims.of[name] {
		if _, ok := d.Addresses[wanted.Addr]; !ok {
			b.judgeClaim(name, s, wanted, d, found)
		}
	}
	for _, p := range s.NodePorts {
		if !b.settings.NodePorts.Contains(p.Number) {
			found.Add("NodePortOutOfRange", func() string {
				return fmt.Sprintf("spec.ports[].nodePort: %d is not in %s; it is served, since the API server has allowed it; give weft's node-port-range the API server's --service-node-port-range, or choose a port in it",
					p.Number, b.settings.NodePorts)
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

// judgeClaim decides whether a Service gets an address and port that it wants and that is fit for one.
func (b *serviceBook) judgeClaim(name string, s *objects.Service, wanted objects.Claim, d *objects.Rejection, found *objects.Complaints) {
	if owner := b.essential(wanted); owner != outside.Nobody {
		d.Claims[wanted] = struct{}{}
		found.Add("AddressTaken", func() string {
			return fmt.Sprintf("%s: %s is %s, and stays so; it is not served for the Service; choose another address or port", s.FieldOf(wanted), wanted, b.essentialName(owner, wanted))
		})
		return
	}
	if holder, _ := b.holder(wanted); holder != name {
		d.Claims[wanted] = struct{}{}
		found.Add("AddressConflict", func() string {
			d.Told = append(d.Told, wanted)
			return fmt.Sprintf("%s: %s is already that of Service %s, which %s; it is not served for this one as long as that has it; choose another",
				s.FieldOf(wanted), wanted, holder, b.right(wanted, holder, s))
		})
		return
	}
	holder, ok := b.nodePortAt(wanted)
	switch {
	case !ok:
	case holder == name:
		d.Doubled[wanted] = struct{}{}
		if field := s.OtherAt(wanted); field != "" {
			found.Add("AddressConflict", func() string {
				return fmt.Sprintf("%s: %s is Node %s's, and %s of the Service itself has the port there; clients are served by that; choose another address or port",
					s.FieldOf(wanted), wanted, b.gateways.nodes[wanted.Addr], field)
			})
		}
	default:
		d.Claims[wanted] = struct{}{}
		found.Add("AddressConflict", func() string {
			return fmt.Sprintf("%s: %s is Node %s's, and Service %s has the port there (%s); it is not served for this one as long as that has it; choose another address or port",
				s.FieldOf(wanted), wanted, b.gateways.nodes[wanted.Addr], holder, b.all[holder].object.FieldOf(wanted.Everywhere()))
		})
	}
}

// nodePortAt is the Service that has a port of a node's address as its NodePort, or for its health check, if any
// has.
func (b *serviceBook) nodePortAt(wanted objects.Claim) (name string, ok bool) {
	if _, node := b.gateways.nodes[wanted.Addr]; !node {
		return "", false
	}
	name, ok = b.holder(wanted.Everywhere())
	return name, ok && b.all[name].object.HasAt(wanted.Everywhere(), wanted.Addr)
}

// right says why another Service has what a Service wants.
func (b *serviceBook) right(wanted objects.Claim, holder string, s *objects.Service) string {
	if name, ok := b.heldBy(wanted.Addr); ok && name == holder {
		return "has the address from an AddressPool"
	}
	if slices.Contains(b.all[holder].object.Ingress, wanted.Addr) && !slices.Contains(s.Ingress, wanted.Addr) {
		return "has it as its load balancer's"
	}
	return "is older"
}

// essential says whose a port outside is that no Service may have.
func (b *serviceBook) essential(wanted objects.Claim) outside.Owner {
	return b.hosts.rules().KeepExternal(string(wanted.Protocol), netip.AddrPortFrom(wanted.Addr, wanted.Port))
}

// essentialName says for people whose such a port is.
func (b *serviceBook) essentialName(owner outside.Owner, wanted objects.Claim) string {
	switch {
	case owner == outside.EveryHost:
		return "the nodes' hosts' (host-ports)"
	case owner == outside.Daemon:
		return fmt.Sprintf("a daemon's of Node %s, which listens there or did a short time ago "+
			"(end it there, and the port is free ten minutes later)", b.hosts.listener(string(wanted.Protocol), netip.AddrPortFrom(wanted.Addr, wanted.Port)))
	case b.settings.HostPorts.Has(string(wanted.Protocol), wanted.Port):
		return b.hosts.ownerName(owner, wanted.Addr) + ", at a port of hosts' own (host-ports)"
	}
	return b.hosts.ownerName(owner, wanted.Addr)
}

// unfit says why an address cannot be one that clients outside have for a Service.
func (b *serviceBook) unfit(addr netip.Addr) string {
	if why := outside.Fit(addr); why != "" {
		return why
	}
	if ipam.Family(b.settings.Pods, addr) == nil {
		return "of a family that pods do not have"
	}
	if key, in, ok := b.settings.ClusterRange(func(p netip.Prefix) bool { return p.Contains(addr) }); ok {
		return "in " + key + " " + in.String() + ", which is the cluster's own"
	}
	return ""
}
