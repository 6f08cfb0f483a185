package topology

import (
	"fmt"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
)

// A host takes a GENEVE packet for another node's if it comes from that node's address, and what leaves a
// gateway may have it. So nothing that came through a logical network reaches any host's tunnels.

// tunnelsTier and refuseTunnels put this before everything that somebody may write.
const (
	tunnelsTier   = 0
	refuseTunnels = northbound.MaxPriority
)

// keepFromTunnels drops what would leave by a group's ports to a host's tunnels. Beyond these ports are all hosts:
// a node's own, and whoever is outside. The ACL sees a packet on its last switch, after all load balancers
// and routers, whichever of them it has met. It asks for no address: chassis that are no nodes have tunnels, too.
func (r *Rows) keepFromTunnels(group, groupID string) {
	name := "hosts' tunnels"
	r.Member(nb.PortGroupTable, groupID, "acls", r.Add(nb.ACLTable, "tunnels/"+group, &nb.ACL{Name: &name,
		Direction: nb.ACLDirectionToLport, Tier: tunnelsTier, Priority: refuseTunnels, Action: nb.ACLActionDrop,
		Match: fmt.Sprintf("outport == @%s && udp.dst == %d", group, contract.TunnelPort)}))
}

// portGroups are those of all nodes' ports, which the nodes put there.
func (r *Rows) portGroups() {
	r.Add(nb.PortGroupTable, "edges", &nb.PortGroup{Name: northbound.EdgesGroup})
	r.Add(nb.PortGroupTable, "hosts", &nb.PortGroup{Name: northbound.HostsGroup})
	r.Add(nb.PortGroupTable, "outside", &nb.PortGroup{Name: northbound.OutsideGroup})
	r.keepFromTunnels(northbound.HostsGroup, northbound.HostsGroupID)
	r.keepFromTunnels(northbound.OutsideGroup, northbound.OutsideGroupID)
}

// joinPortGroups puts a node's ports there.
func (r *Rows) joinPortGroups(n *Node) {
	host := ovsdb.ID(nb.LogicalSwitchPortTable, r.Owner, "management")
	r.Member(nb.PortGroupTable, northbound.HostsGroupID, "ports", host)
	r.Member(nb.PortGroupTable, northbound.EdgesGroupID, "ports", host)
	if n.Facts.Gateway != nil {
		r.Member(nb.PortGroupTable, northbound.EdgesGroupID, "ports", ovsdb.ID(nb.LogicalSwitchPortTable, r.Owner,
			"localnet"))
	}
}
