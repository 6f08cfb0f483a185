package node

import (
	"context"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
)

func listenForPlugin(_ context.Context, c Config) (net.Listener, error) {
	return cni.Listen(c.CNISocket)
}

func newPlatform(c Config, ovs *openVSwitch, _ func() []netip.Prefix, _ prometheus.Registerer) (ownPlatform, error) {
	config := LinuxConfig{
		Userspace: c.DatapathType == DatapathNetdev, StateFile: c.uplinkFile(),
		OpenVSwitch: uplinkBridge{ovs, c, takeUpTime},
	}
	if c.sharesAdapter() {
		config.Uplink, config.Bridge = c.GatewayInterface, c.GatewayBridge
	}
	return NewLinux(config)
}
