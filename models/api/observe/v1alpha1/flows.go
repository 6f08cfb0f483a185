package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of the flows of the network.
const (
	// NetworkFlowsResource is of the cluster, or of a namespace: the flows that have an end or the Service in it. It has
	// one object, which is named [NetworkFlowsName].
	NetworkFlowsResource = "networkflows"
	NetworkFlowsKind     = "NetworkFlows"
	NetworkFlowsName     = "cluster"
	// NetworkFlowsRole is the ClusterRole that lets users list them. An administrator binds it.
	NetworkFlowsRole = "weft-observe-flows"
)

// Field selectors of flows, beside [NodeSelector]: that an end is on the node, or that the node knows the flow.
const (
	// PodSelector is the name of a pod that is one of the ends.
	PodSelector = "pod"
	// ServiceSelector is the name of the Service by which the source has asked.
	ServiceSelector = "service"
	// SourceSelector and DestinationSelector are an end: [NAMESPACE/]POD, node/NAME, outside, an address or a CIDR. A
	// destination may also be svc/[NAMESPACE/]NAME.
	SourceSelector      = "source"
	DestinationSelector = "destination"
	// ProtocolSelector and StateSelector are words of a flow, in upper or lower case.
	ProtocolSelector = "protocol"
	StateSelector    = "state"
	// FromOwnNodeSelector is true or false: whether the host of a pod's own node has begun the flow, and has asked the pod
	// itself and no Service. So are the probes of kubelet.
	FromOwnNodeSelector = "fromOwnNode"
)

// Kinds of a flow's ends, beside [PodEnd], [NodeEnd] and [AddressEnd]. That is one which nobody has, or which the user
// may not know more of.
const (
	GatewayEnd = "Gateway"
	OutsideEnd = "Outside"
)

// NetworkFlowsList is a list of one item, the flows of the network.
type NetworkFlowsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	// Items is the flows.
	Items []NetworkFlows `json:"items"`
}

// NetworkFlows is the connections that the nodes remember in OVN's zones of connection tracking, without those of hosts
// among themselves.
type NetworkFlows struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Time is when the nodes were asked, by the clock of the door.
	Time metav1.MicroTime `json:"time"`
	// Flows is the connections, by source and destination.
	Flows []Flow `json:"flows"`
	// Omitted is how many flows or entries of connection tracking were left out, because of the bounds of an answer.
	Omitted int `json:"omitted,omitempty"`
	// FromOwnNode is how many flows were left out because the field selector fromOwnNode is false: the host of the pod's
	// own node has begun them, as the probes of kubelet.
	FromOwnNode int `json:"fromOwnNode,omitempty"`
	// NodesAsked is the number of the Nodes whose agents have written the annotation weft.net/node-facts.
	NodesAsked int `json:"nodesAsked"`
	// NodesUnanswered is the number of nodes whose connections are not in the answer.
	NodesUnanswered int `json:"nodesUnanswered"`
	// Unanswered is these nodes, and why they are not. Only a user that may list the flows of all namespaces gets it.
	Unanswered []Unanswered `json:"unanswered,omitempty"`
	// Unread is the sources of names that could not be read. Without names, few flows fit a namespace. Only a user that
	// may list the flows of all namespaces gets the reasons.
	Unread []Unread `json:"unread,omitempty"`
}

// Flow is a connection.
type Flow struct {
	// Source is the end that has begun the connection.
	Source FlowEnd `json:"source"`
	// Destination is the end that answers: of a Service the endpoint that was chosen. A user that may see neither the
	// Service nor the endpoint gets the Service's address and port.
	Destination FlowEnd `json:"destination"`
	// Service is the Service that the source has asked, if that is not the destination itself; absent if the user may
	// not see it.
	Service *FlowService `json:"service,omitempty"`
	// Protocol is TCP, UDP, SCTP, ICMP, ICMPV6, or what else Open vSwitch calls it.
	Protocol string `json:"protocol"`
	// State is the state of a TCP or SCTP connection, such as ESTABLISHED. Of TCP it is SYN_SENT until the destination has
	// answered. If packets are counted, these say whether it has.
	State string `json:"state,omitempty"`
	// SeenAs is the address and port that the destination sees in place of the source's, if they are others; absent if
	// the user may not see the source.
	SeenAs string `json:"seenAs,omitempty"`
	// Nodes is the nodes that know the flow, by name. Only a user that may list the flows of all namespaces gets it.
	Nodes []string `json:"nodes,omitempty"`
	// Packets is how many packets the source has sent; absent if the datapath does not count.
	Packets uint64 `json:"packets,omitempty"`
	// Bytes is how many bytes these packets had.
	Bytes uint64 `json:"bytes,omitempty"`
	// ReplyPackets is how many packets the destination has sent.
	ReplyPackets uint64 `json:"replyPackets,omitempty"`
	// ReplyBytes is how many bytes these packets had.
	ReplyBytes uint64 `json:"replyBytes,omitempty"`
}

// FlowEnd is an end of a flow. Of an end that the user may not see, it has the kind Address, the address and the port
// alone. The rights of a user are looked up in 64 other namespaces at most: ends in further ones look like that, too.
type FlowEnd struct {
	// Kind is Pod, Node, Gateway (a router of the network's own), Outside or Address.
	Kind string `json:"kind"`
	// Namespace is the namespace of a pod.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of a pod, a node or a router.
	Name string `json:"name,omitempty"`
	// Node is the node of a pod.
	Node string `json:"node,omitempty"`
	// Address is the IP address.
	Address string `json:"address"`
	// Port is the port; absent in protocols without ports.
	Port int `json:"port,omitempty"`
}

// FlowService is a Service that a source has asked.
type FlowService struct {
	// Namespace is the namespace of the Service.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the Service; absent if no Service that could be read has the address, the protocol and the port
	// now.
	Name string `json:"name,omitempty"`
	// Address is the address that the source has asked.
	Address string `json:"address"`
	// Port is the port that the source has asked.
	Port int `json:"port,omitempty"`
}
