package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of traces.
const (
	// TraceResource is created in the namespace of its source, and not kept: the answer to the request has the status.
	TraceResource = "traces"
	TraceKind     = "Trace"
	// TraceRole is the ClusterRole that lets users trace between all ends, nodes and addresses outside. An administrator
	// binds it.
	TraceRole = "weft-observe-trace"
	// LiveSubresource has the right to a probe: `create` of traces/live, in the namespace of the source. There is nothing
	// at its path.
	LiveSubresource = "live"
	// LiveRole is the ClusterRole that lets users have probes sent. An administrator binds it.
	LiveRole = "weft-observe-trace-live"
)

// Kinds of a trace's ends.
const (
	PodEnd     = "Pod"
	ServiceEnd = "Service"
	NodeEnd    = "Node"
	AddressEnd = "Address"
)

// Results of a trace.
const (
	// Arrives is a connection whose first packet reaches its destination, and whose answer comes back.
	Arrives = "arrives"
	// Refused is one that somebody does not want: a policy, or a Service without endpoints.
	Refused = "refused"
	// Lost is one that finds no way, or no interface at the end of it.
	Lost = "lost"
)

// Results of a probe.
const (
	// ProbeAnswered is a connection that was accepted, or a datagram that had an answer.
	ProbeAnswered = "answered"
	// ProbeRefused is one that was answered by a reset, or by ICMP that nobody has the port.
	ProbeRefused = "refused"
	// ProbeUnanswered is one that had no answer in time.
	ProbeUnanswered = "unanswered"
	// ProbeUnreachable is one that was answered by ICMP that there is no way, or for which the pod has no route.
	ProbeUnreachable = "unreachable"
)

// What a probe says of its trace.
const (
	// ProbeAgrees is a probe that has met what the trace says.
	ProbeAgrees = "agrees"
	// ProbeDiffers is one that has met something else.
	ProbeDiffers = "differs"
	// ProbeUnknown is one that tells nothing of the trace, or was not sent.
	ProbeUnknown = "unknown"
)

// Kinds of a trace's steps.
const (
	StepStart       = "start"       // a packet leaves its sender
	StepPolicy      = "policy"      // a rule of a policy decides
	StepService     = "service"     // a Service's load balancer chooses an endpoint
	StepTunnel      = "tunnel"      // from node to node by GENEVE
	StepGateway     = "gateway"     // into a gateway router
	StepTranslation = "translation" // another source or destination address
	StepOutside     = "outside"     // out of the cluster
	StepHost        = "host"        // by a node's host, or its agent, outside of OVN
	StepEnd         = "end"         // where the packet ends, and why
)

// Trace asks what becomes of the first packet of a connection, and of the answer to it.
type Trace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec is the connection that is asked about.
	Spec TraceSpec `json:"spec"`
	// Status is the answer.
	Status TraceStatus `json:"status"`
}

// TraceSpec is a connection.
type TraceSpec struct {
	// Source is who opens the connection: a Pod, a Node, or an Address outside of the cluster.
	Source TraceEnd `json:"source"`
	// Destination is what the connection goes to: a Pod, a Service, a Node or an Address. From an Address it is a Node or
	// an Address.
	Destination TraceEnd `json:"destination"`
	// Port is the number of the destination's port, or the name of a port of a Service. A Service with one port, or with
	// one of the protocol, needs none. Without it, other destinations are asked for an echo (ICMP), and the protocol must
	// be empty.
	Port string `json:"port,omitempty"`
	// Protocol is one of tcp, udp and sctp. Empty is the protocol of the Service's port, or tcp for a port of another
	// destination.
	Protocol string `json:"protocol,omitempty"`
	// Family is IPv4 or IPv6. Empty is IPv4 if both ends have it, else IPv6.
	Family string `json:"family,omitempty"`
	// OVN is true for the output of ovn-trace, too. It needs the right in the whole cluster.
	OVN bool `json:"ovn,omitempty"`
	// Node is the Node by whose gateway a connection of an Address enters the cluster. Empty is the one that has the
	// destination, else the first by name whose gateway has a load balancer of its own for it, else the first by name
	// that has a gateway.
	Node string `json:"node,omitempty"`
	// Live is true for a probe, too: a real connection from the Pod's own network. It needs a Pod as the source, a port
	// unless the destination is a Service that needs none, and the right to create traces/live in the namespace of the
	// source.
	Live bool `json:"live,omitempty"`
}

// TraceEnd is an end of a connection.
type TraceEnd struct {
	// Kind is Pod, Service, Node or Address.
	Kind string `json:"kind"`
	// Namespace is the namespace of a Pod or a Service.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the object, or the address.
	Name string `json:"name"`
}

// TraceStatus is what becomes of the connection.
type TraceStatus struct {
	// Result is one of arrives, refused and lost.
	Result string `json:"result"`
	// Reason is where the connection ends, and why.
	Reason string `json:"reason"`
	// Remedy is what to do about it.
	Remedy string `json:"remedy,omitempty"`
	// Notes is further remarks.
	Notes []string `json:"notes,omitempty"`
	// Endpoints is the addresses among which the Service's load balancer chooses, with their ports. One was followed.
	Endpoints []string `json:"endpoints,omitempty"`
	// Request is the steps of the first packet.
	Request []TraceStep `json:"request"`
	// Reply is the steps of the answer.
	Reply []TraceStep `json:"reply,omitempty"`
	// OVN is what ovn-trace has printed.
	OVN []TraceOutput `json:"ovn,omitempty"`
	// Probe is the probe, and what it has met.
	Probe *TraceProbe `json:"probe,omitempty"`
}

// TraceProbe is one connection, or one datagram, from the Pod's own network.
type TraceProbe struct {
	// Protocol is one of tcp, udp and sctp.
	Protocol string `json:"protocol"`
	// Source is the Pod's address.
	Source string `json:"source"`
	// Destination is the address and the port that were asked. A Service was asked by its own address.
	Destination string `json:"destination"`
	// Result is one of answered, refused, unanswered and unreachable. It is empty if the probe was not sent.
	Result string `json:"result,omitempty"`
	// After is how long the result took.
	After metav1.Duration `json:"after,omitzero"`
	// Comparison is one of agrees, differs and unknown.
	Comparison string `json:"comparison"`
	// Reason is what the result means beside the trace, or why the probe was not sent.
	Reason string `json:"reason"`
	// Remedy is what to do about it.
	Remedy string `json:"remedy,omitempty"`
}

// TraceStep is something that happens to a packet.
type TraceStep struct {
	// Kind is one of start, policy, service, tunnel, gateway, translation, outside, host and end.
	Kind string `json:"kind"`
	// Node is the Node on which it happens.
	Node string `json:"node,omitempty"`
	// Object is the kind, the namespace and the name of the object that does it, as "NetworkPolicy shop/db".
	Object string `json:"object,omitempty"`
	// Text is what happens.
	Text string `json:"text"`
}

// TraceOutput is a run of ovn-trace.
type TraceOutput struct {
	// Packet is the packet, in the language of OVN's expressions.
	Packet string `json:"packet"`
	// Text is the output.
	Text string `json:"text"`
}
