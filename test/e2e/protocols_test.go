//go:build cluster

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSCTPIsKeptOffWindowsNodes, whose datapath has no connection tracking for it. The lab's stand-in has:
// what is looked at are flows.
func TestSCTPIsKeptOffWindowsNodes(t *testing.T) {
	t.Parallel()
	cluster.Apply(t, `
apiVersion: v1
kind: Service
metadata: {name: telephony}
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  ports: [{name: http, port: 80, targetPort: 8080}, {name: udp, port: 81, targetPort: 8081, protocol: UDP}, {name: calls, port: 3868, protocol: SCTP}]
`+strings.ReplaceAll(slicesOf(t, "telephony", "l1", "w1"), "{name: lines, port: 7000}", "{name: calls, port: 3868, protocol: SCTP}"))
	eventMentions(t, "Service", "default", "telephony", "SCTP", "Windows")
	flows := func(datapath string) bool {
		return strings.Contains(cluster.Must(t, "sbctl", "--", "lflow-list", datapath), "sctp")
	}
	for _, datapath := range []string{"l1", "l2", "gw-l1"} {
		eventually(t, inForce, datapath+" has flows for SCTP", func() error {
			if !flows(datapath) {
				return fmt.Errorf("it has none")
			}
			return nil
		})
	}
	for _, datapath := range []string{"w1", "w2", "gw-w1"} {
		if flows(datapath) {
			t.Errorf("%s has flows for SCTP", datapath)
		}
	}
	// The rest of the Service is as good as any.
	for _, from := range []place{inWeb(t, "w1"), inWeb(t, "l2"), host("w2")} {
		served(t, from, []string{web("l1"), web("w1")}, webURLs(clusterAddresses(t, "telephony")...)...)
	}
}

// TestServiceRangesComeAndGo while the cluster runs.
func TestServiceRangesComeAndGo(t *testing.T) {
	t.Parallel()
	long(t)
	const ranges = `
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: more}
spec: {cidrs: [10.97.0.0/24, "fd00:10:97::/112"]}
`
	cluster.Apply(t, ranges)
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=30s", "servicecidr/more")
	addrs := parseAddrs("10.97.0.77", "fd00:10:97::77")
	spec := "selector: {app: web}\nclusterIP: 10.97.0.77\nclusterIPs: [10.97.0.77, \"fd00:10:97::77\"]\nipFamilies: " +
		"[IPv4, IPv6]"
	eventually(t, 30*time.Second, "the API server gives addresses of the new range", func() error {
		_, err := cluster.TryWith(service("in-new-range", spec), "kubectl", "--", "apply", "-f", "-")
		return err
	})
	removed := false
	t.Cleanup(func() {
		if !removed {
			cluster.Kubectl(t, "delete", "service", "in-new-range")
		}
	})
	for _, from := range clients(t)[1:] {
		served(t, from, everyone, webURLs(addrs...)...)
	}
	routes := func(node string) string {
		return host(node).must(t, "sh", "-c", "ip route show 10.97.0.0/24; ip -6 route show fd00:10:97::/112")
	}
	for _, node := range nodes {
		if strings.Count(routes(node), "\n") != 1 {
			t.Errorf("%s has the routes %q to the new ranges, want one of each family", node, routes(node))
		}
	}
	cluster.Kubectl(t, "delete", "service", "in-new-range")
	removed = true
	cluster.Kubectl(t, "delete", "servicecidr", "more", "--timeout=180s")
	for _, node := range nodes {
		eventually(t, inForce, node+" has no route to ranges that are no more", func() error {
			if left := routes(node); left != "" {
				return fmt.Errorf("left: %s", left)
			}
			return nil
		})
	}
	served(t, host("w1"), everyone, webURLs(clusterAddresses(t, "web")...)...)
}
