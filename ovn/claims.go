package ovn

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/ovn/objects"
)

// updateClaims takes in what a Service wants outside, and has everybody looked at again for whom it makes
// a difference: other Services, pods with host ports, and sticky Services with such endpoints.
func (b *serviceBook) updateClaims(name string, object *objects.Service) {
	was, before := b.arbiter.claims.of[name], b.arbiter.claims.as[name]
	now, as := object.Claims(), rightsOf(name, object)
	for rival := range b.arbiter.claims.update(name, now, as) {
		b.dirty[rival] = struct{}{}
	}
	changed := changedClaims(was, now)
	if before != nil && !before.equal(as) {
		changed = slices.Concat(was, now)
	}
	if len(changed) == 0 {
		return
	}
	b.TouchSticky()
	b.pods.TouchHostPorts(changed)
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
		for addr := range b.arbiter.ports.nodes {
			for _, rival := range b.arbiter.claims.by[objects.Claim{Addr: addr, Port: one.Port, Protocol: one.Protocol}] {
				b.dirty[rival.name] = struct{}{}
			}
		}
	}
}

// touchClaims has the Services looked at again that want something of an address.
func (b *serviceBook) touchClaims(addr netip.Addr) {
	for name := range b.arbiter.claims.at[addr] {
		b.dirty[name] = struct{}{}
	}
}
