package ovn

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
)

// nodeTraits is all of a node that EgressIPs and AddressPools depend on.
type nodeTraits struct {
	uid       types.UID
	labels    objects.LabelSet
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

func traitsOf(n *placement) nodeTraits {
	if n.object == nil {
		return nodeTraits{}
	}
	t := nodeTraits{uid: n.object.UID, labels: n.object.Labels, placed: n.placed, ready: n.object.Ready,
		windows: n.windows(), hosted: n.facts.Hosted != nil, chassis: n.facts.Chassis, outside: n.outside,
		addresses: fmt.Sprint(n.facts.Addresses), taken: n.facts.Addresses}
	if g := n.facts.Gateway; g != nil {
		t.gateway = contract.Format(contract.NodeFacts{Gateway: g})
		t.taken = slices.Concat(t.taken, contract.Addrs(g.Addresses), g.NextHops)
	}
	return t
}

// sameButLabels says whether a node's states differ in its labels, its readiness and who runs its ovn-controller at
// most.
func (t *nodeTraits) sameButLabels(o *nodeTraits) bool {
	return t.uid == o.uid && t.placed == o.placed && t.windows == o.windows && t.chassis == o.chassis &&
		t.outside == o.outside && t.gateway == o.gateway && t.addresses == o.addresses
}
