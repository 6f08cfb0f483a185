package node

import (
	"context"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/capture"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodeconfig"
)

func listenForPlugin(_ context.Context, c nodeconfig.Config) (net.Listener, error) {
	return cni.Listen(c.CNISocket)
}

func captureBackend(nodeconfig.Config) capture.Backend { return capture.PacketSockets() }

func newPlatform(
	c nodeconfig.Config, _ func() []netip.Prefix, _ prometheus.Registerer,
) (ownPlatform, error) {
	return linux.New(linuxConfig(c))
}

func linuxConfig(c nodeconfig.Config) linux.Config {
	config := linux.Config{Userspace: c.DatapathType == nodeconfig.DatapathNetdev, StateFile: c.UplinkFile()}
	if c.SharesAdapter() {
		config.Uplink, config.Bridge = c.GatewayInterface, c.GatewayBridge
	}
	return config
}
