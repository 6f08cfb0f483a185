package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of the status of the network.
const (
	// NetworkStatusResource is of the cluster. It has one object, which is named [NetworkStatusName].
	NetworkStatusResource = "networkstatuses"
	NetworkStatusKind     = "NetworkStatus"
	NetworkStatusName     = "cluster"
	// NetworkStatusRole is the ClusterRole that lets users list it. An administrator binds it.
	NetworkStatusRole = "weft-observe-status"
)

// Severities of findings, and results of a status. The worst severity is the result.
const (
	Failed  = "failed"  // something does not work
	Warning = "warning" // something works in part, or soon will not
	Unknown = "unknown" // something could not be read
	OK      = "ok"
)

// NetworkStatusList is a list of one item, the status of the network.
type NetworkStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	// Items is the status.
	Items []NetworkStatus `json:"items"`
}

// NetworkStatus is what the databases and the API server say of the network, and what is wrong with it.
type NetworkStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Result is the worst severity of the findings: failed, warning or unknown; or ok, if there are none.
	Result string `json:"result"`
	// Findings is the faults, the worst first.
	Findings []Finding `json:"findings"`
	// NotJudged is what findings are never about, in words: a status without findings does not say that it is well.
	NotJudged string `json:"notJudged,omitempty"`
	// Time is when the sources were read, by the clock of the door.
	Time metav1.MicroTime `json:"time"`
	// Door is the identity of the weft observe that has read the sources. The databases are those beside it.
	Door string `json:"door"`
	// Unread is the sources that could not be read, without the databases, whose entries in databases say so.
	Unread []Unread `json:"unread,omitempty"`
	// Leader is the Lease of the controllers, kube-system/weft-controller. Controllers with another lease-name or
	// lease-namespace are not seen.
	Leader Lease `json:"leader"`
	// Databases is the Northbound and the Southbound, as the servers beside the door have them.
	Databases []Database `json:"databases"`
	// Configuration is how far ovn-northd and the chassis have followed the Northbound.
	Configuration Configuration `json:"configuration"`
	// Nodes is the Nodes, by name.
	Nodes []NodeStatus `json:"nodes"`
	// Strays is the names of chassis in the Southbound that no Node has.
	Strays []string `json:"strays,omitempty"`
	// Pods is the pods' ports, and the pods that wait for an address in their status.
	Pods PodsStatus `json:"pods"`
	// Pools is the AddressPools, by name.
	Pools []PoolStatus `json:"pools,omitempty"`
	// EgressIPs is the EgressIPs, by name.
	EgressIPs []EgressStatus `json:"egressIPs,omitempty"`
	// LoadBalancers is the Services of type LoadBalancer, by namespace and name.
	LoadBalancers []LoadBalancerStatus `json:"loadBalancers,omitempty"`
	// Policies is the number of all policies.
	Policies int `json:"policies"`
	// NotInForce is the policies that are not in force, or not all of them, and those of which Weft has not said yet
	// that they are.
	NotInForce []PolicyStatus `json:"notInForce,omitempty"`
	// Events is the Warnings of the last hour of Weft's parts, the latest first. If there are too many, each namespace
	// has a fair share of the list. Objects without a namespace have a share of their own.
	Events []EventGroup `json:"events,omitempty"`
	// EventsLeftOut is the number of further entries, for which the list has no room. Only Warnings of the last ten
	// minutes can be findings, in the list or not.
	EventsLeftOut int `json:"eventsLeftOut,omitempty"`
	// EventsTruncated is true if there were more Warnings than weft observe reads.
	EventsTruncated bool `json:"eventsTruncated,omitempty"`
	// Certificates is the certificates in the files of the door's keys tunnel-certificate and tunnel-ca.
	Certificates []Certificate `json:"certificates,omitempty"`
}

// Finding is something that is not as it should be.
type Finding struct {
	// Severity is failed, warning, or unknown: then a source could not be read, or not all of it.
	Severity string `json:"severity"`
	// Reason is the fault in one word, for programs. Of a finding that repeats a Warning it is Event, whatever reason the
	// Warning has.
	Reason string `json:"reason"`
	// Object is what it is about: of an object of Kubernetes the kind, the namespace and the name, else words such as
	// "database OVN_Northbound".
	Object string `json:"object"`
	// Text is the fault, in words.
	Text string `json:"text"`
	// Remedy is the action that ends it.
	Remedy string `json:"remedy"`
	// More is the number of further findings of the same severity and reason, which are not in the list. The last one of
	// them in the list has it.
	More int `json:"more,omitempty"`
}

// Unread is a source that could not be read.
type Unread struct {
	// Source is the name of the source, such as a database or a kind of objects.
	Source string `json:"source"`
	// Reason is why the source could not be read.
	Reason string `json:"reason"`
}

// Lease is a Lease of Kubernetes.
type Lease struct {
	// Name is the namespace and the name of the Lease; empty if it is not there.
	Name string `json:"name,omitempty"`
	// Holder is the identity of the holder; empty if there is none.
	Holder string `json:"holder,omitempty"`
	// Renewed is when the holder has last renewed the Lease, by the holder's clock.
	Renewed metav1.MicroTime `json:"renewed,omitzero"`
	// Seconds is how many seconds the Lease lasts after that.
	Seconds int `json:"seconds,omitempty"`
}

// Database is a database, as one of its servers has it.
type Database struct {
	// Name is OVN_Northbound or OVN_Southbound.
	Name string `json:"name"`
	// Answers is true if the server answers, and connected is true.
	Answers bool `json:"answers"`
	// Reason is why answers is false.
	Reason string `json:"reason,omitempty"`
	// Model is one of standalone, clustered (a member of a cluster) and relay.
	Model string `json:"model,omitempty"`
	// Leader is true if the server says that it leads its cluster, or has none.
	Leader bool `json:"leader"`
	// Connected is true if the server says that it is in contact with the majority of its cluster, or as a relay with its
	// source, or is standalone.
	Connected bool `json:"connected"`
}

// Configuration is the numbers by which OVN counts configurations (nb_cfg). Not each change raises the number. The
// controller that leads does, each `latency-interval` unless that is 0, also while chassis are behind. So do `ovn-nbctl
// --wait=hv sync` and the like.
type Configuration struct {
	// OVN is the version that ovn-northd has written into the Northbound.
	OVN string `json:"ovn,omitempty"`
	// Northbound is the number of the latest configuration.
	Northbound int64 `json:"northbound"`
	// Southbound is the number of the configuration that ovn-northd has translated.
	Southbound int64 `json:"southbound"`
	// Translated is when ovn-northd has translated that configuration.
	Translated metav1.MicroTime `json:"translated,omitzero"`
	// Chassis is the number of the configuration that all chassis have.
	Chassis int64 `json:"chassis"`
}

// NodeStatus is a Node.
type NodeStatus struct {
	// Name is the name of the Node.
	Name string `json:"name"`
	// Created is when the Node was created.
	Created metav1.Time `json:"created"`
	// Ready is true if the Node's condition Ready is True.
	Ready bool `json:"ready"`
	// NotReady is the message of that condition, if it is not True, or that there is none.
	NotReady string `json:"notReady,omitempty"`
	// System is the operating system, linux or windows, by the label kubernetes.io/os.
	System string `json:"system,omitempty"`
	// Agent is true if the node's agent has written the annotation weft.net/node-facts, and it can be read.
	Agent bool `json:"agent"`
	// Version is the version of Weft that the node's agent has; empty of an agent that does not tell it.
	Version string `json:"version,omitempty"`
	// AgentCondition is the condition WeftReady of the Node, by which its agent says whether new pods can be attached, and
	// what else is amiss; absent of an agent that does not tell it.
	AgentCondition *Condition `json:"agentCondition,omitempty"`
	// Wrong is why an annotation of the Node cannot be read.
	Wrong string `json:"wrong,omitempty"`
	// Zone is the node's zone, in a cluster that has zones.
	Zone string `json:"zone,omitempty"`
	// Chassis is the name of the node's chassis: that of the Node until its agent has said another one.
	Chassis string `json:"chassis,omitempty"`
	// Registered is true if the Southbound has that chassis.
	Registered bool `json:"registered"`
	// Remote is true if the Southbound has it as a remote chassis: the node is in another zone than the door. Findings are
	// not about such a chassis.
	Remote bool `json:"remote,omitempty"`
	// Hosted is true if a chassis host has to run the node's ovn-controller.
	Hosted bool `json:"hosted,omitempty"`
	// Host is the Lease in kube-system by which the chassis host that has the node says that it lives; absent if none has
	// it.
	Host *Lease `json:"host,omitempty"`
	// Unreachable is true if the chassis host cannot reach the node's agent.
	Unreachable bool `json:"unreachable,omitempty"`
	// Configuration is the number of the configuration that the chassis has.
	Configuration int64 `json:"configuration"`
	// Behind is how many configurations the chassis is behind the Southbound.
	Behind int64 `json:"behind,omitempty"`
	// Subnets is the node's pod subnets.
	Subnets []SubnetStatus `json:"subnets,omitempty"`
	// Ports is the number of pods' ports on the node's switch.
	Ports int `json:"ports"`
	// Down is how many of them are not up.
	Down int `json:"down,omitempty"`
}

// SubnetStatus is a pod subnet of a node.
type SubnetStatus struct {
	// CIDR is the subnet.
	CIDR string `json:"cidr"`
	// Used is the number of pods' addresses that are taken.
	Used int `json:"used"`
	// Free is the number of addresses that pods may still get. Pods get at most 65,533 addresses of a subnet.
	Free int `json:"free"`
}

// PodsStatus is what is known of pods.
type PodsStatus struct {
	// Ports is the number of pods' ports in the Northbound.
	Ports int `json:"ports"`
	// Down is how many of them are not up.
	Down int `json:"down"`
	// Waiting is the number of pending pods, without those in the network of their node, that are on a node and have no
	// address in their status, for a minute at least, or for 15 seconds if they lack address or binding.
	Waiting int `json:"waiting"`
	// Truncated is true if more than 2,000 pending pods on a node have no address: the others were not read.
	Truncated bool `json:"truncated,omitempty"`
	// Lacking is how many of these pods lack which thing.
	Lacking []LackCount `json:"lacking,omitempty"`
	// Longest is the pods that have waited longest, 20 at most.
	Longest []WaitingPod `json:"longest,omitempty"`
}

// WaitingPod is a pod that waits for an address in its status.
type WaitingPod struct {
	// Namespace is the namespace of the Pod.
	Namespace string `json:"namespace"`
	// Name is the name of the Pod.
	Name string `json:"name"`
	// Node is the name of its Node.
	Node string `json:"node"`
	// Since is when it was bound to the Node.
	Since metav1.Time `json:"since"`
	// Lacks is the first thing that the pod lacks: address (that Weft gives it), binding (a row of the Southbound, or
	// ovn-northd's word that the port is up), chassis (that has made the port work), or sandbox (anything that its node's
	// kubelet and container runtime do).
	Lacks string `json:"lacks"`
}

// LackCount is how many pods lack the same.
type LackCount struct {
	// Lacks is the thing that they lack, as in WaitingPod.
	Lacks string `json:"lacks"`
	// Pods is the number of these pods.
	Pods int `json:"pods"`
}

// PoolStatus is an AddressPool.
type PoolStatus struct {
	// Name is the name of the AddressPool.
	Name string `json:"name"`
	// Used is the number of addresses that Services have.
	Used int64 `json:"used"`
	// Free is the number of addresses that Services may still get.
	Free int64 `json:"free"`
	// Condition is its condition Ready.
	Condition Condition `json:"condition"`
}

// EgressStatus is an EgressIP.
type EgressStatus struct {
	// Name is the name of the EgressIP.
	Name string `json:"name"`
	// Addresses is its addresses.
	Addresses []string `json:"addresses"`
	// Node is the name of the Node that carries them; empty if none does.
	Node string `json:"node,omitempty"`
	// Pods is the number of pods that leave with them, or are to.
	Pods int32 `json:"pods"`
	// Condition is its condition Ready.
	Condition Condition `json:"condition"`
}

// Condition is a condition: WeftReady of a Node, or Ready of another object. A NetworkPolicy has no conditions: here
// it has what its annotation weft.net/policy-status says.
type Condition struct {
	// Current is true if the condition is about the object as it is now. Of a Node it is always true.
	Current bool `json:"current"`
	// Ready is true if the condition is True.
	Ready bool `json:"ready"`
	// Reason is the reason of the condition.
	Reason string `json:"reason,omitempty"`
	// Message is the message of the condition.
	Message string `json:"message,omitempty"`
	// Changed is when the object was created, or its condition last changed.
	Changed metav1.Time `json:"changed"`
}

// LoadBalancerStatus is a Service of type LoadBalancer.
type LoadBalancerStatus struct {
	// Namespace is the namespace of the Service.
	Namespace string `json:"namespace"`
	// Name is the name of the Service.
	Name string `json:"name"`
	// Pool is true if the Service asks for an address of an AddressPool by its class.
	Pool bool `json:"pool"`
	// Addresses is the addresses and host names of its load balancer; none if it has none yet.
	Addresses []string `json:"addresses,omitempty"`
	// Created is when the Service was created.
	Created metav1.Time `json:"created"`
}

// PolicyStatus is a policy that is not in force, or not all of it, or of which Weft has not said yet that it is.
type PolicyStatus struct {
	// Kind is the kind of the policy.
	Kind string `json:"kind"`
	// Namespace is the namespace of the policy; empty if it is cluster-wide.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the policy.
	Name string `json:"name"`
	// InForce is true if Weft has said last that it, or a part of it, is in force.
	InForce bool `json:"inForce"`
	// Condition is what Weft reports about the policy.
	Condition Condition `json:"condition"`
}

// EventGroup is the Events of one reason that one part of Weft has written about one object.
type EventGroup struct {
	// Object is the kind, the namespace and the name of the object.
	Object string `json:"object"`
	// Reason is the reason of the Events.
	Reason string `json:"reason"`
	// Component is the part of Weft that has written them: weft-controller, weft-node or weft-chassis.
	Component string `json:"component"`
	// Count is how many Events there were.
	Count int `json:"count"`
	// Last is when the last Event was written.
	Last metav1.Time `json:"last"`
	// Message is the message of the last one.
	Message string `json:"message"`
	// Gone is true if weft observe has found that the object does not exist any more. Then the Events are no finding.
	Gone bool `json:"gone,omitempty"`
}

// Certificate is a certificate.
type Certificate struct {
	// Of is the key of weft observe that names the certificate's file.
	Of string `json:"of"`
	// Subject is the common name of its subject.
	Subject string `json:"subject"`
	// Expires is when the certificate expires.
	Expires metav1.Time `json:"expires"`
}
