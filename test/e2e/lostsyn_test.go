//go:build cluster

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestWhatIsSentAgainArrives loses the first packet of each connection behind the gateway that it came by. What
// the client then sends again has to reach the same endpoint from the same address, or they never meet.
func TestWhatIsSentAgainArrives(t *testing.T) {
	t.Parallel()
	long(t)
	const port = 8571
	for _, c := range []struct {
		name, node, policy string
		at                 place
		gateways           []string
	}{
		{"a pod of another node", "l2", "Cluster", inWeb(t, "l2"), []string{"l1", "w1"}},
		{"a pod of another, Windows, node", "w2", "Cluster", inWeb(t, "w2"), []string{"l1", "w1"}},
		{"another node's host", "l2", "Cluster", host("l2"), []string{"l1", "w1"}},
		{"a pod that is to see its client", "l2", "Local", inWeb(t, "l2"), []string{"l2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.at.serveWeb(t, port)
			addresses := podAddresses(t, web(c.node))
			if c.at == host(c.node) {
				addresses = nodeAddresses(t, c.node)
			}
			manifest := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: sent-again}
spec: {type: NodePort, externalTrafficPolicy: %s, ipFamilyPolicy: PreferDualStack, ports: [{name: http, port: 80, targetPort: %d}]}
`, c.policy, port)
			for i, family := range []string{"IPv4", "IPv6"} {
				manifest += fmt.Sprintf(`
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: sent-again-%d, labels: {kubernetes.io/service-name: sent-again}}
addressType: %s
ports: [{name: http, port: %d}]
endpoints: [{addresses: [%q], nodeName: %s, conditions: {ready: true}}]
`, i, family, port, addresses[i], c.node)
			}
			cluster.Apply(t, manifest)
			var urls []string
			for _, gateway := range c.gateways {
				for _, a := range nodeAddresses(t, gateway) {
					urls = append(urls, httpURL(a, nodePorts(t, "sent-again")["http"], "hostname"))
				}
			}
			eventually(t, inForce, "the Service is served", func() error {
				return outsideHost.ask(append([]string{"-timeout", "1s"}, urls...)...).failed()
			})
			loseFirst(t, c.at, port)
			for _, r := range outsideHost.ask(append([]string{"-timeout", "8s"}, urls...)...).replies {
				if len(r.Errors) > 0 || len(r.Answers) != 1 || r.SlowestMs < time.Second.Milliseconds() {
					t.Errorf("%s; want one answer, to what was sent a second time after a second", r)
				}
			}
		})
	}
}

// loseFirst has a place lose, until the test ends, the first SYN that each client's port sends to one of its own.
func loseFirst(t *testing.T, at place, port int) {
	t.Helper()
	table := fmt.Sprintf("first_%d", port)
	at.must(t, "nft", fmt.Sprintf(`table inet %s {
		set seen { type inet_service; flags dynamic; size 1000; }
		chain input {
			type filter hook input priority 0;
			tcp dport %d tcp flags & (syn | ack) == syn tcp sport != @seen add @seen { tcp sport } drop
		}
	}`, table, port))
	t.Cleanup(func() { at.must(t, "nft", "delete", "table", "inet", table) })
}
