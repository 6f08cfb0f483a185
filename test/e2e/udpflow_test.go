//go:build cluster

package e2e

import (
	"fmt"
	"testing"
)

// TestUDPFlowsMoveWhenTheirEndpointGoes: a client that keeps its port, and whose connection tracking entry
// has not ended by itself, is heard by another endpoint once its own is gone. It does not send in the moment
// between OVN's flushing and the end of Open vSwitch's cached flows, by which it would have its entry again
// (docs/services.md): others have been heard by then, from ports of their own.
func TestUDPFlowsMoveWhenTheirEndpointGoes(t *testing.T) {
	t.Parallel()
	cluster.apply(t, service("moving", "type: NodePort")+slicesOf(t, "moving", "l2"))
	port := nodePorts(t, "moving")["udp"]
	var inside, outside []string
	for i, a := range clusterAddresses(t, "moving") {
		inside = append(inside, udpURL(a, 81, "hostname"))
		outside = append(outside, udpURL(nodeAddresses(t, "l1")[i], port, "hostname"), udpURL(nodeAddresses(t, "w1")[i], port, "hostname"))
	}
	clients := []struct {
		from place
		urls []string
	}{
		{inWeb(t, "l1"), inside}, {inWeb(t, "w1"), inside}, {inWeb(t, "l2"), inside}, {host("l1"), inside}, {host("w1"), inside},
		{outsideHost, outside}, {inWeb(t, "w2"), outside}, {host("l1"), outside},
	}
	for _, endpoint := range []string{"l2", "w2", "l1"} { // on either system, and the client's own node
		setEndpoints(t, "moving", endpoint)
		for _, c := range clients {
			eventually(t, inForce, fmt.Sprintf("newcomers of %s hear %s", c.from, endpoint), func() error { return c.from.ask(c.urls...).are(web(endpoint)) })
		}
		for _, c := range clients {
			eventually(t, inForce, fmt.Sprintf("%s hears %s", c.from, endpoint), func() error {
				// One at a time: they share the port.
				return c.from.ask(append([]string{"-timeout", "1s", "-at-once", "1", "-from", ":40053"}, c.urls...)...).are(web(endpoint))
			})
		}
	}
	setEndpoints(t, "moving")
	for _, c := range clients[:3] {
		eventually(t, inForce, c.from.String()+" hears nobody", func() error {
			return c.from.ask(append([]string{"-timeout", "1s", "-at-once", "1", "-from", ":40053"}, c.urls...)...).unanswered()
		})
	}
}
