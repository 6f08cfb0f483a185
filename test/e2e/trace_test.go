//go:build cluster

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// TestProbesMeetWhatTracesSay asks `weft trace --live` from a pod of a Linux node. What a real connection meets
// agrees with what the logical flows say, and where it does not, the reason is named.
func TestProbesMeetWhatTracesSay(t *testing.T) {
	t.Parallel()
	inhabit(t, "traced", newNamespace("traced", "")+networkPolicy("traced", "guarded", "podSelector: {matchLabels: {name: guarded}}, ingress: []")+`
---
apiVersion: v1
kind: Service
metadata: {name: served, namespace: traced}
spec: {ipFamilyPolicy: PreferDualStack, selector: {name: linux}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: forsaken, namespace: traced}
spec: {ipFamilyPolicy: PreferDualStack, selector: {name: nobody}, ports: [{port: 80}]}
`, guest{"client", "l1", 8080}, guest{"linux", "l2", 8080}, guest{"windows", "w1", 8080}, guest{"guarded", "l2", 8080})
	for _, tt := range []struct {
		to, protocol               string
		result, probed, comparison string
	}{
		{"traced/linux:8080", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"traced/windows:8080", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"svc/traced/served:80", "tcp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"svc/kube-system/kube-dns:53", "udp", api.Arrives, api.ProbeAnswered, api.ProbeAgrees},
		{"svc/traced/forsaken:80", "tcp", api.Refused, api.ProbeRefused, api.ProbeAgrees},
		{"traced/guarded:8080", "tcp", api.Refused, api.ProbeUnanswered, api.ProbeAgrees},
		// The network lets it pass, and no program listens there.
		{"traced/linux:9", "tcp", api.Arrives, api.ProbeRefused, api.ProbeDiffers},
		{"traced/linux:9", "udp", api.Arrives, api.ProbeRefused, api.ProbeDiffers},
	} {
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

// tracedLive is a trace with a probe.
func tracedLive(from, to, protocol, family string) (*api.TraceStatus, error) {
	out, err := cluster.Try("weft", "--", "trace", from, to, "--protocol", protocol, "--family", family, "--live",
		"-o", "json")
	var answer api.Trace
	if unreadable := json.Unmarshal([]byte(out), &answer); unreadable != nil || answer.Status.Probe == nil {
		return nil, fmt.Errorf("no trace with a probe: %w; %s", errors.Join(err, unreadable), out)
	}
	return &answer.Status, nil // one that does not arrive is an exit code, too
}
