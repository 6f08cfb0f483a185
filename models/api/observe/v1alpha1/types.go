// Package v1alpha1 is what `weft observe` answers by the API server, group observe.weft.net. Everything in it can be
// listed, of one namespace or of all, and nothing can be written.
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
)

// PolicyHitsList are the rules that have flows on nodes which have answered.
type PolicyHitsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []PolicyHits `json:"items"`
	// NodesAsked is how many nodes there are, and NodesUnanswered how many of them are not in the counts.
	NodesAsked      int `json:"nodesAsked"`
	NodesUnanswered int `json:"nodesUnanswered"`
	// Unanswered says which those are and why; it is for who may list all namespaces.
	Unanswered []Unanswered `json:"unanswered,omitempty"`
}

// PolicyHits is what a rule of a policy has met. Its name is the policy's.
type PolicyHits struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Policy is the policy's kind and name, with its namespace.
	Policy string `json:"policy"`
	// Rule is its field, as "spec.ingress[0]", with the port's name where it has an ACL a number, or "isolation
	// from ingress".
	Rule   string `json:"rule"`
	Action string `json:"action"`
	// Packets and Bytes are those of all nodes.
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	// Nodes are those on which the rule has flows, by name.
	Nodes []NodeHits `json:"nodes"`
}

// NodeHits is what the rule has met on a node.
type NodeHits struct {
	Node    string `json:"node"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Unanswered is a node that has not said what its flows have counted.
type Unanswered struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}
