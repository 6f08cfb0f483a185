package gateway

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/nodeconfig"
)

func TestFTPIsTold(t *testing.T) {
	for _, c := range []struct {
		lookup string
		passes bool
		want   []float64
	}{{"", false, nil}, {nodeconfig.LookupOff, false, []float64{0}}, {nodeconfig.LookupAuto, true, []float64{1}}} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(tellFTP(nodeconfig.Config{ConntrackLookup: c.lookup, ConntrackFTP: c.passes})...)
		families, err := registry.Gather()
		if err != nil || len(families) != len(c.want) {
			t.Errorf("conntrack-lookup is %q: %v, %v", c.lookup, families, err)
			continue
		}
		for i, want := range c.want {
			if got := families[i].GetMetric()[0].GetGauge().GetValue(); got != want {
				t.Errorf("conntrack-ftp is %t, and told as %v", c.passes, got)
			}
		}
	}
}
