package nodes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
)

// joinZone takes in a node's zone, and says why it has not the one that its label names. A node whose label is wrong
// stays in the zone that it has been in.
func (b *Part) joinZone(n *state) error {
	label, labelled := n.Object.Labels.Lookup(contract.ZoneLabel)
	zone, ok := b.settings.Zone(label, labelled)
	var err error
	if !ok {
		had, _ := objects.ParseAnnotation[contract.NodeNetwork](contract.NodeNetworkAnnotation, n.Object.Network)
		before := cmp.Or(n.Zone, had.Zone)
		if zone, ok = b.settings.Zone(before, before != ""); before == "" || !ok {
			zone = ""
		}
		err = fmt.Errorf("label %s: there is no zone %s; give the node one of the zones %s, which the controller's "+
			"ovn-northbound names", contract.ZoneLabel, objects.Quoted(label), strings.Join(b.settings.ZoneNames(), ", "))
	}
	b.moved = b.moved || n.Zone != "" && n.Zone != zone
	n.Zone = zone
	return err
}

// TakeMoved says whether a node has come from one zone to another since it was asked last: all zones' rows change then.
func (b *Part) TakeMoved() bool {
	moved := b.moved
	b.moved = false
	return moved
}

// TunnelEnd is the address at which a node's tunnels end, as nodes of other zones may know it: the one that its agent
// says, if it may be the node's.
func (b *Part) TunnelEnd(node string) (addr netip.Addr, ok bool) {
	n := b.all[node]
	if n == nil || !slices.Contains(n.Tunnels, n.Facts.TunnelAddress) {
		return netip.Addr{}, false
	}
	return n.Facts.TunnelAddress, true
}
