package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EgressLabel is the label of a Node: the node may carry the addresses of EgressIPs that have no nodeSelector, if it
// has this label with any value except "false". An administrator sets it.
const EgressLabel = "weft.net/egress"

// EgressIP gives the connections that selected pods open to the world outside the cluster a fixed source
// address. It is cluster-scoped.
type EgressIP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EgressIPSpec   `json:"spec"`
	Status EgressIPStatus `json:"status,omitempty"`
}

// EgressIPSpec is what the administrator asks for.
type EgressIPSpec struct {
	// Addresses are the source addresses, at most one an address family. Packets of a family that
	// has none leave as those of any pod. They lie in the subnet of the carrying nodes' gateways,
	// and nobody else has them.
	Addresses []string `json:"addresses"`
	// NamespaceSelector selects the pods' namespaces; empty selects all.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	// PodSelector selects pods in those namespaces; absent or empty selects all.
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NodeSelector selects the Linux nodes that may carry the addresses; absent selects those with the
	// label weft.net/egress, unless its value is false.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Network is the external network, as gateway-network names it for the nodes' agents; empty means the controller's
	// default-gateway-network where a selected node on it has all the addresses in its subnets, else that of the oldest
	// selected node that has.
	Network string `json:"network,omitempty"`
}

// EgressIPStatus is what weft says of it.
type EgressIPStatus struct {
	// ObservedGeneration is the metadata.generation that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions hold Ready. While it is False the selected pods' packets to the outside are dropped:
	// they do not leave with another address.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Node is the Node that carries the addresses now, empty when none does.
	Node string `json:"node,omitempty"`
	// Pods is the number of pods that leave with the addresses, or are to. It follows within seconds.
	Pods int32 `json:"pods"`
}

// EgressIPList is a list of them.
type EgressIPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EgressIP `json:"items"`
}
