package southbound

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// remoteNode is a node of another zone, as its port on the transit switch says.
type remoteNode struct {
	port          *sb.PortBinding
	name, chassis string
	addresses     []string // those at which its tunnels end, and which it may have here
}

// remoteChange is what makes one chassis right. All of it is in one transaction.
type remoteChange struct {
	node    *remoteNode        // that gets the chassis, nil if nobody does
	old     *sb.Chassis        // that there is, nil if none is
	private *sb.ChassisPrivate // that is left of a node which has moved to another zone, nil if none is
}

// takesOver says whether a node gets the chassis that guards have made for another one, which has it no more.
func (c *remoteChange) takesOver() bool {
	return c.node != nil && c.old != nil && isKept(c.old) && c.old.ExternalIDs[contract.RemoteNodeKey] != c.node.name
}

// remotePlan is what there is to do, the removals first: what they set free others may have.
type remotePlan struct {
	changes  []remoteChange
	problems map[string][]string // by node: why it has not all that it asks for
	kept     int                 // remote chassis of Weft that there are
}

// remotePlanner decides which remote chassis there are to be. All guards of a Southbound decide the same, by its rows
// alone.
type remotePlanner struct {
	*index
	holders  map[string]*sb.Encap          // by address
	encaps   map[string]*sb.Encap          // by UUID
	privates map[string]*sb.ChassisPrivate // by name
	wanted   map[string]*remoteNode        // by chassis
	own      map[string]string             // nodes of this zone, by address
	claims   map[string]*remoteNode        // by address
	problems map[string][]string
}

// planRemotes compares the chassis with the ports of nodes of other zones.
func (r *replica) planRemotes() remotePlan {
	p := &remotePlanner{index: r.ports(), holders: map[string]*sb.Encap{}, encaps: map[string]*sb.Encap{},
		privates: map[string]*sb.ChassisPrivate{}, wanted: map[string]*remoteNode{}, own: map[string]string{},
		claims: map[string]*remoteNode{}, problems: map[string][]string{}}
	for _, encap := range ovsdb.List[sb.Encap](r.Client, nil) {
		p.encaps[encap.UUID] = encap
		// Two may have one address if they are of different types. Those of guards come last.
		if row := p.chassis[encap.ChassisName]; p.holders[encap.IP] == nil || row == nil || !isKept(row) {
			p.holders[encap.IP] = encap
		}
	}
	for _, private := range ovsdb.List[sb.ChassisPrivate](r.Client, nil) {
		p.privates[private.Name] = private
	}
	p.findNodes()
	p.claim()
	return p.plan()
}

// isKept says whether a chassis is one that guards have made. A node may write external_ids of its own chassis, but not
// that it is remote.
func isKept(row *sb.Chassis) bool {
	return IsRemote(row) && row.ExternalIDs[contract.RemoteNodeKey] != ""
}

// refuse notes why a node does not get what it asks for.
func (p *remotePlanner) refuse(node *remoteNode, why error) {
	p.problems[node.name] = append(p.problems[node.name], why.Error())
}

// findNodes finds out which nodes of other zones may have which chassis.
func (p *remotePlanner) findNodes() {
	var nodes []*remoteNode
	for _, port := range p.transit {
		name, _ := strings.CutPrefix(port.LogicalPort, contract.TransitPort(""))
		chassis := port.Options["requested-chassis"]
		// A node that has its port here is one of this zone, or about to be.
		if name != "" && chassis != "" && p.named[contract.ManagementPort(name)] == nil {
			nodes = append(nodes, &remoteNode{port: port, name: name, chassis: chassis})
		}
	}
	slices.SortFunc(nodes, func(a, b *remoteNode) int { return cmp.Compare(a.name, b.name) })
	// The guards of a node's own zone let it have the chassis of its own name alone.
	for _, namesake := range []bool{true, false} {
		for _, node := range nodes {
			if (node.chassis == node.name) != namesake {
				continue
			}
			if err := p.mayBe(node); err != nil {
				p.refuse(node, err)
			} else {
				p.wanted[node.chassis] = node
			}
		}
	}
}

// mayBe says why a node does not get its chassis.
func (p *remotePlanner) mayBe(node *remoteNode) error {
	row := p.chassis[node.chassis]
	switch first := p.wanted[node.chassis]; {
	case strings.Contains(node.chassis, ","):
		return fmt.Errorf("port %s names several chassis: %s", node.port.LogicalPort, node.chassis)
	case p.named[contract.ManagementPort(node.chassis)] != nil:
		return fmt.Errorf("chassis %s is that of a node of this zone", node.chassis)
	case first != nil:
		return fmt.Errorf("chassis %s is that of Node %s of another zone, too", node.chassis, first.name)
	case row != nil && IsRemote(row) && !isKept(row):
		return fmt.Errorf("an administrator has made a remote chassis %s", node.chassis)
	case row != nil && !IsRemote(row) && node.chassis != node.name:
		return fmt.Errorf("chassis %s is not remote, and no node of this name has moved to another zone", node.chassis)
	}
	return nil
}

// leaves says whether a chassis need not stay: guards have made it, or its node has moved to another zone.
func (p *remotePlanner) leaves(row *sb.Chassis) bool {
	return isKept(row) || !IsRemote(row) && p.wanted[row.Name] != nil
}

// claim gives each address to one node: to the one that has it already, otherwise to the first.
func (p *remotePlanner) claim() {
	for _, port := range p.managed {
		for address := range strings.SplitSeq(port.ExternalIDs[contract.TunnelAddressesKey], ",") {
			p.own[address], _ = strings.CutPrefix(port.LogicalPort, contract.ManagementPort(""))
		}
	}
	names := slices.Sorted(maps.Keys(p.wanted))
	for _, holding := range []bool{true, false} {
		for _, name := range names {
			node := p.wanted[name]
			for address := range strings.SplitSeq(node.port.ExternalIDs[contract.TunnelAddressesKey], ",") {
				holder := p.holders[address]
				if address == "" || holding != (holder != nil && holder.ChassisName == node.chassis) {
					continue
				}
				if err := p.mayHave(node, address, holder); err != nil {
					p.refuse(node, err)
				} else if p.claims[address] == nil {
					p.claims[address] = node
					node.addresses = append(node.addresses, address)
				}
			}
		}
	}
}

// mayHave says why a node does not get an address.
func (p *remotePlanner) mayHave(node *remoteNode, address string, holder *sb.Encap) error {
	owner := p.own[address]
	switch other := p.claims[address]; {
	case !isTunnelAddress(address):
		return fmt.Errorf("tunnel address %.60q is no unicast address as such are written", address)
	case owner != "":
		return fmt.Errorf("tunnel address %s is one of Node %s of this zone", address, owner)
	case other != nil && other != node:
		return fmt.Errorf("tunnel address %s is that of Node %s of another zone, too", address, other.name)
	case holder == nil || holder.ChassisName == node.chassis:
		return nil
	}
	if row := p.chassis[holder.ChassisName]; row == nil || !p.leaves(row) {
		return fmt.Errorf("tunnel address %s is that of chassis %s", address, holder.ChassisName)
	}
	return nil
}

// plan says what is to change.
func (p *remotePlanner) plan() remotePlan {
	plan := remotePlan{problems: p.problems}
	gone := map[string]bool{}
	for address, node := range p.claims {
		if holder := p.holders[address]; holder != nil && holder.ChassisName != node.chassis {
			gone[holder.ChassisName] = true // the next look makes what it is to have then
		}
	}
	for address := range p.own { // which a chassis may still have, since its correction has to wait
		if holder := p.holders[address]; holder != nil {
			if row := p.chassis[holder.ChassisName]; row != nil && isKept(row) {
				gone[row.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.chassis)) {
		row := p.chassis[name]
		node := p.wanted[name]
		if isKept(row) {
			plan.kept++
		}
		if gone[name] || isKept(row) && (node == nil || len(node.addresses) == 0) {
			change := remoteChange{old: row}
			if !isKept(row) {
				change.private = p.privates[name]
			}
			plan.changes = append(plan.changes, change)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.wanted)) {
		node, row, private := p.wanted[name], p.chassis[name], p.privates[name]
		if len(node.addresses) > 0 && !gone[name] && (private != nil || row == nil || !p.isRight(row, node)) {
			plan.changes = append(plan.changes, remoteChange{node: node, old: row, private: private})
		}
	}
	return plan
}

// isRight says whether a chassis is as a node's is to be.
func (p *remotePlanner) isRight(row *sb.Chassis, node *remoteNode) bool {
	return row.Hostname == node.name && maps.Equal(row.OtherConfig, remoteConfig) &&
		maps.Equal(row.ExternalIDs, node.mark()) && len(row.Encaps) == len(node.addresses) &&
		!slices.ContainsFunc(row.Encaps, func(id string) bool {
			encap := p.encaps[id]
			return encap == nil || encap.Type != sb.EncapTypeGeneve || encap.ChassisName != node.chassis ||
				!slices.Contains(node.addresses, encap.IP) || !maps.Equal(encap.Options, remoteTunnel)
		})
}

// mark is what external_ids of its chassis have.
func (n *remoteNode) mark() map[string]string {
	return map[string]string{contract.RemoteNodeKey: n.name}
}
