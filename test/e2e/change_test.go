//go:build cluster

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/companion"
)

// longestStop is less than a stop of packets takes that is more than one lost: the first segment is sent
// again after 200 ms, the next one after 400 more, a lost SYN after a second. Nobody sends a datagram again:
// one of a client's may be lost.
const longestStop = 900 * time.Millisecond

// control is part of the name of connections that do not concern a test. What happens to them, too, is the machine's.
const control = "control/"

// onThisMachine is how long something may stop that may stop for limit on an idle machine, where what does not concern
// the test has stopped for so many milliseconds.
func onThisMachine(limit time.Duration, control int64) int64 { return limit.Milliseconds() + 3*control }

// controlGap is the longest stop of the connections that do not concern a test, in milliseconds.
func controlGap(t testing.TB, reports []report) (gap int64) {
	t.Helper()
	for _, r := range reports {
		if strings.HasPrefix(r.Name, control) {
			gap = max(gap, r.LongestGapMs)
		}
	}
	if gap == 0 {
		t.Errorf("no connection was to tell of the machine: %+v", reports)
	}
	return gap
}

// unharmed ends what has been going on, and fails if anything of it failed, or stopped for longer than what does not
// concern the test; reports are of what has ended before, and controls ask what does not concern it.
func unharmed(t testing.TB, reports []report, held, asking, controls []*companion.Program) {
	t.Helper()
	for _, g := range held {
		reports = append(reports, companion.Stop[report](t, g)...)
	}
	var replies []reply
	for _, g := range asking {
		replies = append(replies, companion.Stop[reply](t, g)...)
	}
	gap, slowest := controlGap(t, reports), int64(0)
	for _, g := range controls {
		for _, r := range companion.Stop[reply](t, g) {
			slowest = max(slowest, r.SlowestMs)
		}
	}
	t.Logf("of what does not concern the test, connections have stopped for %d ms, and a new one took %d ms", gap, slowest)
	for _, r := range reports {
		if r.Error != "" || r.Answers == 0 || r.LongestGapMs > onThisMachine(longestStop, gap) {
			t.Errorf("connection %+v", r)
		}
	}
	for _, r := range replies {
		lostOne := strings.HasPrefix(r.URL, "udp:") && maps.Equal(r.Errors, map[string]int{"silent": 1})
		slow := r.SlowestMs > onThisMachine(longestStop, slowest)
		if len(r.Errors) > 0 && !lostOne || len(r.Answers) == 0 || slow {
			t.Errorf("new connections: %s", r)
		}
	}
}

// TestAChangeOfOnePortLeavesTheOthersAlone changes a Service's type, and port, node port and protocol of
// one of its ports, and all back, while others use its other ports, and another Service. Beside other tests
// the machine itself would lose packets.
func TestAChangeOfOnePortLeavesTheOthersAlone(t *testing.T) {
	long(t)
	cluster.Apply(t, service("changing", "type: NodePort")+slicesOf(t, "changing", "l2", "w2"))
	cluster.Apply(t, service("unchanged", "type: NodePort")+slicesOf(t, "unchanged", "l2", "w2"))
	lines, others := nodePorts(t, "changing")["lines"], nodePorts(t, "unchanged")
	inside := []place{inWeb(t, "l1"), inWeb(t, "w1"), host("l1"), host("w1")}
	var insideHeld, insideAsked, outsideHeld, outsideAsked, direct []string
	for _, node := range []string{"l2", "w2"} {
		for _, a := range podAddresses(t, web(node)) {
			insideHeld = append(insideHeld, fmt.Sprintf("%s%s=%s", control, a, netip.AddrPortFrom(a, 7000)))
			direct = append(direct, httpURL(a, 8080, "hostname"), udpURL(a, 8081, "hostname"))
		}
	}
	for i, a := range clusterAddresses(t, "changing") {
		insideHeld = append(insideHeld, fmt.Sprintf("changing/%s=%s", a, netip.AddrPortFrom(a, 7000)))
		other := clusterAddresses(t, "unchanged")[i]
		insideAsked = append(insideAsked, webURLs(other)...)
		for _, node := range []string{"l1", "w1"} {
			addr := nodeAddresses(t, node)[i]
			outsideHeld = append(outsideHeld, fmt.Sprintf("changing/%s=%s", addr, netip.AddrPortFrom(addr, uint16(lines))))
			outsideAsked = append(outsideAsked, httpURL(addr, others["http"], "hostname"),
				udpURL(addr, others["udp"], "hostname"))
		}
	}
	for _, from := range inside {
		eventually(t, inForce, from.String()+" is served", func() error { return from.ask(insideAsked...).failed() })
	}
	eventually(t, inForce, "the host outside is served", func() error { return outsideHost.ask(outsideAsked...).failed() })
	keepAsking := func(from place, urls []string) *companion.Program {
		return from.keepAsking(t, append([]string{"-every", "100ms"}, urls...)...)
	}
	var held, controls []*companion.Program
	asking := []*companion.Program{keepAsking(outsideHost, outsideAsked)}
	// The node port of the lines stays only as long as the type has any.
	outsideLines := outsideHost.hold(t, outsideHeld...)
	for _, from := range inside {
		held = append(held, from.hold(t, insideHeld...))
		asking = append(asking, keepAsking(from, insideAsked))
		// A client of its own: where one port asks a pod by a Service and directly, one of the two has no answer.
		controls = append(controls, keepAsking(from, direct))
	}

	ports := func(http, nodePort int, protocol string) string {
		return fmt.Sprintf(`{"spec":{"type":"NodePort","ports":[{"name":"http","port":%d,"targetPort":8080,"nodePort":%d,"protocol":%q},
			{"name":"udp","port":81,"targetPort":8081,"protocol":"UDP"},{"name":"lines","port":7000,"nodePort":%d}]}}`, http, nodePort, protocol, lines)
	}
	at, nodePort := clusterAddresses(t, "changing"), nodePorts(t, "changing")["http"]
	change := func(patched string, port int) {
		t.Helper()
		patch(t, "service/changing", patched)
		for _, from := range []place{inside[0], inside[1]} {
			eventually(t, inForce, fmt.Sprintf("%s is served on port %d", from, port), func() error {
				return from.ask(httpURL(at[0], port, "hostname"), httpURL(at[1], port, "hostname")).failed()
			})
		}
	}
	change(ports(8090, nodePort, "TCP"), 8090)
	change(ports(80, nodePort, "TCP"), 80)
	patch(t, "service/changing", ports(80, nodePort, "UDP")) // the target port serves no UDP
	eventually(t, inForce, "the port has another protocol", func() error {
		return inside[0].ask("-timeout", "1s", httpURL(at[0], 80, "hostname")).unanswered()
	})
	change(ports(80, nodePort, "TCP"), 80)
	eventually(t, inForce, "the node port is back", func() error {
		return outsideHost.ask(httpURL(nodeAddresses(t, "l1")[0], nodePort, "hostname"), httpURL(nodeAddresses(t, "w1")[0],
			nodePort, "hostname")).failed()
	})
	change(`{"spec":{"type":"LoadBalancer"}}`, 80)
	change(`{"spec":{"sessionAffinity":"ClientIP"}}`, 80)
	change(`{"spec":{"sessionAffinity":"None"}}`, 80)
	stopped := companion.Stop[report](t, outsideLines)
	change(`{"spec":{"type":"ClusterIP"}}`, 80)
	change(ports(80, nodePort, "TCP"), 80)
	unharmed(t, stopped, held, asking, controls)
}
