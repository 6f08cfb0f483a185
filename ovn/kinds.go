package ovn

// kind is a kind of Kubernetes object that the controller watches.
type kind uint8

const (
	nodeKind kind = iota
	podKind
	serviceKind
	sliceKind
	namespaceKind
	egressKind
	poolKind
	serviceCIDRKind
	resolvedKind
	networkPolicyKind
	clusterPolicyKind
	adminPolicyKind
	baselinePolicyKind
	kinds // their number
)

var kindNames = [kinds]string{
	nodeKind: "Node", podKind: "Pod", serviceKind: "Service", sliceKind: "EndpointSlice", namespaceKind: "Namespace",
	egressKind: "EgressIP", poolKind: "AddressPool", serviceCIDRKind: "ServiceCIDR", resolvedKind: "ResolvedNames",
	networkPolicyKind: "NetworkPolicy", clusterPolicyKind: "ClusterNetworkPolicy",
	adminPolicyKind: "AdminNetworkPolicy", baselinePolicyKind: "BaselineAdminNetworkPolicy",
}

func (k kind) String() string { return kindNames[k] }

// objectKey names an object: namespace/name, or the name of an object without a namespace.
type objectKey struct {
	kind kind
	name string
}

func (k objectKey) String() string { return k.kind.String() + " " + k.name }
