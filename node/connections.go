package node

import (
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/weftnet/weft/node/conntrack"
	"github.com/weftnet/weft/node/ctlookup"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/unixctl"
)

// newConnections is where the connections of the node's datapath are told.
func (a *agent) newConnections() *conntrack.Source {
	c := conntrack.Config{
		Sockets:   a.switchSockets,
		BridgeIDs: a.bridgeIDs,
		Inside: func() []netip.Prefix {
			network, err := a.node.network()
			if err != nil {
				return nil // nothing of the host's zone is told then
			}
			return network.ClusterCIDRs
		},
	}
	if a.config.Chassis == nodeconfig.ChassisHosted {
		c.Twin = ctlookup.OfTCP
	}
	return conntrack.New(c)
}

// bridgeIDs are the external_ids of br-int.
func (a *agent) bridgeIDs() map[string]string {
	if bridge := a.ovs.Bridge(nodeconfig.IntegrationBridge); bridge != nil {
		return bridge.ExternalIDs
	}
	return nil
}

// bridged says whether the node has br-int. Before that, nobody asks its ovs-vswitchd about datapaths: on Windows that
// ends it while the extension is not enabled (lost_communication in lib/netlink-socket.c).
func (a *agent) bridged() bool { return a.ovs.Bridge(nodeconfig.IntegrationBridge) != nil }

// switchSockets are those at which the node's ovs-vswitchd may be asked about datapaths.
func (a *agent) switchSockets() []string {
	if !a.bridged() {
		return nil
	}
	return switchSockets(a.config)
}

// switchSockets are those at which the node's ovs-vswitchd may answer.
func switchSockets(c nodeconfig.Config) []string {
	if c.OVSControl != "" {
		return []string{strings.TrimPrefix(c.OVSControl, "unix:")}
	}
	folder, known := switchFolder(c)
	if !known {
		return nil
	}
	return unixctl.Sockets([]string{folder}, "ovs-vswitchd")
}

// switchFolder has the sockets of Open vSwitch's daemons, if the agent reaches its database by a socket.
func switchFolder(c nodeconfig.Config) (folder string, known bool) {
	first, _, _ := strings.Cut(c.OVSDatabase, ",")
	socket, isUnix := strings.CutPrefix(first, "unix:")
	return filepath.Dir(socket), isUnix
}
