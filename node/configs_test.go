package node

import (
	"net/netip"

	"github.com/weftnet/weft/node/nodeconfig"
)

// validConfig is what works on each system, without what some have alone.
func validConfig() nodeconfig.Config {
	c := nodeconfig.Default()
	c.Chassis, c.HNSNetwork, c.Gateway, c.GatewayBridge, c.ConntrackLookup = nodeconfig.ChassisLocal, "", "", "br-ex", ""
	c.NodeName, c.EncapAddress = "n1", netip.MustParseAddr("192.0.2.10")
	c.OVNSouthbound = "ssl:192.0.2.1:6642,ssl:[2001:db8::1]:6642"
	return c
}

// hostedConfig is what works on a node with a hosted chassis and a shared adapter. Its paths are of no
// system.
func hostedConfig() nodeconfig.Config {
	c := validConfig()
	c.OVSDatabase, c.OVSOpenFlow = "tcp:127.0.0.1:16640", "tcp:127.0.0.1:16653"
	c.Chassis, c.TunnelAddress = nodeconfig.ChassisHosted, ":16642"
	c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey = "ca", "crt", "key"
	c.HNSNetwork, c.Gateway = "weft", nodeconfig.GatewayNone
	return c
}
