package contract

import "strings"

// Leases of chassis hosts, in kube-system: one of each host, which says that it lives, and one of each node, whose
// holder is the host that runs its ovn-controller.
const (
	// ChassisLeaseLabel is the label of a Lease: `weft chassis` has made the Lease. The value is host or node, by the
	// object that the Lease is for.
	ChassisLeaseLabel = "weft.net/chassis"
	// ChassisNodeAnnotation is the annotation of a Lease of a node: the node's name.
	ChassisNodeAnnotation = "weft.net/node"
	// ChassisUnreachableAnnotation is the annotation of a Lease of a chassis host: the nodes that the host leaves to other
	// hosts, since it has not reached their agents for 30 seconds, with commas between them.
	ChassisUnreachableAnnotation = "weft.net/unreachable"
)

// Values of [ChassisLeaseLabel].
const (
	LeaseOfHost = "host"
	LeaseOfNode = "node"
)

// ChassisInstance is the holder of a chassis host's Lease: a process of the host, whose name no other one has.
func ChassisInstance(identity, process string) string { return identity + "_" + process }

// ChassisIdentity is the identity of the host of a [ChassisInstance].
func ChassisIdentity(instance string) string {
	return instance[:max(strings.LastIndexByte(instance, '_'), 0)]
}

// VersionLabel is the label of a Lease: the version of Weft that its holder has, or had when it wrote the Lease, with
// an underscore in place of a plus sign. A controller, a chassis host and a door label their own.
const VersionLabel = "weft.net/version"

// VersionLabelValue is a version as a label can have it, which has no plus sign.
func VersionLabelValue(version string) string { return strings.ReplaceAll(version, "+", "_") }
