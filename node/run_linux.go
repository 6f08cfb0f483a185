package node

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
)

func newPlatform(c Config, _ func() []netip.Prefix, _ prometheus.Registerer) (ownPlatform, error) {
	return NewLinux(c.DatapathType)
}
