package pods

import (
	"net/netip"

	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// heldAddress is one of a pod that has ended, or has lost it.
type heldAddress struct {
	owner ovsdb.Owner // of the pod's rows
	node  string      // whose pool it is taken from
}

// giveUp frees a pod's addresses, and has those who wait for one look again. In a cluster with zones the addresses are
// held until all Northbounds know of the pod's end: one that does not would take a new pod for the old one.
func (b *Part) giveUp(name string, p *Pod) {
	if len(p.addresses) == 0 {
		return
	}
	if b.hold(name, p) {
		return
	}
	for i, a := range p.addresses {
		p.node.pools[i].Release(a.Addr())
	}
	for other := range p.node.waiting {
		if other != name {
			b.dirty[other] = struct{}{}
		}
	}
}

// hold keeps a pod's addresses from others, in a cluster with zones.
func (b *Part) hold(name string, p *Pod) bool {
	if len(b.settings.Zones) == 0 {
		return false
	}
	for _, a := range p.addresses {
		b.held[a.Addr()] = heldAddress{northbound.PodOwner(name), p.node.Name}
	}
	return true
}

// holdIn keeps the addresses that are held from the pods of a node with other subnets than before.
func (b *Part) holdIn(n *nodePods) {
	for addr, held := range b.held {
		for _, pool := range n.pools {
			if pool.Claim(addr) {
				b.held[addr] = heldAddress{held.owner, n.Name}
			}
		}
	}
}

// reclaims says whether an address is held since the pod itself has lost it. It has it again then.
func (b *Part) reclaims(p *Pod, addr netip.Addr) bool {
	name := objects.FullName(p.object.Namespace, p.object.Name)
	if len(b.held) == 0 || b.held[addr].owner != northbound.PodOwner(name) {
		return false
	}
	delete(b.held, addr)
	return true
}

// ReleaseHeld frees the addresses that are held, except those of owners whose change was refused. It is true if pods
// wait for addresses: they are looked at in the next batch.
func (b *Part) ReleaseHeld(refused func(ovsdb.Owner) bool) (waiting bool) {
	for addr, held := range b.held {
		if refused(held.owner) {
			continue
		}
		delete(b.held, addr)
		n := b.nodes[held.node]
		if n == nil {
			continue
		}
		for _, pool := range n.pools {
			pool.Release(addr)
		}
		for other := range n.waiting {
			b.dirty[other] = struct{}{}
			waiting = true
		}
	}
	return waiting
}
