package ovn

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
)

// nodeTraits is all of a node that EgressIPs and AddressPools depend on.
type nodeTraits struct {
	uid       types.UID
	labels    labelSet
	placed    bool
	ready     bool
	windows   bool
	hosted    bool
	chassis   string // as its agent says
	outside   string
	gateway   string
	addresses string
	taken     []netip.Addr // that nobody else may have: see outsideAddresses
}

func traitsOf(n *nodeState) nodeTraits {
	if n.object == nil {
		return nodeTraits{}
	}
	t := nodeTraits{uid: n.object.UID, labels: n.object.labels, placed: n.placed, ready: n.object.ready,
		windows: n.windows(), hosted: n.facts.Hosted != nil, chassis: n.facts.Chassis, outside: n.outside,
		addresses: fmt.Sprint(n.facts.Addresses), taken: n.facts.Addresses}
	if g := n.facts.Gateway; g != nil {
		t.gateway = contract.Format(contract.NodeFacts{Gateway: g})
		t.taken = slices.Concat(t.taken, contract.Addrs(g.Addresses), g.NextHops)
	}
	return t
}

// sameButLabels says whether a node's states differ in its labels, its readiness and who runs its ovn-controller at most.
func (t *nodeTraits) sameButLabels(o *nodeTraits) bool {
	return t.uid == o.uid && t.placed == o.placed && t.windows == o.windows && t.chassis == o.chassis &&
		t.outside == o.outside && t.gateway == o.gateway && t.addresses == o.addresses
}

// noteTraits takes in what nodes are to EgressIPs and AddressPools.
func (c *cluster) noteTraits(touched []*nodeState) {
	for _, n := range touched {
		before, now := c.egress.nodes[n.name], traitsOf(n)
		if c.egress.nodes[n.name] = now; n.object == nil {
			delete(c.egress.nodes, n.name)
		}
		if before.ready != now.ready {
			c.turn(n)
		}
		if before.hosted != now.hosted {
			c.touchAlive()
		}
		switch {
		case !before.placed && !now.placed: // nobody can have it
		case !before.sameButLabels(&now):
			c.reshape(&before, &now)
		case before.labels != now.labels:
			c.relabel(n, before.labels, now.labels)
		}
	}
}

// turn takes in that a node has come to be ready, or is no more. Who may have addresses stays as it is.
func (c *cluster) turn(n *nodeState) {
	c.egress.turned = append(c.egress.turned, n)
	c.balancers.turned = append(c.balancers.turned, n)
	c.touchAlive()
}

// touchAlive has the ports looked at again which show that nodes live.
func (c *cluster) touchAlive() {
	c.balancers.dirtyAlive = c.balancers.dirtyAlive || len(c.balancers.all) > 0
}

// reshape has all AddressPools looked at again, and the EgressIPs that select a node or want an address of its.
func (c *cluster) reshape(before, now *nodeTraits) {
	book := &c.egress
	c.touchAlive()
	c.balancers.changed = true
	book.dirtyNodes = book.dirtyNodes || len(book.all) > 0
	for _, e := range book.order {
		wanted := func(addr netip.Addr) bool { return slices.Contains(e.object.addresses, addr) }
		if e.plan.reason == noNumber || e.object.nodes.Matches(before.labels) || e.object.nodes.Matches(now.labels) ||
			slices.ContainsFunc(before.taken, wanted) || slices.ContainsFunc(now.taken, wanted) {
			book.stale[e] = struct{}{}
		}
	}
}

// relabel has the EgressIPs and AddressPools looked at again to whom a node's labels make a difference. Most make none.
func (c *cluster) relabel(n *nodeState, before, now labelSet) {
	differ := func(s labels.Selector) bool { return s.Matches(before) != s.Matches(now) }
	for _, e := range c.egress.order {
		if differ(e.object.nodes) {
			c.egress.stale[e] = struct{}{}
		}
	}
	for _, p := range c.balancers.order {
		if differ(p.object.nodes) {
			c.balancers.reselected[p] = struct{}{}
		}
	}
	if before.Has(corev1.LabelNodeExcludeBalancers) != now.Has(corev1.LabelNodeExcludeBalancers) {
		c.balancers.turned = append(c.balancers.turned, n)
	}
}
