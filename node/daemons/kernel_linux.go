package daemons

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// Of the kernel's datapath Open vSwitch does not know these: the connections are the kernel's.
var (
	kernelConnections      = inKernel(connections, "/proc/sys/net/netfilter/nf_conntrack_count")
	kernelConnectionsLimit = inKernel(connectionsLimit, "/proc/sys/net/netfilter/nf_conntrack_max")
)

func inKernel(of *prometheus.Desc, file string) func(*teller) {
	return func(t *teller) {
		if text, err := os.ReadFile(file); err == nil {
			number(of)(t, string(text))
		}
	}
}
