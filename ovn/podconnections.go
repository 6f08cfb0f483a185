package ovn

import (
	"strconv"

	"github.com/weftnet/weft/ovn/settings"
)

// zoneLimit is OVN's option for the connections in a port's zone. OVN before 24.09 passes it over.
const zoneLimit = "ct-zone-limit"

// boundConnections bounds the connections that a pod of a Windows node has at a time. Each that it begins or takes
// has a place in its own zone, whatever other zones it is in: the node's switch has load balancers, so OVN tracks and
// commits all connections of its ports. OVN has 0 for no bound, by which the extension of the Hyper-V switch lets no
// connection come about (see capability.Limits): so the option is left out then.
func boundConnections(options map[string]string, s *settings.Settings, n *placement) {
	if n.windows() && s.PodConnections > 0 {
		options[zoneLimit] = strconv.Itoa(s.PodConnections)
	}
}
