package claims

import (
	"net/netip"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// Nodes are what the arbiter sees of nodes.
type Nodes interface {
	// At is what is known of a node, nil for nothing.
	At(name string) *topology.Node
}

// Services are what the arbiter sees of Services.
type Services interface {
	// Service is a Service by key, nil for none.
	Service(key string) *objects.Service
	// NodePortsAt is the node whose NodePorts have an address.
	NodePortsAt(addr netip.Addr) (node string, ok bool)
}

// Pods are what the arbiter sees of the pods that want a port.
type Pods interface {
	// WantsHostPort says whether a pod wants a port of its node's host.
	WantsHostPort(protocol objects.Protocol, port uint16) bool
}

// Pools are what the arbiter sees of AddressPools.
type Pools interface {
	// Holder is the Service that has an address of an AddressPool.
	Holder(addr netip.Addr) (service string, ok bool)
}
