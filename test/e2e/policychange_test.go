//go:build cluster

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/companion"
)

// TestPoliciesComeAndGo with servers linux and windows, and their client, in a namespace that logs.
func TestPoliciesComeAndGo(t *testing.T) {
	t.Parallel()
	long(t)
	guests := []guest{{"linux", "l1", 8080}, {"windows", "w1", 8080}, {"client", "l2", 8080}}
	n := inhabit(t, "changing", newNamespace("changing", `weft.net/acl-logging: '{"deny":"warning","allow":"info"}'`),
		guests...)
	peers := n.among(t, guests, "l2")
	t.Run("without a gap", n.changeWithoutGap)
	t.Run("connections that exist", n.cutConnections)
	t.Run("lines in the log", n.logConnections)
	t.Run("counters", n.countHits)
	t.Run("ICMP errors", n.passErrors)
	t.Run("cluster-wide", func(t *testing.T) { n.obeyClusterPolicies(t, peers) })
	t.Run("what is wrong", func(t *testing.T) { n.tellWhatIsWrong(t, peers) })
}

// changeWithoutGap: a policy becomes another that refuses the same, pods are relabelled from one subject to
// another, and what both states refuse passes in no moment.
func (n tenancy) changeWithoutGap(t *testing.T) {
	n.removeAll(t)
	const inward, none = "policyTypes: [Ingress]", "{matchLabels: {name: nobody}}"
	refusing := []string{
		"podSelector: {}, " + inward,
		"podSelector: {matchExpressions: [{key: name, operator: NotIn, values: [client]}]}, " +
			"ingress: [{from: [{podSelector: " + none + "}]}]",
		"podSelector: {matchLabels: {turn: even}}, " + inward,
		"podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}]}, {ports: [{port: 9}]}]",
		"podSelector: {}, policyTypes: [Ingress, Egress]",
	}
	label := func(turn string) {
		for _, pod := range []string{"linux", "windows"} {
			cluster.Kubectl(t, "label", "pod", "-n", n.name, pod, "--overwrite", "turn="+turn)
		}
	}
	label("even")
	put(t, n.policy("first", refusing[0]))
	n.says(t, "first", "InForce")
	var urls []string
	for _, server := range []string{"linux", "windows"} {
		for _, a := range n.at[server] {
			urls = append(urls, httpURL(a, 8080, "hostname"), udpURL(a, 8081, "hostname"))
		}
	}
	client := n.inside["client"]
	eventually(t, inForce, "the client is refused", func() error {
		return client.ask(append([]string{"-timeout", "1s"}, urls...)...).unanswered()
	})
	var listeners []visitors
	for _, server := range []string{"linux", "windows"} {
		for _, port := range []int{8080, 8081} {
			listeners = append(listeners, n.inside[server].count(t, port))
		}
	}
	asking := client.keepAsking(t, append([]string{"-timeout", "40ms", "-every", "5ms"}, urls...)...)
	for _, spec := range slices.Concat(refusing[1:], refusing[:1]) {
		put(t, n.policy("first", spec))
		n.says(t, "first", "InForce")
	}
	// Two policies, of which each pod is the subject of one.
	put(t, n.policy("even", "podSelector: {matchLabels: {turn: even}}, "+inward)+n.policy("odd",
		"podSelector: {matchLabels: {turn: odd}}, ingress: [{from: [{podSelector: "+none+"}]}]"))
	n.says(t, "odd", "InForce")
	n.remove(t, "first")
	const enough = 1000 // packets of the client to hit a gap
	for turn := 1; turn <= 3 || turn < 30 && client.sent(t) < enough; turn++ {
		odd := turn%2 == 1
		label(map[bool]string{true: "odd", false: "even"}[odd])
		n.hasPort(t, "odd", "windows", odd)
	}
	if sent := client.sent(t); sent < enough {
		t.Errorf("the client has sent %d packets, too few to hit a gap", sent)
	}
	for _, l := range listeners {
		l.none(t, n.at["client"])
	}
	n.remove(t, "even", "odd")
	for _, l := range listeners {
		l.all(t, n.at["client"])
	}
	companion.Stop[reply](t, asking)
}

// hasPort waits until a pod's port is among those of a policy, or is not.
func (n tenancy) hasPort(t testing.TB, policy, pod string, want bool) {
	t.Helper()
	group := groupOf(n.says(t, policy, "InForce").Message)
	port := cluster.Must(t, "nbctl", "--", "--bare", "--columns=_uuid", "find", "logical_switch_port",
		fmt.Sprintf("name=%s_%s", n.name, pod))
	eventually(t, inForce, pod+" joins or leaves "+group, func() error {
		ports, err := cluster.Try("nbctl", "--", "get", "port_group", group, "ports")
		if err == nil && (port == "" || strings.Contains(ports, port) != want) {
			err = fmt.Errorf("port %q, in the group %s", port, ports)
		}
		return err
	})
}

// groupOf is the port group that a policy's status names.
func groupOf(message string) string {
	_, rest, _ := strings.Cut(message, "port group ")
	group, _, _ := strings.Cut(rest, ";")
	return group
}

// cutConnections: those that a policy comes to refuse end, and those that it allows go on, also when
// another rule allows them later.
func (n tenancy) cutConnections(t *testing.T) {
	n.removeAll(t)
	var targets []string
	for _, server := range []string{"linux", "windows"} {
		n.inside[server].serve(t, steady(), "serve", ":7000")
		eventually(t, inForce, server+" serves lines", func() error {
			out, err := n.inside[server].try("ss", "-Htln", "sport", "=", ":7000")
			if err == nil && out == "" {
				err = fmt.Errorf("nobody listens")
			}
			return err
		})
		for _, a := range n.at[server] {
			targets = append(targets, fmt.Sprintf("%s=%s", server, netip.AddrPortFrom(a, 7000)))
		}
	}
	for _, c := range []struct{ refused, allowed string }{{"linux", "windows"}, {"windows", "linux"}} {
		held := n.inside["client"].hold(t, targets...)
		put(t, n.policy("cut", "podSelector: {matchLabels: {name: "+c.refused+"}}, policyTypes: [Ingress]")+
			n.policy("keep", "podSelector: {matchLabels: {name: "+c.allowed+"}}, ingress: [{from: [{podSelector: "+
				"{matchLabels: {name: client}}}]}]"))
		for _, a := range n.at[c.refused] {
			n.unacknowledged(t, a, 3)
		}
		put(t, n.policy("keep", "podSelector: {matchLabels: {name: "+c.allowed+"}}, ingress: [{from: [{namespaceSelector: "+
			"{}}], ports: [{port: 7000}]}]"))
		n.says(t, "keep", "InForce")
		for _, a := range n.at[c.refused] {
			n.unacknowledged(t, a, 4)
		}
		var refusedGap, allowedGap int64
		for _, r := range companion.Stop[report](t, held) {
			switch {
			case r.Name == c.refused:
				refusedGap = r.LongestGapMs
			case r.Error != "" || r.Answers == 0:
				t.Errorf("connection %+v; it is allowed", r)
			default:
				allowedGap = max(allowedGap, r.LongestGapMs)
			}
		}
		t.Logf("%s has answered no more for %d ms, %s at most for %d ms", c.refused, refusedGap, c.allowed, allowedGap)
		if allowedGap >= refusedGap {
			t.Errorf("what is allowed has stopped for %d ms, what is refused for %d ms", allowedGap, refusedGap)
		}
		n.remove(t, "cut", "keep")
	}
}

// unacknowledged waits until the client has sent again so often what an address does not acknowledge. Where
// answers were slow before, it sends again after seconds.
func (n tenancy) unacknowledged(t testing.TB, to netip.Addr, times int) {
	t.Helper()
	eventually(t, 2*time.Minute, fmt.Sprintf("connections to %s are cut", to), func() error {
		out, err := n.inside["client"].try("ss", "-Htno", "state", "established", "dst",
			netip.AddrPortFrom(to, 7000).String())
		if err != nil {
			return err
		}
		_, timer, _ := strings.Cut(out, "timer:(on,")
		_, again, _ := strings.Cut(timer, ",")
		var count int
		if _, err := fmt.Sscanf(again, "%d)", &count); err != nil || count < times {
			return fmt.Errorf("connections: %q", out)
		}
		return nil
	})
}

// logConnections: a line says which rule of which policy decided, in the log of who runs the node's
// ovn-controller.
func (n tenancy) logConnections(t *testing.T) {
	n.removeAll(t)
	put(t, n.policy("guard", "podSelector: {matchExpressions: [{key: name, operator: NotIn, values: [client]}]}, "+
		"ingress: [{ports: [{port: 8080}]}]"))
	var allowed, refused []string
	for _, server := range []string{"linux", "windows"} {
		for _, a := range n.at[server] {
			allowed = append(allowed, httpURL(a, 8080, "hostname"))
			refused = append(refused, udpURL(a, 8081, "hostname"))
		}
	}
	client := n.inside["client"]
	eventually(t, inForce, "the policy is in force", func() error {
		if err := client.ask(append([]string{"-timeout", "1s"}, refused...)...).unanswered(); err != nil {
			return err
		}
		return client.ask(append([]string{"-timeout", "1s"}, allowed...)...).failed()
	})
	for server, log := range map[string][]string{"linux": {"ovn-controller", "l1"},
		"windows": {chassisHost, hostOf(t, "w1")}} {
		for _, words := range [][]string{
			{`name="changing/guard ingress"`, "verdict=drop", "severity=warning", n.at[server][0].String()},
			{`name="changing/guard ingress"`, "verdict=drop", "severity=warning", n.at[server][1].String()},
			{`name="changing/guard ingress[0]"`, "verdict=allow", "severity=info", n.at[server][0].String()},
		} {
			eventually(t, inForce, fmt.Sprintf("%s of %s has a line", log[0], log[1]), func() error {
				out, err := cluster.Try(append([]string{"logs", "-n", "2000"}, log...)...)
				if err != nil {
					return err
				}
				for line := range strings.Lines(strings.ReplaceAll(out, `\"`, `"`)) {
					if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
						return nil
					}
				}
				// Lines have a rate, which all policies share: the packets of this one may have had none.
				return errors.Join(fmt.Errorf("none with %q", words),
					client.ask(append([]string{"-timeout", "1s"}, refused...)...).unanswered(),
					client.ask(append([]string{"-timeout", "1s"}, allowed...)...).failed())
			})
		}
	}
}
