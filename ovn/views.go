package ovn

import (
	"iter"
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/ovn/topology"
)

// What the parts of a cluster see of each other. Whoever reads another part's state has its own rows made again when
// that changes, by what the other part tells: see [surroundings] for what concerns several.

// nodeView is what others see of nodes.
type nodeView interface {
	// at is what is known of a node, nil for nothing; node the same, or will be, and forget drops it where it is nothing
	// any more.
	At(name string) *topology.Node
	Node(name string) *topology.Node
	Forget(name string)
	// Placed are the nodes that have a switch, in the order of their names.
	Placed() iter.Seq[*topology.Node]
	// WithChassis is the node that has a chassis, "" for none.
	WithChassis(name string) string
	// ReleaseNumber gives back a router's number on the join switch.
	ReleaseNumber(number int)
	// Touch has a node's rows made again.
	Touch(name string)
}

// podView is what others see of the pods that want a port.
type podView interface {
	// everyone are all pods, and in those of a namespace, by key.
	everyone() map[string]*podState
	// touched are those of which the rows are made again, by key.
	touched() iter.Seq2[string, *podState]
	in(namespace string) map[string]*podState
	// wantsHostPort says whether a pod wants such a port of its node's.
	wantsHostPort(port numberedPort) bool
	// touch has a pod's rows made again, touchHostPorts those of all pods whose host ports are claimed, and
	// touchHostPortsOn those of all pods of a node that have any.
	touch(key string)
	touchHostPorts(claims []objects.Claim)
	touchHostPortsOn(node string)
}

// serviceView is what others see of Services.
type serviceView interface {
	// Service is a Service by key, nil for none.
	Service(key string) *objects.Service
	// touchSticky has the rows made again of the sticky ones that depend on what is balanced.
	touchSticky()
}

// claimView is what others see of who has which address and port outside.
type claimView interface {
	// has says whether a Service has an address and port of a node's.
	has(wanted objects.Claim) bool
	// hostsKeep says whether an address and port stays the hosts' own.
	hostsKeep(protocol string, at netip.AddrPort) bool
}

// poolView is what others see of AddressPools.
type poolView interface {
	// Holder is the Service that has an address of an AddressPool.
	Holder(addr netip.Addr) (service string, ok bool)
}

// policyView is what others see of policies.
type policyView interface {
	// Lacks says whether pods of a namespace wait until it is there.
	Lacks(namespace string) bool
}

// surroundings is what concerns several parts. The cluster knows which.
type surroundings interface {
	// placements are the nodes that have a switch, as Services' rows depend on them.
	placements() *services.Nodes
	// namespaceChanged is told of a Namespace that has changed or is gone (nil), in its labels or otherwise.
	namespaceChanged(name string, object *objects.Namespace, relabelled bool)
	// podSeen is told of each pod that is there or gone (nil), whether it wants a port or not, and podEnds of one that
	// wanted one.
	podSeen(key string, object *objects.Pod)
	podEnds(p *podState)
	// slicesChanged is told of a Service with other slices than before, serviceChanged of one that has changed itself, or
	// is gone (nil).
	slicesChanged(service string)
	serviceChanged(key string, object *objects.Service)
	// apiServersMoved is told of other API servers, rangesChanged of other ranges of ClusterIPs.
	apiServersMoved()
	rangesChanged()
}
