package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/nodeconfig"
)

// tellFTP is what conntrack-ftp is, on systems that have the key, as `weft doctor` reads it.
func tellFTP(c nodeconfig.Config) []prometheus.Collector {
	if c.ConntrackLookup == "" {
		return nil
	}
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_conntrack_ftp",
		Help: "1 if the node's datapath lets packets of FTP and TFTP pass (key conntrack-ftp), 0 if it drops " +
			"them. Only on Windows nodes.",
	}, func() float64 {
		if c.ConntrackFTP {
			return 1
		}
		return 0
	})}
}
