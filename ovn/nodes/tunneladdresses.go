package nodes

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
)

// maxTunnelAddresses bounds what a node with very many addresses has the databases hold.
const maxTunnelAddresses = 64

// tunnelBook knows the nodes that have an address, who had it first in front. Of an address that several have, as some
// bridges' are the same on all nodes, no tunnel of others may take packets for those of the first.
type tunnelBook struct {
	settings *settings.Settings
	nodes    *Part
	lines    map[netip.Addr][]string
}

// take finds where a node's tunnels may end: at the addresses that its Node and its agent say it has, less those that
// another node has had before. Who is next in line for an address that it has no more is told.
func (b *tunnelBook) take(n *state) {
	var want []netip.Addr
	if n.Object != nil {
		for _, addr := range slices.Concat(n.Object.Addresses, n.Facts.Addresses) {
			if b.mayEnd(addr) && len(want) < maxTunnelAddresses && !slices.Contains(want, addr) {
				want = append(want, addr)
			}
		}
	}
	for _, addr := range n.wanted {
		if !slices.Contains(want, addr) {
			b.leave(n, addr)
		}
	}
	for _, addr := range want {
		if !slices.Contains(n.wanted, addr) {
			b.lines[addr] = append(b.lines[addr], n.Name)
		}
	}
	n.wanted = want
	b.hold(n)
}

// claim puts nodes in front at the addresses that earlier terms gave them: a name that sorts before another one is no
// older claim.
func (b *tunnelBook) claim(recorded map[string]records.Node, batch *part.Batch) {
	for _, name := range batch.Names(objects.NodeKind) {
		if part.Object[objects.Node](batch, objects.NodeKind, name) == nil {
			continue
		}
		n := b.nodes.state(name)
		n.wanted = recorded[name].Tunnels
		for _, addr := range n.wanted {
			b.lines[addr] = append(b.lines[addr], n.Name)
		}
	}
}

// leave gives a node's address to who is next.
func (b *tunnelBook) leave(n *state, addr netip.Addr) {
	line := b.lines[addr]
	i := slices.Index(line, n.Name)
	if line = slices.Delete(slices.Clone(line), i, i+1); len(line) == 0 {
		delete(b.lines, addr)
		return
	}
	b.lines[addr] = line
	if next := b.nodes.all[line[0]]; i == 0 && next != nil {
		b.hold(next)
		b.nodes.Touch(next.Name)
	}
}

func (b *tunnelBook) hold(n *state) {
	held := map[netip.Addr]struct{}{}
	for _, addr := range n.wanted {
		if b.lines[addr][0] == n.Name {
			held[addr] = struct{}{}
		}
	}
	n.Tunnels = slices.SortedFunc(maps.Keys(held), netip.Addr.Compare)
}

// mayEnd says whether an address may be a node's own: those of the cluster's ranges are not, which pods, ClusterIPs,
// routers and Weft have. Central hosts and those of the API server may be nodes: of their addresses, too, whoever had
// one first has it.
func (b *tunnelBook) mayEnd(addr netip.Addr) bool {
	_, _, inside := b.settings.ClusterRange(func(p netip.Prefix) bool { return p.Contains(addr) })
	return contract.TunnelAddress(addr) && !inside
}
