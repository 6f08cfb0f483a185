package ovn

import (
	"testing"

	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/test/freeport"
	"github.com/weftnet/weft/test/prometheus"
)

// TestPrometheusTellsOfALostNorthbound: a real Prometheus scrapes the controller. When the Northbound's server ends, an
// alert of docs/monitoring fires, and another when the controller ends as well.
func TestPrometheusTellsOfALostNorthbound(t *testing.T) {
	d := deploy(t, kubeNode("l1", "10.244.0.0/24"), kubePod("one", "l1"))
	address := freeport.Address(t)
	c := d.start("only", func(c *settings.Config) { c.MetricsAddress = address })
	d.eventually("the pod has a port", func() bool { return d.port("default_one") != nil })
	p := prometheus.Start(t, map[string]string{"weft-controller": address})
	northbound := map[string]string{"database": "OVN_Northbound"}
	p.AwaitEnd("WeftNoLeader", nil)
	p.AwaitEnd("WeftDatabaseDisconnected", northbound)
	d.northbound.Kill()
	p.Await("WeftDatabaseDisconnected", northbound)
	c.stop()
	p.Await("WeftTargetDown", map[string]string{"job": "weft-controller"})
	p.Await("WeftNoLeader", nil)
}
