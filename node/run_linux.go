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

func newPlatform(c Config, _ func() []netip.Prefix, _ prometheus.Registerer) (ownPlatform, error) {
	return NewLinux(c.DatapathType)
}
