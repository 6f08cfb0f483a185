package ovn

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/policy"
)

// nodeSetState is a set of nodes' addresses that some policy uses.
type nodeSetState struct {
	selector labels.Selector
	usage
}

func (b *policyBook) takeNodes(nodes policy.Nodes) {
	s := b.nodeSets[nodes]
	if s == nil {
		s = &nodeSetState{selector: nodes.Selector()}
		b.nodeSets[nodes] = s
		b.dirtyNodeSets[nodes] = struct{}{}
		b.touchNodes(s)
	}
	s.users++
}

func (b *policyBook) dropNodes(nodes policy.Nodes) {
	s := b.nodeSets[nodes]
	if s.users--; s.users == 0 {
		s.lingering = true
		b.expect(signal{nodeSetSignal, string(nodes)})
	}
}

// settleNodeSet drops a set of nodes that nobody has come to need again.
func (b *policyBook) settleNodeSet(nodes policy.Nodes) {
	s := b.nodeSets[nodes]
	if s == nil || !s.lingering {
		return
	}
	if s.lingering = false; s.live() {
		return
	}
	delete(b.nodeSets, nodes)
	b.dirtyNodeSets[nodes] = struct{}{}
	b.touchNodes(s)
}

// touchNodes has the nodes of a set looked at again.
func (b *policyBook) touchNodes(s *nodeSetState) {
	for n := range b.nodes.placed() {
		if s.selector.Matches(n.object.Labels) {
			b.nodes.touch(n.name)
		}
	}
}

// hostAddresses are those that a node's host has by its status and its agent's facts.
func (n *nodeState) hostAddresses() []netip.Addr {
	list := slices.Concat(n.object.Addresses, n.facts.Addresses)
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// policyAddresses are all by which a node's host is known to policies: those, and what it has among the pods.
func (n *nodeState) policyAddresses() []netip.Addr {
	list := n.hostAddresses()
	for _, subnet := range n.subnets {
		list = append(list, contract.ManagementAddress(subnet))
	}
	return list
}
