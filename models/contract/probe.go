package contract

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// ProbeTime is how long a probe waits for an answer: long enough for a SYN that is lost once, which is sent again after
// a second.
const ProbeTime = 3 * time.Second

// ProbeRequest is what `weft observe` asks a node's agent, as JSON, once a stream: to open one connection from a pod's
// own network. The agent answers with a [ProbeReply], a line of JSON.
type ProbeRequest struct {
	Pod PodReference `json:"pod"`
	// User is the user of the API server who asks, for the agent's log.
	User string `json:"user"`
	// Protocol is tcp, udp or sctp.
	Protocol string `json:"protocol"`
	// Source is the pod's own address. A network that does not have it is not the pod's, and nothing is sent there.
	Source netip.Addr `json:"source"`
	// Destination is the address and the port that are asked.
	Destination netip.AddrPort `json:"destination"`
}

// ProbeReply is what the probe has met, or why it was not sent.
type ProbeReply struct {
	// Error is why nothing was sent.
	Error string `json:"error,omitempty"`
	// NoAddress says that nothing was sent as the network that was entered does not have the pod's address.
	NoAddress bool `json:"noAddress,omitempty"`
	// Result is one of the results of [api.TraceProbe].
	Result string `json:"result,omitempty"`
	// After is how long the result took.
	After time.Duration `json:"after,omitempty"`
}

var probeProtocols = []string{"tcp", "udp", "sctp"}

// CheckProbe refuses a request that is not about one host, beyond the pod's own link, and one of its ports.
func CheckProbe(r ProbeRequest) error {
	from, to := r.Source, r.Destination.Addr()
	switch {
	case r.Pod.UID == "":
		return fmt.Errorf("pod %s/%s: without a UID it may be another pod of the name", r.Pod.Namespace, r.Pod.Name)
	case !slices.Contains(probeProtocols, r.Protocol):
		return fmt.Errorf("protocol: %q is none of %q", r.Protocol, probeProtocols)
	case !ofOneHost(from):
		return fmt.Errorf("source: %v is not the address of a pod", from)
	case !ofOneHost(to) || to.Is4() != from.Is4():
		return fmt.Errorf("destination: %v is not the address of one host beyond the pod's link, of the family of %v", to,
			from)
	case r.Destination.Port() == 0:
		return fmt.Errorf("destination: %v has no port", to)
	}
	return nil
}

func ofOneHost(addr netip.Addr) bool {
	return addr.IsGlobalUnicast() && addr.Zone() == "" && !addr.Is4In6()
}

// KnownProbeResult says whether a result is one that [api.TraceProbe] has.
func KnownProbeResult(result string) bool {
	return slices.Contains([]string{api.ProbeAnswered, api.ProbeRefused, api.ProbeUnanswered, api.ProbeUnreachable},
		result)
}
