//go:build cluster

package e2e

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft/test/companion"
)

// TestUDPFlowsMoveWhenTheirEndpointGoes: a client that keeps its port, and whose connection tracking entry
// has not ended by itself, is heard by another endpoint once its own is gone. It goes on sending meanwhile, also in
// the moment between OVN's flushing and the end of Open vSwitch's cached flows, by which it has its entry again.
// Windows nodes forget nothing, see package ctlookup: a client there that is never silent stays with what it has.
func TestUDPFlowsMoveWhenTheirEndpointGoes(t *testing.T) {
	t.Parallel()
	cluster.Apply(t, service("moving", "type: NodePort")+slicesOf(t, "moving", "l2"))
	port := nodePorts(t, "moving")["udp"]
	var inside, outside []string
	for i, a := range clusterAddresses(t, "moving") {
		inside = append(inside, udpURL(a, 81, "hostname"))
		outside = append(outside, udpURL(nodeAddresses(t, "l1")[i], port, "hostname"))
	}
	clients := []struct {
		from place
		urls []string
	}{{inWeb(t, "l1"), inside}, {inWeb(t, "l2"), inside}, {host("l1"), inside}, {outsideHost, outside},
		{host("l1"), outside}}
	// Each has a port, by which it asks one URL at a time.
	asking := func(i int, timeout string, args ...string) []string {
		return append(append([]string{"-timeout", timeout, "-at-once", "1", "-from", fmt.Sprintf(":%d", 20053+i)}, args...),
			clients[i].urls...)
	}
	hear := func(endpoint string) {
		t.Helper()
		for i, c := range clients {
			eventually(t, inForce, fmt.Sprintf("%s hears %s", c.from, endpoint), func() error {
				return c.from.ask(asking(i, "1s")...).are(web(endpoint))
			})
		}
	}
	hear("l2")
	for _, endpoint := range []string{"w2", "l1"} { // on either system, and the client's own node
		var restless []*companion.Program
		for i, c := range clients {
			restless = append(restless, c.from.keepAsking(t, asking(i, "300ms", "-every", "50ms")...))
		}
		setEndpoints(t, "moving", endpoint)
		for _, c := range clients {
			eventually(t, inForce, fmt.Sprintf("newcomers of %s hear %s", c.from, endpoint), func() error {
				return c.from.ask(c.urls...).are(web(endpoint))
			})
		}
		for _, p := range restless {
			companion.Stop[reply](t, p)
		}
		hear(endpoint)
	}
	setEndpoints(t, "moving")
	for i, c := range clients[:2] {
		eventually(t, inForce, c.from.String()+" hears nobody", func() error {
			return c.from.ask(asking(i, "1s")...).unanswered()
		})
	}
}
