package southbound

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestChassisThatAreBehind are counted, whoever scrapes how often, and what is left of one that is gone is not.
func TestChassisThatAreBehind(t *testing.T) {
	s := newSouthbound(t)
	set := func(arguments ...string) {
		t.Helper()
		ovsdbtest.Run(t, "ovn-sbctl", append([]string{"--db=" + s.server.Endpoint}, arguments...)...)
	}
	now := time.Now()
	b := &behind{client: s.guard.replica.Client, now: func() time.Time { return now }}
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	says := func(what string, want ...float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []*dto.Metric
		for _, family := range families {
			got = append(got, family.Metric...)
		}
		if len(got) != len(want) || len(got) == 1 && got[0].Gauge.GetValue() != want[0] {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	set("set", "SB_Global", ".", "nb_cfg=7", "--", "set", "Chassis_Private", "l1", "nb_cfg=7", "--", "set",
		"Chassis_Private", "l2", "nb_cfg=6")
	says("one is behind", 1)
	set("set", "Chassis_Private", "l1", "nb_cfg=5")
	says("asked again at once", 1)
	now = now.Add(behindFresh)
	says("both are behind", 2)
	set("clear", "Chassis_Private", "l1", "chassis")
	now = now.Add(behindFresh)
	says("one is gone", 1)
	set("set", "Chassis_Private", "l2", "nb_cfg=7")
	now = now.Add(behindFresh)
	says("the other has come", 0)
	s.server.Kill()
	s.until("the guard does not notice", func() bool { return !s.guard.replica.Connected() })
	now = now.Add(behindFresh)
	says("nobody knows")
}
