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
		Help: "1 if packets of FTP and TFTP pass (key conntrack-ftp), else 0.",
	}, func() float64 {
		if c.ConntrackFTP {
			return 1
		}
		return 0
	})}
}
