package node

import (
	"testing"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/prometheus"
)

// TestPrometheusTellsOfADeadController: a real Prometheus scrapes the agent. When ovn-controller dies, two alerts of
// docs/monitoring fire; when it is back, they end.
func TestPrometheusTellsOfADeadController(t *testing.T) {
	c := newCluster(t)
	c.config.MetricsAddress = "127.0.0.1:9471"
	c.decide()
	c.startAgent()
	c.awaitReady()
	p := prometheus.Start(t, map[string]string{"weft-node": c.config.MetricsAddress})
	controller := map[string]string{"daemon": "ovn-controller", "node": testNode}
	p.AwaitEnd("WeftDaemonDown", controller)
	p.AwaitEnd("WeftNodeNotReady", nil)
	c.ovn.Kill(nodetest.OVNController)
	p.Await("WeftNodeNotReady", nil)
	const want = "ovn-controller of node n1 does not answer (told by 127.0.0.1:9471)."
	if summary := p.Await("WeftDaemonDown", controller); summary != want {
		t.Errorf("it says %q, want %q", summary, want)
	}
	c.ovn.Start(nodetest.OVNController)
	p.AwaitEnd("WeftDaemonDown", controller)
	p.AwaitEnd("WeftNodeNotReady", nil)
}
