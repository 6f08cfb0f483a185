package ovn

import (
	"fmt"
	"strconv"
)

// driverConnections are the places of the table that a Windows node has for all that it tracks: Conntrack.h,
// CT_MAX_ENTRIES.
const driverConnections = 1 << 21

// defaultPodConnections is what Linux has by default for a whole node. A connection takes up to four places of the
// driver's table: in the pod's zone, and in that of the pod at its other end, or those of the gateway and of the
// external bridge. So a pod at its bound leaves half of them.
const defaultPodConnections = driverConnections / 8

// zoneLimit is OVN's option for the connections in a port's zone. OVN before 24.09 passes it over.
const zoneLimit = "ct-zone-limit"

// boundConnections bounds the connections that a pod of a Windows node has at a time. Each that it begins or takes
// has a place in its own zone, whatever other zones it is in: the node's switch has load balancers, so OVN tracks and
// commits all connections of its ports. OVN has 0 for no bound, by which the extension of the Hyper-V switch lets no
// connection come about (see capability.Limits): so the option is left out then.
func boundConnections(options map[string]string, s *settings, n *placement) {
	if n.windows() && s.podConnections > 0 {
		options[zoneLimit] = strconv.Itoa(s.podConnections)
	}
}

func (c Config) checkPodConnections() error {
	if c.WindowsPodConnections < 0 || c.WindowsPodConnections > driverConnections {
		return fmt.Errorf("windows-pod-connections: %d is no bound: a node has room for %d connections; give fewer, "+
			"or 0 for no bound", c.WindowsPodConnections, driverConnections)
	}
	return nil
}
