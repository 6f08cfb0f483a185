package topology

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
)

// Traits is all of a node that EgressIPs and AddressPools depend on.
type Traits struct {
	uid       types.UID
	Labels    objects.LabelSet
	Placed    bool
	Ready     bool
	windows   bool
	Hosted    bool
	chassis   string // as its agent says
	outside   string
	gateway   string
	addresses string
	Taken     []netip.Addr // that nobody else may have: see outsideAddresses
}

func TraitsOf(n *Node) Traits {
	if n.Object == nil {
		return Traits{}
	}
	t := Traits{uid: n.Object.UID, Labels: n.Object.Labels, Placed: n.Placed, Ready: n.Object.Ready,
		windows: n.Windows(), Hosted: n.Facts.Hosted != nil, chassis: n.Facts.Chassis, outside: n.Outside,
		Taken: n.HostAddresses()}
	if g := n.Facts.Gateway; g != nil {
		t.gateway = contract.Format(contract.NodeFacts{Gateway: g})
		t.Taken = slices.Concat(t.Taken, contract.Addrs(g.Addresses), g.NextHops)
	}
	t.addresses = fmt.Sprint(t.Taken)
	return t
}

// SameButLabels says whether a node's states differ in its labels, its readiness and who runs its ovn-controller at
// most.
func (t *Traits) SameButLabels(o *Traits) bool {
	return t.uid == o.uid && t.Placed == o.Placed && t.windows == o.windows && t.chassis == o.chassis &&
		t.outside == o.outside && t.gateway == o.gateway && t.addresses == o.addresses
}
