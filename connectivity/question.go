package connectivity

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Way is a way of packets through the network. Its text stays the same from version to version.
type Way string

// The ways, in the order in which they are told.
const (
	PodStarts          Way = "pod starts"
	HostToOwnPod       Way = "host to its own pod"
	APIServerToPod     Way = "API server to pod"
	PodToSameNode      Way = "pod to pod, same node"
	PodToOtherNode     Way = "pod to pod, other node"
	PodToOtherSystem   Way = "pod to pod, other system"
	LargeTCP           Way = "large answer, TCP"
	LargeUDP           Way = "large datagram, UDP"
	PodToService       Way = "pod to ClusterIP"
	PodToNodePort      Way = "pod to NodePort"
	PodToLocalNodePort Way = "pod to NodePort, Local"
	PodToHost          Way = "pod to host"
	HostToPod          Way = "host to pod"
	HostToService      Way = "host to ClusterIP"
	PolicyAllows       Way = "policy, allowed"
	PolicyRefuses      Way = "policy, refused"
	PodToName          Way = "pod to name of a Service"
	PodToOutside       Way = "pod to outside"
)

// Ways are all of them, in their order.
var Ways = []Way{PodStarts, HostToOwnPod, APIServerToPod, PodToSameNode, PodToOtherNode, PodToOtherSystem, LargeTCP,
	LargeUDP, PodToService, PodToNodePort, PodToLocalNodePort, PodToHost, HostToPod, HostToService, PolicyAllows,
	PolicyRefuses, PodToName, PodToOutside}

// End is where a way begins or ends. A field is empty if it does not say anything about it.
type End struct {
	Pod     string `json:"pod,omitempty"`
	Service string `json:"service,omitempty"`
	Node    string `json:"node,omitempty"`
	System  string `json:"system,omitempty"` // of the node
}

func (e End) String() string {
	var words []string
	switch {
	case e.Pod != "":
		words = append(words, e.Pod)
	case e.Service != "":
		words = append(words, "Service "+e.Service)
	case e.Node == "":
		return "outside"
	default:
		return "host " + e.Node
	}
	if e.Node != "" {
		words = append(words, "on "+e.Node)
	}
	return strings.Join(words, " ")
}

// Dial is a request that a pod makes for the test.
type Dial struct {
	Host     string // an address, or a name of the cluster's DNS
	Port     int
	Protocol corev1.Protocol
	Request  string // the path for TCP, which is HTTP; the datagram for UDP
}

func (d Dial) String() string {
	return net.JoinHostPort(d.Host, strconv.Itoa(d.Port)) + "/" + string(d.Protocol)
}

// question is one that the test asks.
type question struct {
	way      Way
	from, to End
	family   corev1.IPFamily // empty: whichever the asking pod takes
	port     int             // where the asking pod takes the request
	dial     Dial
	want     want
}

// Reply is what a pod has heard. Of several answers and errors each is listed.
type Reply struct {
	Responses []string `json:"responses"`
	Errors    []string `json:"errors"`
}

// want is the answer that a question is to have.
type want struct {
	hosts   []string // who may answer, by host names; none: anybody
	bytes   int      // how long the answer is, at least
	refused bool     // nobody answers
}

// judge says what is wrong with a reply.
func (w want) judge(r Reply) error {
	answer := ""
	if len(r.Responses) > 0 {
		answer = r.Responses[len(r.Responses)-1]
	}
	switch {
	case w.refused && len(r.Errors) == 0:
		return fmt.Errorf("it is answered, by %q, and the policy refuses it", answer)
	case w.refused:
		return nil
	case len(r.Errors) > 0:
		return errors.New(cause(r.Errors[len(r.Errors)-1]))
	case len(w.hosts) > 0 && !slices.ContainsFunc(w.hosts, func(h string) bool { return strings.EqualFold(h, answer) }):
		return fmt.Errorf("%q answers, and not %s", answer, strings.Join(w.hosts, " or "))
	case len(answer) < w.bytes:
		return fmt.Errorf("the answer has %d bytes, and not %d", len(answer), w.bytes)
	}
	return nil
}

// cause is what Go's HTTP client says, without the URL before it.
func cause(text string) string {
	if rest, isGet := strings.CutPrefix(text, `Get "`); isGet {
		if _, why, found := strings.Cut(rest, `": `); found {
			return why
		}
	}
	return text
}
