//go:build cluster

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// TestProbesMeetWhatTracesSay asks `weft trace --live` from a pod of a Linux node. What a real connection meets
// agrees with what the logical flows say, and where it does not, the reason is named.
func TestProbesMeetWhatTracesSay(t *testing.T) {
	t.Parallel()
	long(t)
	inhabit(t, "traced", newNamespace("traced", "")+networkPolicy("traced", "guarded", "podSelector: {matchLabels: {name: guarded}}, ingress: []")+`
---
apiVersion: v1
kind: Service
metadata: {name: served, namespace: traced}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {name: linux}, ports: [{port: 80, targetPort: http, nodePort: 30060}]}
---
apiVersion: v1
kind: Service
metadata: {name: forsaken, namespace: traced}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {name: nobody}, ports: [{name: tcp, port: 80, nodePort: 30062}, {name: udp, port: 80, nodePort: 30062, protocol: UDP}]}
---
apiVersion: v1
kind: Service
metadata: {name: local, namespace: traced}
spec: {type: NodePort, externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, selector: {name: linux}, ports: [{port: 80, targetPort: http, nodePort: 30061}]}
---
apiVersion: v1
kind: Service
metadata: {name: names, namespace: kube-system}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {k8s-app: kube-dns}, ports: [{port: 53, nodePort: 30063, protocol: UDP}]}
`, guest{"client", "l1", 8080}, guest{"linux", "l2", 8080}, guest{"windows", "w1", 8080}, guest{"guarded", "l2", 8080})
	type meeting struct {
		to, protocol               string
		result, probed, comparison string
	}
	byRouter := []meeting{
		{"node/w1:30061", "tcp", api.Refused, api.ProbeUnanswered, api.ProbeAgrees},
		{"node/l2:30062", "tcp", api.Refused, api.ProbeRefused, api.ProbeAgrees},
	}
	if *gateway == "own" { // at the nodes' addresses the agents answer
		byRouter = []meeting{
			{"node/w1:30061", "tcp", api.Refused, api.ProbeAnswered, api.ProbeUnknown},
			{"node/l2:30062", "tcp", api.Refused, api.ProbeAnswered, api.ProbeUnknown},
		}
	}
	for _, tt := range append(byRouter, []meeting{
		{"traced/linux:8080", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"traced/windows:8080", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"svc/traced/served:80", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"svc/kube-system/kube-dns:53", "udp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"svc/traced/forsaken:80", "tcp", api.Refused, api.ProbeRefused, api.ProbeAgrees},
		{"node/l1:30060", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"node/l2:30060", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"node/w1:30060", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"node/l1:30061", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees}, // a client within, on its own node
		{"node/l2:30061", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"node/l1:30062", "tcp", api.Refused, api.ProbeRefused, api.ProbeAgrees},
		// The refusal is an ICMP error of w1's gateway router, which has not come back to the pod.
		{"node/w1:30062", "udp", api.Refused, api.ProbeUnanswered, api.ProbeAgrees},
		{"node/l1:30063", "udp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"node/l2:30063", "udp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"node/w1:30063", "udp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"traced/guarded:8080", "tcp", api.Refused, api.ProbeUnanswered, api.ProbeAgrees},
		// The network lets it pass, and no program listens there.
		{"traced/linux:9", "tcp", api.Arrives, api.ProbeRefused, api.ProbeDiffers},
		{"traced/linux:9", "udp", api.Arrives, api.ProbeRefused, api.ProbeDiffers},
	}...) {
		for _, family := range []string{"4", "6"} {
			t.Run(fmt.Sprintf("%s %s IPv%s", tt.protocol, tt.to, family), func(t *testing.T) {
				eventually(t, inForce, "the probe meets what is to be", func() error {
					s, err := tracedLive("traced/client", tt.to, tt.protocol, family)
					if err != nil {
						return err
					}
					got := []string{s.Result, s.Probe.Result, s.Probe.Comparison}
					if want := []string{tt.result, tt.probed, tt.comparison}; !slices.Equal(got, want) {
						return fmt.Errorf("it is %q, want %q: %s; %s", got, want, s.Reason, s.Probe.Reason)
					}
					return nil
				})
			})
		}
	}
}

// TestNodePortsAnswerAsTraced asks NodePorts from the outside, from hosts and from pods. Whoever has an answer is
// traced as somebody who has one, and the endpoint sees the client that the trace names. With -thorough it asks all of
// them, and otherwise a third, chosen by chance.
func TestNodePortsAnswerAsTraced(t *testing.T) {
	t.Parallel()
	long(t)
	if *gateway == "own" {
		t.Skip("the host outside has no route to the nodes' own addresses")
	}
	n := inhabit(t, "answering", newNamespace("answering", "")+`
---
apiVersion: v1
kind: Service
metadata: {name: open, namespace: answering}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {name: linux}, ports: [{port: 80, targetPort: http, nodePort: 30064}]}
---
apiVersion: v1
kind: Service
metadata: {name: local, namespace: answering}
spec: {type: NodePort, externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, selector: {name: linux}, ports: [{port: 80, targetPort: http, nodePort: 30065}]}
`, guest{"client", "l1", 8080}, guest{"windows", "w1", 8080}, guest{"linux", "l2", 8080})
	outside := outsideAddresses(t)
	for i, family := range []string{"4", "6"} {
		for from, client := range map[string]place{outside[i].String(): outsideHost, "node/l1": host("l1"),
			"node/l2": host("l2"), "node/w1": host("w1"), "answering/client": n.inside["client"],
			"answering/windows": n.inside["windows"], "answering/linux": n.inside["linux"]} {
			for _, node := range []string{"l1", "l2", "w1"} {
				for _, port := range []int{30064, 30065} {
					if !*thorough && rand.IntN(3) > 0 {
						continue
					}
					to := netip.AddrPortFrom(nodeAddresses(t, node)[i], uint16(port))
					t.Run(fmt.Sprintf("%s to %s, %s", from, node, to), func(t *testing.T) {
						eventually(t, inForce, "the answer is what is traced", func() error {
							s, err := traced(from, to.String(), "--family", family)
							if err != nil {
								return err
							}
							heard := client.ask("-timeout", "2s", httpURL(to.Addr(), port, "clientip"))
							if s.Result != api.Arrives {
								return answersNobody(heard, s)
							}
							if len(s.Reply) == 0 { // the client is the endpoint
								return heard.failed()
							}
							seen, err := clientOf(s)
							if err != nil {
								return err
							}
							return heard.sees(seen)
						})
					})
				}
			}
		}
	}
}

// answersNobody is nil if somebody who is traced as one without an answer has none.
func answersNobody(h heard, s *api.TraceStatus) error {
	if h.failed() == nil {
		return fmt.Errorf("it is traced as %s (%s), and answered: %v", s.Result, s.Reason, h.answers())
	}
	return nil
}

// clientOf is to whom the endpoint of a trace answers, of "pod a/b sends the answer from 10.244.0.5:80 to
// 10.244.1.7:40000".
func clientOf(s *api.TraceStatus) (netip.Addr, error) {
	words := strings.Fields(s.Reply[0].Text)
	at, err := netip.ParseAddrPort(words[len(words)-1])
	return at.Addr(), err
}

// tracedLive is a trace with a probe.
func tracedLive(from, to, protocol, family string) (*api.TraceStatus, error) {
	s, err := traced(from, to, "--protocol", protocol, "--family", family, "--live")
	if err == nil && s.Probe == nil {
		err = fmt.Errorf("the trace has no probe: %+v", *s)
	}
	return s, err
}

// traced is what becomes of a connection.
func traced(from, to string, options ...string) (*api.TraceStatus, error) {
	out, err := cluster.Try(append([]string{"weft", "--", "trace", from, to, "-o", "json"}, options...)...)
	var answer api.Trace
	if unreadable := json.Unmarshal([]byte(out), &answer); unreadable != nil {
		return nil, fmt.Errorf("no trace: %w; %s", errors.Join(err, unreadable), out)
	}
	return &answer.Status, nil // one that does not arrive is an exit code, too
}
