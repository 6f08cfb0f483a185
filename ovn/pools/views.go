package pools

import (
	"iter"
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// Nodes are what the parts see of nodes.
type Nodes interface {
	// At is what is known of a node, nil for nothing.
	At(name string) *topology.Node
	// Placed are the nodes that have a switch, in the order of their names.
	Placed() iter.Seq[*topology.Node]
	// Touch has a node's rows made again.
	Touch(name string)
}

// Namespaces are what the parts see of Namespaces.
type Namespaces interface {
	// Labels are those of a Namespace that is there.
	Labels(name string) (set objects.LabelSet, there bool)
}

// Services are what the parts see of Services.
type Services interface {
	// Service is a Service by key, nil for none, and SlicesOf are its EndpointSlices.
	Service(key string) *objects.Service
	SlicesOf(key string) []*objects.EndpointSlice
	// Touched are those of which the rows are made again. Touch has that of one.
	Touched() iter.Seq[string]
	Touch(key string)
}

// Hosts are what the parts see of hosts.
type Hosts interface {
	// IsHosts says whether an address is a host's, or one that hosts keep.
	IsHosts(addr netip.Addr) bool
}

// Egress is what the parts see of EgressIPs.
type Egress interface {
	// Wanting are the EgressIPs that want addresses, by these.
	Wanting() map[netip.Addr]string
	// Changed says whether what all EgressIPs follow from is another thing since they were settled.
	Changed() bool
}

// Surroundings is what the parts see of all others.
type Surroundings interface {
	// OutsideAddresses are those that nobody else may have, and whose they are.
	OutsideAddresses() map[netip.Addr]string
	// HeldByAnother is told that another Service than before has an address, or none.
	HeldByAnother(addr netip.Addr)
}
