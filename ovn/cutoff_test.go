package ovn

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/ovn/settings"
)

// TestALeaderThatIsCutOffGivesTheLeaseBack: it reaches the API server and no Northbound, and another controller reaches
// both. When it is connected again, it is a standby, and leads again when the other one has ended.
func TestALeaderThatIsCutOffGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"))
	way := "unix:" + filepath.Join(t.TempDir(), "way")
	d.northbound.Control("ovsdb-server/add-remote", "p"+way)
	first := d.startThrough(func(c *controller, ctx context.Context) (database, func(), error) {
		c.patience = time.Second
		return c.dial(ctx)
	}, "first", func(c *settings.Config) { c.Northbound = []string{way} })
	d.eventually("the first one leads", func() bool { return first.leader.Load() != nil })
	second := d.start("second", nil)
	d.eventually("the second one could lead", func() bool { return second.ready() == nil })

	d.northbound.Control("ovsdb-server/remove-remote", "p"+way)
	d.eventually("the second one leads", func() bool { return second.leader.Load() != nil && first.leader.Load() == nil })
	d.create(kubePod("one", "l1"))
	d.eventually("the pod has a port", func() bool { return d.port("default_one") != nil })

	second.stop()
	d.create(kubePod("two", "l1"))
	d.northbound.Control("ovsdb-server/add-remote", "p"+way)
	d.eventually("the first one leads again", func() bool { return d.port("default_two") != nil })
}

// TestNobodyLeadsWithoutTheNorthbound: a controller that has never been connected leaves the Lease to others.
func TestNobodyLeadsWithoutTheNorthbound(t *testing.T) {
	t.Parallel()
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	d.start("astray", func(c *settings.Config) { c.Northbound = []string{"unix:" + filepath.Join(t.TempDir(), "nobody")} })
	second := d.start("second", nil)
	d.eventually("the second one leads", func() bool { return d.port("default_one") != nil })
	second.stop() // and gives the Lease back
	lease, err := d.api.CoordinationV1().Leases(second.config.LeaseNamespace).Get(t.Context(), second.config.LeaseName,
		metav1.GetOptions{})
	if err != nil || tenure.Holder(lease) != "" {
		t.Errorf("the Lease is %+v, %v, want it to be nobody's", lease, err)
	}
}

func TestCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		away []time.Duration // when the connection goes and comes, in turns
		want time.Duration   // 0: it is never cut off
	}{
		"never away":                    {nil, 0},
		"away from the start":           {[]time.Duration{0}, time.Minute},
		"away for less than a minute":   {[]time.Duration{5 * time.Second, 64 * time.Second}, 0},
		"away again and again":          {[]time.Duration{0, 50 * time.Second, 51 * time.Second, 100 * time.Second}, 0},
		"away for longer, the 2nd time": {[]time.Duration{0, 50 * time.Second, time.Minute}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				got := cutOff(ctx, time.Minute, func() bool {
					connected := true
					for _, at := range c.away {
						if time.Since(start) >= at {
							connected = !connected
						}
					}
					return connected
				})
				took := time.Since(start).Round(time.Second)
				if got != (c.want > 0) || got && took != c.want {
					t.Errorf("cut off: %t, after %s, want %s", got, took, c.want)
				}
			})
		})
	}
}
