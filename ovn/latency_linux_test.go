package ovn

import (
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestTheLeaderMeasures how long a real ovn-northd takes, and a controller that stands by does not.
func TestTheLeaderMeasures(t *testing.T) {
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"))
	often := func(c *settings.Config) { c.LatencyInterval = 10 * time.Second }
	leader := d.start("first", often)
	d.eventually("the first leads", func() bool { return leader.leader.Load() != nil })
	standby := d.start("second", often)
	ovsdbtest.Northd(t, d.northbound, ovsdbtest.Server(t, ovsdbtest.Southbound(t)))
	d.eventually("ovn-northd is measured", func() bool { return measured(t, leader) > 0 })
	if n := measured(t, standby); n > 0 {
		t.Errorf("the controller that stands by has measured %d times", n)
	}
	if raised := strings.TrimSpace(ovsdbtest.Run(t, "ovn-nbctl", "--db="+d.northbound.Endpoint, "get", "NB_Global", ".",
		"nb_cfg")); raised == "0" {
		t.Error("nobody has counted")
	}
}

// measured is how often a controller has measured ovn-northd.
func measured(t *testing.T, i *instance) (times uint64) {
	t.Helper()
	families, err := i.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "weft_controller_southbound_seconds" {
			times = family.Metric[0].Histogram.GetSampleCount()
		}
	}
	return times
}
