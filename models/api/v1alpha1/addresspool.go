package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// What Services say to the allocator.
const (
	// PoolClass is the class of a Service (spec.loadBalancerClass): the Service's addresses come from AddressPools,
	// even without the controller's allocate-load-balancer-addresses.
	PoolClass = "weft.net/address-pool"
	// AddressesAnnotation is the annotation of a Service: the addresses that the Service asks for, with commas between
	// them, at most one for each address family. The Service's owner writes it. Without it, spec.loadBalancerIP
	// asks for one address.
	AddressesAnnotation = "weft.net/load-balancer-addresses"
)

// AddressPool is a set of addresses for Services of type LoadBalancer. It is cluster-scoped.
type AddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AddressPoolSpec   `json:"spec"`
	Status AddressPoolStatus `json:"status,omitempty"`
}

// AddressPoolSpec is what the administrator asks for.
type AddressPoolSpec struct {
	// Ranges are prefixes like 203.0.113.64/27, or first and last address like
	// 203.0.113.64-203.0.113.80, in the subnets of the nodes' gateways.
	Ranges []string `json:"ranges"`
	// AutoAssign gives addresses also to Services that do not ask for one of the pool's; true when
	// absent.
	AutoAssign *bool `json:"autoAssign,omitempty"`
	// ServiceSelector and NamespaceSelector say which Services may have the pool's addresses; absent
	// or empty selects all.
	ServiceSelector   *metav1.LabelSelector `json:"serviceSelector,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// NodeSelector selects the nodes that may announce the addresses; absent or empty selects all.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Network is the external network of the nodes that may announce the addresses, as gateway-network names it for
	// their agents; empty means, for each address, the controller's default-gateway-network where a selected node on it
	// has the address in its subnet, else that of the oldest selected node that has.
	Network string `json:"network,omitempty"`
}

// AddressPoolStatus is what weft says of it.
type AddressPoolStatus struct {
	// ObservedGeneration is the metadata.generation that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions hold Ready.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Used and Free are numbers of addresses; Free ends at 9,007,199,254,740,991.
	Used int64 `json:"used"`
	Free int64 `json:"free"`
}

// AddressPoolList is a list of them.
type AddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressPool `json:"items"`
}
