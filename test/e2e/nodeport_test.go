//go:build cluster

package e2e

import (
	"net/netip"
	"slices"
	"testing"
)

// TestNodePortsServeEverywhere asks each node, at each of its addresses, from everywhere; and each host
// itself, by its own addresses and by localhost. On a Windows node's host the client is a Linux program,
// the listener that answers it weft.exe's.
func TestNodePortsServeEverywhere(t *testing.T) {
	t.Parallel()
	cluster.Apply(t, service("everywhere", "type: NodePort\nselector: {app: web}"))
	ports := nodePorts(t, "everywhere")
	urls := func(addrs ...netip.Addr) []string {
		var urls []string
		for _, a := range addrs {
			urls = append(urls, httpURL(a, ports["http"], "hostname"), udpURL(a, ports["udp"], "hostname"))
		}
		return urls
	}
	var everywhere, others []string
	for _, node := range nodes {
		everywhere = append(everywhere, urls(nodeAddresses(t, node)...)...)
		others = append(others, urls(managementAddresses(t, node)...)...)
	}
	localhost := urls(parseAddrs("127.0.0.1", "::1")...)
	for _, from := range clients(t) {
		t.Run(from.String(), func(t *testing.T) {
			t.Parallel()
			mine := everywhere
			if slices.Contains(nodes, from.machine) && from.namespace == "" {
				mine = slices.Concat(everywhere, others, localhost)
			}
			served(t, from, everyone, mine...)
		})
	}
}

// TestNodePortsOfOtherAddresses: the central is on a network of the nodes that no gateway is on.
func TestNodePortsOfOtherAddresses(t *testing.T) {
	t.Parallel()
	long(t)
	cluster.Apply(t, service("other-addresses", "type: NodePort\nselector: {app: web}"))
	ports := nodePorts(t, "other-addresses")
	var urls []string
	for _, node := range nodes {
		for _, a := range managementAddresses(t, node) {
			urls = append(urls, httpURL(a, ports["http"], "hostname"), udpURL(a, ports["udp"], "hostname"))
		}
	}
	served(t, central, everyone, urls...)
}

// TestNodePortsGo: what listened for a Service goes with it, and with its type.
func TestNodePortsGo(t *testing.T) {
	t.Parallel()
	long(t)
	cluster.Apply(t, service("short-lived", "type: NodePort\nselector: {app: web}"))
	port := nodePorts(t, "short-lived")["http"]
	var urls []string
	for _, node := range []string{"l1", "w1"} {
		for _, a := range nodeAddresses(t, node) {
			urls = append(urls, httpURL(a, port, "hostname"))
		}
	}
	served(t, outsideHost, everyone, urls...)
	served(t, host("l1"), everyone, urls...)
	patch(t, "service/short-lived", `{"spec":{"type":"ClusterIP"}}`)
	for _, from := range []place{outsideHost, host("l1"), host("w1"), inWeb(t, "l2")} {
		eventually(t, inForce, "nobody answers "+from.String(), func() error {
			return from.ask(urls...).refused()
		})
	}
	served(t, inWeb(t, "w2"), everyone, httpURL(clusterAddresses(t, "short-lived")[0], 80, "hostname"))
}
