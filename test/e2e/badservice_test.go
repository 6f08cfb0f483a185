//go:build cluster

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestTwoServicesWantOneAddress: who came first has it; the other one is told, and is served at the rest.
func TestTwoServicesWantOneAddress(t *testing.T) {
	t.Parallel()
	vip := parseAddrs("203.0.113.60")[0]
	spec := `externalIPs: ["203.0.113.60"]`
	cluster.Apply(t, service("first", spec)+slicesOf(t, "first", "l1"))
	urls := webURLs(vip)
	served(t, inWeb(t, "l2"), []string{web("l1")}, urls...)
	cluster.Apply(t, service("second", spec)+slicesOf(t, "second", "w1"))
	eventMentions(t, "Service", "default", "second", "203.0.113.60", "default/first", "externalIPs")
	for _, from := range []place{inWeb(t, "l2"), inWeb(t, "w2"), host("l1")} {
		served(t, from, []string{web("l1")}, urls...)
		served(t, from, []string{web("w1")}, webURLs(clusterAddresses(t, "second")...)...)
	}
	// And gets it when it is free.
	patch(t, "service/first", `{"spec":{"externalIPs":null}}`)
	eventually(t, inForce, "the second has the address", func() error {
		return inWeb(t, "l2").ask(urls...).are(web("w1"))
	})
}

// TestNodePortOutsideItsRange is refused by the API server, in words.
func TestNodePortOutsideItsRange(t *testing.T) {
	t.Parallel()
	manifest := strings.Replace(service("far-off", "type: NodePort"), "port: 80,", "port: 80, nodePort: 80,", 1)
	out, err := cluster.TryWith(manifest, "kubectl", "--", "apply", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "nodePort") || !strings.Contains(err.Error(), "30000-32767") {
		t.Errorf("the API server says %s %v", out, err)
	}
}

// TestNodePortThatAHostUses: the program that has it keeps it, on that host's own addresses; from elsewhere
// the Service is served.
func TestNodePortThatAHostUses(t *testing.T) {
	t.Parallel()
	const port = 31977
	host("l2").serveWeb(t, port)
	cluster.Apply(t, strings.Replace(service("taken", "type: NodePort"), "port: 80,",
		fmt.Sprintf("port: 80, nodePort: %d,", port), 1)+slicesOf(t, "taken", "l1"))
	eventMentions(t, "Service", "default", "taken", fmt.Sprint(port), "nodePort", "another program")
	for _, a := range nodeAddresses(t, "l2") {
		// Until then the host has it for everybody, and Open vSwitch remembers so for a moment.
		eventually(t, inForce, "the Service has the port for others", func() error {
			return outsideHost.ask("-n", "20", httpURL(a, port, "hostname")).are(web("l1"))
		})
		served(t, outsideHost, []string{web("l1")}, httpURL(a, port, "hostname"))
		served(t, host("l1"), []string{web("l1")}, httpURL(a, port, "hostname"))
		served(t, host("l2"), []string{"l2"}, httpURL(a, port, "hostname"))
	}
	served(t, host("l1"), []string{web("l1")}, httpURL(parseAddrs("127.0.0.1")[0], port, "hostname"))
}
