package topology

import (
	"cmp"
	"strconv"

	"github.com/weftnet/weft/ovn/settings"
)

// ZoneLimit is OVN's option for how many connections a zone may have: that of a logical switch port, or each of a
// router's or a switch's two. Ports without the option have their switch's. OVN before 24.09 passes it over.
const ZoneLimit = "ct-zone-limit"

// BoundConnections bounds the connections of zones on a Windows node, whose one table for all of them would else be
// anybody's to fill. Each connection that a pod begins or takes has a place in the zone of the pod's port: the node's
// switch has load balancers, so OVN tracks and commits all connections of its ports. The pod can have that place freed
// before those that the same connection has in zones of the whole node, so these have bounds of their own. Without a
// bound a zone may have the whole table. OVN has 0 for that, by which the extension of the Hyper-V switch lets no
// connection come about (see capability.Limits).
func BoundConnections(options map[string]string, n *Node, most int) {
	if n.Windows() {
		options[ZoneLimit] = strconv.Itoa(cmp.Or(most, settings.DriverConnections))
	}
}
