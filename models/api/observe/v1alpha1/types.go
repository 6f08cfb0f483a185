// Package v1alpha1 is what `weft observe` answers by the API server, group observe.weft.net, and what it is asked.
// Nothing of it is stored.
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of the API.
const (
	Group        = "observe.weft.net"
	Version      = "v1alpha1"
	GroupVersion = Group + "/" + Version

	// PolicyHitsResource is of a namespace: its NetworkPolicies' rules. Of all namespaces it has cluster-wide policies'
	// rules, too.
	PolicyHitsResource = "policyhits"
	PolicyHitsKind     = "PolicyHits"
	// PolicyHitsRole is the ClusterRole that lets users list them. The role view has its right.
	PolicyHitsRole = "weft-observe-view"
)

// PolicyHitsList are the rules that have flows on nodes which have answered.
type PolicyHitsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	// Items is the rules.
	Items []PolicyHits `json:"items"`
	// NodesAsked is the number of the Nodes whose agents have written the annotation weft.net/node-facts.
	NodesAsked int `json:"nodesAsked"`
	// NodesUnanswered is the number of nodes that are not in the counts.
	NodesUnanswered int `json:"nodesUnanswered"`
	// Unanswered is these nodes, and why they are not. Only an answer about all namespaces has it.
	Unanswered []Unanswered `json:"unanswered,omitempty"`
}

// PolicyHits is what a rule of a policy has met. Its name is the policy's.
type PolicyHits struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Policy is the kind, the namespace and the name of the policy.
	Policy string `json:"policy"`
	// Rule is the field of the rule, such as "spec.ingress[0]", with the port's name if its numbers have ACLs of their
	// own; or "isolation from ingress" and the like.
	Rule string `json:"rule"`
	// Action is what the rule does: Accept, Deny or Pass.
	Action string `json:"action"`
	// Packets is how many packets the rule has met on the nodes that have answered.
	Packets uint64 `json:"packets"`
	// Bytes is how many bytes these packets had.
	Bytes uint64 `json:"bytes"`
	// Nodes is the nodes on which the rule has flows, by name.
	Nodes []NodeHits `json:"nodes"`
}

// NodeHits is what the rule has met on a node.
type NodeHits struct {
	// Node is the name of the Node.
	Node string `json:"node"`
	// Packets is how many packets the rule has met on the node.
	Packets uint64 `json:"packets"`
	// Bytes is how many bytes these packets had.
	Bytes uint64 `json:"bytes"`
}

// Unanswered is a node that has not told what was asked.
type Unanswered struct {
	// Node is the name of the Node.
	Node string `json:"node"`
	// Reason is why the answer lacks what the node knows.
	Reason string `json:"reason"`
}
