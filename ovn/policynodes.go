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

func (c *cluster) takeNodes(nodes policy.Nodes) {
	s := c.policies.nodeSets[nodes]
	if s == nil {
		s = &nodeSetState{selector: nodes.Selector()}
		c.policies.nodeSets[nodes] = s
		c.policies.dirtyNodeSets[nodes] = struct{}{}
		for _, name := range c.nodeNames {
			if n := c.nodes[name]; s.selector.Matches(n.object.labels) {
				c.dirtyNodes[name] = struct{}{}
			}
		}
	}
	s.users++
}

func (c *cluster) dropNodes(nodes policy.Nodes) {
	s := c.policies.nodeSets[nodes]
	if s.users--; s.users == 0 {
		s.lingering = true
		c.expected = append(c.expected, objectKey{nodeSetKind, string(nodes)})
	}
}

// settleNodeSet drops a set of nodes that nobody has come to need again.
func (c *cluster) settleNodeSet(nodes policy.Nodes) {
	s := c.policies.nodeSets[nodes]
	if s == nil || !s.lingering {
		return
	}
	if s.lingering = false; s.live() {
		return
	}
	delete(c.policies.nodeSets, nodes)
	c.policies.dirtyNodeSets[nodes] = struct{}{}
	for _, name := range c.nodeNames {
		if n := c.nodes[name]; n.object != nil && s.selector.Matches(n.object.labels) {
			c.dirtyNodes[name] = struct{}{}
		}
	}
}

// hostAddresses are those that a node's host has by its status and its agent's facts.
func (n *nodeState) hostAddresses() []netip.Addr {
	list := slices.Concat(n.object.addresses, n.facts.Addresses)
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
