package contract

// Leases of chassis hosts, in kube-system: one of each host, which says that it lives, and one of each node, whose
// holder is the host that runs its ovn-controller.
const (
	// ChassisLeaseLabel is the label of a Lease: `weft chassis` has made it, for a host (host) or a node (node).
	ChassisLeaseLabel = "weft.net/chassis"
	// ChassisNodeAnnotation is the annotation of a Lease of a node: the node's name.
	ChassisNodeAnnotation = "weft.net/node"
	// ChassisUnreachableAnnotation is the annotation of a Lease of a chassis host: the nodes whose agents the host cannot
	// reach, with commas between them.
	ChassisUnreachableAnnotation = "weft.net/unreachable"
)

// Values of [ChassisLeaseLabel].
const (
	LeaseOfHost = "host"
	LeaseOfNode = "node"
)
