package egress

import (
	"iter"
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// Pod is what the part sees of a pod that wants a port.
type Pod interface {
	Object() *objects.Pod
	// Addresses are none while it waits for them.
	Addresses() []netip.Prefix
	// Leaving is what the part remembers of the pod.
	Leaving() *Leaving
}

// Leaving are the EgressIPs that a pod leaves by, of IPv4 and IPv6.
type Leaving struct{ by [2]*state }

// Pods are what the part sees of pods.
type Pods interface {
	// All are the pods, In those of a namespace, and Touched those of which the rows are made again, by key.
	All() iter.Seq2[string, Pod]
	In(namespace string) iter.Seq2[string, Pod]
	Touched() iter.Seq2[string, Pod]
	// Touch has the rows of a pod made again.
	Touch(key string)
}

// Nodes are what the part sees of nodes.
type Nodes interface {
	// Placed are the nodes that have a switch, in the order of their names.
	Placed() iter.Seq[*topology.Node]
	// WithChassis is the node that has a chassis, "" for none.
	WithChassis(name string) string
	// ReleaseNumber gives back a router's number on the join switch.
	ReleaseNumber(number int)
}

// Namespaces are what the part sees of Namespaces.
type Namespaces interface {
	// Labels are those of a Namespace that is there.
	Labels(name string) (set objects.LabelSet, there bool)
}

// Pools are what the part sees of AddressPools.
type Pools interface {
	// Holder is the Service that has an address of an AddressPool.
	Holder(addr netip.Addr) (service string, ok bool)
}

// Surroundings is what the part sees of all others.
type Surroundings interface {
	// OutsideAddresses are those that nobody else may have, and whose they are.
	OutsideAddresses() map[netip.Addr]string
}
