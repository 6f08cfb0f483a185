package nodes

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/topology"
)

// onlyOne finds nodes that are placed by what one node alone may have: whoever comes later with the same is refused.
type onlyOne struct {
	chassis  map[string]string // node by its chassis' name
	gateways map[gatewayKey]string
	subnets  []nodeSubnet // sorted; none overlaps with another
	of       map[string]tokens
}

// gatewayKey is an address or a MAC address of a gateway on a network outside.
type gatewayKey struct {
	network string
	addr    netip.Addr
	mac     string
}

type nodeSubnet struct {
	netip.Prefix
	node string
}

// tokens are what a node has of these.
type tokens struct {
	chassis  string
	gateways []gatewayKey
	subnets  []netip.Prefix
}

func newOnlyOne() onlyOne {
	return onlyOne{chassis: map[string]string{}, gateways: map[gatewayKey]string{}, of: map[string]tokens{}}
}

// take has a node be found by what it has now, and by what it had no more. vacated says that it has given something up.
func (o *onlyOne) take(n *topology.Node) (vacated bool) {
	before, now := o.of[n.Name], tokens{}
	if n.Placed {
		now = tokens{n.Facts.Chassis, gatewayKeys(n), n.Subnets}
	}
	if before.chassis == now.chassis && slices.Equal(before.gateways, now.gateways) && slices.Equal(before.subnets,
		now.subnets) {
		return false
	}
	delete(o.chassis, before.chassis)
	for _, k := range before.gateways {
		delete(o.gateways, k)
	}
	if len(before.subnets) > 0 {
		o.subnets = slices.DeleteFunc(o.subnets, func(s nodeSubnet) bool { return s.node == n.Name })
	}
	if now.chassis != "" {
		o.chassis[now.chassis] = n.Name
	}
	for _, k := range now.gateways {
		o.gateways[k] = n.Name
	}
	for _, p := range now.subnets {
		o.subnets = slices.Insert(o.subnets, o.position(p.Addr()), nodeSubnet{p, n.Name})
	}
	if o.of[n.Name] = now; !n.Placed {
		delete(o.of, n.Name)
	}
	return before.chassis != "" && before.chassis != now.chassis ||
		slices.ContainsFunc(before.gateways, func(k gatewayKey) bool { return !slices.Contains(now.gateways, k) }) ||
		slices.ContainsFunc(before.subnets, func(p netip.Prefix) bool { return !slices.Contains(now.subnets, p) })
}

// WithChassis is the node that has a chassis, "" for none.
func (b *Part) WithChassis(chassis string) string {
	if name, ok := b.onlyOne.chassis[chassis]; ok {
		return name
	}
	if n := b.all[chassis]; n != nil && n.Placed && n.Chassis() == chassis { // its agent has said no other name yet
		return chassis
	}
	return ""
}

// position is where the subnets begin that have no address before addr.
func (o *onlyOne) position(addr netip.Addr) int {
	at, _ := slices.BinarySearchFunc(o.subnets, addr, func(s nodeSubnet, addr netip.Addr) int {
		return s.Addr().Compare(addr)
	})
	return at
}

// overlapping is another node's subnet that overlaps with one.
func (o *onlyOne) overlapping(subnet netip.Prefix, besides string) (found nodeSubnet, ok bool) {
	// Since they do not overlap among each other, of those that begin before it only the last can.
	for i := max(o.position(subnet.Addr())-1, 0); i < len(o.subnets); i++ {
		s := o.subnets[i]
		switch {
		case s.Overlaps(subnet) && s.node != besides:
			return s, true
		case s.Addr().Compare(subnet.Addr()) > 0 && !subnet.Contains(s.Addr()):
			return nodeSubnet{}, false
		}
	}
	return nodeSubnet{}, false
}

// gatewayKeys are those of a node's gateway, addresses first. Networks are compared by what administrators have
// granted: a gateway on a network that is not granted stands in nobody's way.
func gatewayKeys(n *topology.Node) (keys []gatewayKey) {
	if n.Outside == "" {
		return nil
	}
	g := n.Facts.Gateway
	for _, addr := range contract.Addrs(g.Addresses) {
		keys = append(keys, gatewayKey{network: n.Outside, addr: addr})
	}
	if mac, err := net.ParseMAC(g.MAC); err == nil {
		keys = append(keys, gatewayKey{network: n.Outside, mac: mac.String()})
	}
	return keys
}

// sameChassis is another node that was first with this node's chassis name.
func (o *onlyOne) sameChassis(n *topology.Node) string {
	if other := o.chassis[n.Facts.Chassis]; n.Facts.Chassis != "" && other != n.Name {
		return other
	}
	return ""
}

// sameGateway is another node whose gateway was first with an address of this node's gateway, or with its MAC,
// on the same network outside.
func (o *onlyOne) sameGateway(n *topology.Node) (other, field, remedy string) {
	const apart = ", or gateway-network of another name if the two nodes are on different networks"
	for _, k := range gatewayKeys(n) {
		switch other := o.gateways[k]; {
		case other == "" || other == n.Name:
		case k.mac != "":
			return other, "gateway.mac " + k.mac, "give the node's network adapter a hardware address of its own, as copied " +
				"machines lack it" + apart
		default:
			return other, "gateway.addresses " + k.addr.String(),
				"give the node another one (gateway-addresses of its agent, or the host's own)" + apart
		}
	}
	return "", "", ""
}

// free says who else has a subnet, or part of it.
func (o *onlyOne) free(n *state, subnet netip.Prefix) error {
	if other, ok := o.overlapping(subnet, n.Name); ok {
		return fmt.Errorf("spec.podCIDRs: %s overlaps with %s of Node %s; create one of the two Nodes anew", subnet,
			other.Prefix, other.node)
	}
	return nil
}
