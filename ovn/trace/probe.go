package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// plan is the probe that asks what the trace asks, by the addresses that the trace has chosen. A Service is asked by
// its own address, so that its load balancer takes part.
func (t *tracing) plan(p ovntrace.Packet) (*api.TraceProbe, error) {
	if _, _, own := podOf(t.from.port.owner); !own {
		return nil, questionErrorf("spec.live", "%s has no network of its own that a probe could be sent from; ask from "+
			"another pod", t.from.text)
	}
	return &api.TraceProbe{Protocol: string(p.Protocol), Source: p.Src.String(),
		Destination: netip.AddrPortFrom(p.Dst, p.DstPort).String(), Comparison: api.ProbeUnknown}, nil
}

// finding is what a probe says of a trace.
type finding struct{ comparison, reason, remedy string }

// behind is the remedy where packets go other ways than the logical flows say.
const behind = "`weft status` says which nodes are behind the Southbound; ask again if a policy or a Service has " +
	"just changed"

// findings are what a probe's result says, by the trace's.
var findings = map[string]map[string]finding{
	api.Arrives: {
		api.ProbeAnswered: {api.ProbeAgrees, "the destination answers", ""},
		api.ProbeRefused: {api.ProbeDiffers, "the network lets it pass, and the destination refuses it: nobody listens at " +
			"the port there", "see whether the program at the destination listens at this port, at all its addresses"},
		api.ProbeUnanswered: {api.ProbeDiffers, fmt.Sprintf("the logical flows let the packet and its answer pass, and no "+
			"answer has come within %v", contract.ProbeTime), "see by `weft capture` whether it comes to the destination, and " +
			"whether a firewall there drops it; `weft status` says which nodes are behind the Southbound"},
		api.ProbeUnreachable: {api.ProbeDiffers, "the logical flows let the packet pass, and somebody answers that there " +
			"is no way", "`weft capture` of the pod, with the filter icmp, shows whose answer it is"},
	},
	api.Refused: {
		api.ProbeAnswered:    {api.ProbeDiffers, "the logical flows refuse the packet, and the destination answers", behind},
		api.ProbeRefused:     {api.ProbeAgrees, "it is refused, too", ""},
		api.ProbeUnanswered:  {api.ProbeAgrees, "it has no answer", ""},
		api.ProbeUnreachable: {api.ProbeAgrees, "it is refused, too", ""},
	},
	api.Lost: {
		api.ProbeAnswered:    {api.ProbeDiffers, "the logical flows lose the packet, and the destination answers", behind},
		api.ProbeRefused:     {api.ProbeDiffers, "the logical flows lose the packet, and somebody refuses it", behind},
		api.ProbeUnanswered:  {api.ProbeAgrees, "it has no answer", ""},
		api.ProbeUnreachable: {api.ProbeAgrees, "somebody answers that there is no way", ""},
	},
}

// silent is a datagram that is let through and has no answer: programs need not give one.
var silent = finding{api.ProbeUnknown, "nobody refuses it, and a program need not answer a datagram",
	"see by `weft capture` whether it comes to the destination"}

// accepted are the findings where a node's agent has answered in the place of the destination.
var accepted = map[string]finding{
	api.Arrives: {api.ProbeAgrees, "a node's agent accepts the connection, whatever becomes of its own one", ""},
	api.Refused: acceptedFirst,
	api.Lost:    acceptedFirst,
}

var acceptedFirst = finding{api.ProbeUnknown, "a node's agent accepts each connection before it looks for an " +
	"endpoint, and resets it where there is none", "ask with data, as by curl: a connection that is reset has no answer"}

// byAgent says whether an agent takes part in a connection of TCP.
func byAgent(s *api.TraceStatus) bool {
	return s.Probe.Protocol == string(ovntrace.TCP) && slices.ContainsFunc(s.Request, func(step api.TraceStep) bool {
		return step.Kind == api.StepHost && strings.HasPrefix(step.Object, "Service ")
	})
}

// Compare says what a probe's result means beside the trace.
func Compare(s *api.TraceStatus) {
	probe := s.Probe
	found := findings[s.Result][probe.Result]
	if probe.Result == api.ProbeAnswered && byAgent(s) {
		found = accepted[s.Result]
	}
	if s.Result == api.Arrives && probe.Result == api.ProbeUnanswered && probe.Protocol == string(ovntrace.UDP) {
		found = silent
	}
	if found.comparison == api.ProbeDiffers {
		found = found.of(s)
	}
	probe.Comparison, probe.Reason, probe.Remedy = found.comparison, found.reason, found.remedy
}

// of is a finding with what else may be the reason for a difference.
func (f finding) of(s *api.TraceStatus) finding {
	if n := len(s.Endpoints); n > 1 {
		f.reason += fmt.Sprintf("; it may have met another of the %d endpoints than the trace", n)
		f.remedy += "; ask for each endpoint's pod"
	}
	if slices.ContainsFunc(s.Request, func(step api.TraceStep) bool { return step.Kind == api.StepOutside }) {
		f.reason += "; the way beyond OVN is not traced"
	}
	return f
}
