package trace

import (
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// TestWhatAProbeSaysOfItsTrace for every pair of results.
func TestWhatAProbeSaysOfItsTrace(t *testing.T) {
	const agrees, differs = api.ProbeAgrees, api.ProbeDiffers
	for traced, row := range map[string]map[string]string{
		api.Arrives: {api.ProbeAnswered: agrees, api.ProbeRefused: differs, api.ProbeUnanswered: differs,
			api.ProbeUnreachable: differs},
		api.Refused: {api.ProbeAnswered: differs, api.ProbeRefused: agrees, api.ProbeUnanswered: agrees,
			api.ProbeUnreachable: agrees},
		api.Lost: {api.ProbeAnswered: differs, api.ProbeRefused: differs, api.ProbeUnanswered: agrees,
			api.ProbeUnreachable: agrees},
	} {
		for met, want := range row {
			s := api.TraceStatus{Result: traced, Probe: &api.TraceProbe{Protocol: "tcp", Result: met}}
			Compare(&s)
			if s.Probe.Comparison != want || s.Probe.Reason == "" || (s.Probe.Remedy == "") != (want == agrees) {
				t.Errorf("traced %s, and %s: %+v, want %s", traced, met, *s.Probe, want)
			}
		}
	}
	for name, c := range map[string]struct {
		status api.TraceStatus
		want   string
		reason string
	}{
		"a datagram without answer": {api.TraceStatus{Result: api.Arrives, Probe: &api.TraceProbe{Protocol: "udp",
			Result: api.ProbeUnanswered}}, api.ProbeUnknown, "need not answer"},
		"a datagram that is refused": {api.TraceStatus{Result: api.Arrives, Probe: &api.TraceProbe{Protocol: "udp",
			Result: api.ProbeRefused}}, differs, "nobody listens"},
		"one of two endpoints": {api.TraceStatus{Result: api.Arrives, Endpoints: []string{"10.244.0.4:80", "10.244.0.5:80"},
			Probe: &api.TraceProbe{Protocol: "tcp", Result: api.ProbeRefused}}, differs, "another of the 2 endpoints"},
		"the only endpoint": {api.TraceStatus{Result: api.Arrives, Endpoints: []string{"10.244.0.4:80"},
			Probe: &api.TraceProbe{Protocol: "tcp", Result: api.ProbeAnswered}}, agrees, "answers"},
		"an agent that has no endpoint": {api.TraceStatus{Result: api.Refused, Request: []api.TraceStep{
			{Kind: api.StepHost, Object: "Service shop/db"}}, Probe: &api.TraceProbe{Protocol: "tcp",
			Result: api.ProbeAnswered}}, api.ProbeUnknown, "accepts each connection"},
		"an agent that has one": {api.TraceStatus{Result: api.Arrives, Request: []api.TraceStep{
			{Kind: api.StepHost, Object: "Service shop/db"}}, Probe: &api.TraceProbe{Protocol: "tcp",
			Result: api.ProbeAnswered}}, agrees, "agent accepts"},
		"a host": {api.TraceStatus{Result: api.Refused, Request: []api.TraceStep{{Kind: api.StepHost, Object: "Node l1"}},
			Probe: &api.TraceProbe{Protocol: "tcp", Result: api.ProbeAnswered}}, differs, "the destination answers"},
		"outside": {api.TraceStatus{Result: api.Arrives, Request: []api.TraceStep{{Kind: api.StepOutside}},
			Probe: &api.TraceProbe{Protocol: "tcp", Result: api.ProbeUnanswered}}, differs, "beyond OVN"},
	} {
		Compare(&c.status)
		if p := c.status.Probe; p.Comparison != c.want || !strings.Contains(p.Reason, c.reason) {
			t.Errorf("%s: %+v, want %s, and %q", name, *p, c.want, c.reason)
		}
	}
}
