package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ResolvedNames is what the DNS servers on one node have answered of late for domain names that policies
// name. It is cluster-scoped, has the node's name, and is written by the node's agent.
type ResolvedNames struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Names are sorted.
	Names []ResolvedName `json:"names,omitempty"`
}

// ResolvedName is a domain name that a DNS server was asked for, or a pattern for all that match it.
type ResolvedName struct {
	// Name is in lower case and does not end with a dot. A pattern begins with "*.".
	Name string `json:"name"`
	// Addresses are sorted.
	Addresses []ResolvedAddress `json:"addresses"`
}

// ResolvedAddress is an address that a name has.
type ResolvedAddress struct {
	Address string `json:"address"`
	// Until is the time until which the address counts: its time to live has passed, and a while more.
	Until metav1.Time `json:"until"`
}

// ResolvedNamesList is a list of them.
type ResolvedNamesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResolvedNames `json:"items"`
}
