package pods

import (
	"iter"

	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// nodePods are the pods that are bound to a node and want a port, by key, and what they have of it.
type nodePods struct {
	*topology.Node
	pools   []*ipam.SubnetPool // one for each of its subnets, in the same order
	pods    map[string]*Pod
	waiting map[string]struct{} // pods that found no free address
	// hostPorted are those of pods that want a port of the host, by key; of all its addresses where the claim has none.
	hostPorted map[objects.Claim]map[string]struct{}
	told       told
}

// node is what pods have of a node, or will have.
func (b *Part) node(name string) *nodePods {
	n := b.nodes[name]
	if n == nil {
		n = &nodePods{Node: b.places.Node(name), pods: map[string]*Pod{}, waiting: map[string]struct{}{},
			hostPorted: map[objects.Claim]map[string]struct{}{}}
		b.nodes[name] = n
	}
	return n
}

// Subnets are those of nodes, by the node's name, each with the addresses that are free.
func (b *Part) Subnets() iter.Seq2[string, *ipam.SubnetPool] {
	return func(yield func(string, *ipam.SubnetPool) bool) {
		for name, n := range b.nodes {
			for _, subnet := range n.pools {
				if !yield(name, subnet) {
					return
				}
			}
		}
	}
}

// forget drops what is known of a node once it has neither pods nor subnets.
func (b *Part) forget(n *nodePods) {
	b.drop(n)
	b.places.Forget(n.Name)
}

// Readdress is told that a node has other subnets than before, or none. Its pods lose their addresses.
func (b *Part) Readdress(at *topology.Node) {
	n := b.nodes[at.Name]
	if n == nil && len(at.Subnets) == 0 {
		return
	}
	n = b.node(at.Name)
	n.pools = nil
	for _, subnet := range at.Subnets {
		n.pools = append(n.pools, ipam.NewSubnetPool(subnet))
	}
	for key, p := range n.pods {
		b.hold(key, p)
		p.addresses = nil
		b.dirty[key] = struct{}{}
	}
	b.holdIn(n)
	b.drop(n)
}

// drop forgets a node that has nothing.
func (b *Part) drop(n *nodePods) {
	if len(n.pods)+len(n.pools) == 0 && n.told == (told{}) {
		delete(b.nodes, n.Name)
	}
}

// Keeps says whether something of a node is kept, such as its pods, or a PodNetworks that is still there. Who keeps it
// has what is known of the node, and must see the node of that name that comes next.
func (b *Part) Keeps(node string) bool { return b.nodes[node] != nil }

// On are the pods that are bound to a node, by key.
func (b *Part) On(node string) map[string]*Pod {
	if n := b.nodes[node]; n != nil {
		return n.pods
	}
	return nil
}

// TouchOn has the rows made again of the pods that are bound to a node.
func (b *Part) TouchOn(node string) {
	for key := range b.On(node) {
		b.dirty[key] = struct{}{}
	}
}

// TouchHostPortsOn has the pods of a node looked at again that want ports of its host.
func (b *Part) TouchHostPortsOn(node string) {
	for key, p := range b.On(node) {
		if len(p.object.HostPorts) > 0 {
			b.dirty[key] = struct{}{}
		}
	}
}
