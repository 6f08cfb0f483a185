package ovn

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovsdb"
)

// sharedSuffix is what the shared gateway's names end with, where a node's gateway has the node's name. No
// node and no namespace has an @ in its name.
const sharedSuffix = "@shared"

// gatewayLabel makes a node one of those that carry the shared gateway.
const gatewayLabel = "weft.net/gateway"

// maxPriority is OVN's in a group of chassis.
const maxPriority = math.MaxInt16

// gatewayChange is the gateway that nodes without one of their own share: a router that is on all
// nodes, whose port to the outside is on one of its members at a time, the first that lives. With more
// than one of them OVN watches their tunnels by BFD, and the port moves when a member is lost. A member
// that comes back takes its place again.
func gatewayChange(s *settings, members []*placement) ovsdb.Change {
	r := newRows(gatewayOwner)
	if s.shared == nil || len(members) == 0 {
		return r.Change
	}
	group := r.add(nb.HAChassisGroupTable, "gateway", &nb.HAChassisGroup{Name: "gw" + sharedSuffix})
	for i, n := range members {
		r.member(nb.HAChassisGroupTable, group, "ha_chassis", r.add(nb.HAChassisTable, n.name, &nb.HAChassis{
			ChassisName: n.chassis(), Priority: max(maxPriority-i, 0)}))
	}
	id := r.gatewayRouter(s, s.shared, s.shared.Network, sharedSuffix, s.joinAddresses(s.sharedNumber()), nb.LogicalRouterPort{HaChassisGroup: &group}, nil)
	model[nb.LogicalRouter](r, "gateway").ExternalIDs = map[string]string{podsLeave: waysOut(s.shared)}
	for _, pods := range s.pods {
		if address := family(s.shared.Addresses, pods.Addr()); address != nil {
			r.snat(id, pods, address.Addr())
		}
	}
	return r.Change
}

// sharedNumber is the shared gateway's on the join switch.
func (s *settings) sharedNumber() int { return s.maxNodeID() + 1 }

// sharedEgress leads what comes from the node's switch, and is for nobody within, to the shared gateway.
func (r *rows) sharedEgress(s *settings, n *placement) {
	for _, join := range s.joinAddresses(s.sharedNumber()) {
		if family(n.subnets, join.Addr()) != nil && family(s.shared.Addresses, join.Addr()) != nil {
			r.egress(n.name, join.Addr())
			r.hostToItself(n, n.facts.Addresses, *family(n.subnets, join.Addr()), join.Addr())
		}
	}
}

// member is a node that carries the shared gateway, as far as the gateway's rows depend on it.
type member struct {
	chassis string
	uid     types.UID // and hence its age
}

// updateGateway takes in whether a node carries the shared gateway, and whether it uses it.
func (b *nodeBook) updateGateway(n *nodeState) {
	if n.placed && n.facts.SharedGateway && n.facts.Gateway == nil {
		b.sharers[n.name] = struct{}{}
	} else {
		delete(b.sharers, n.name)
	}
	now := member{}
	if n.placed && b.refuseMember(n) == "" {
		now = member{n.chassis(), n.object.UID}
	}
	if b.members[n.name] == now {
		return
	}
	b.dirtyGateway = true
	b.members[n.name] = now
	if now == (member{}) {
		delete(b.members, n.name)
	}
}

// refuseMember says why a node does not carry the shared gateway, "" if it does.
func (b *nodeBook) refuseMember(n *nodeState) string {
	switch {
	case n.object.gateway == "" || n.object.gateway == "false":
		return "it has no label " + gatewayLabel
	case n.object.gateway != "true":
		return fmt.Sprintf("label %s is %q; leave it empty, or remove it", gatewayLabel, quoted(n.object.gateway))
	case b.settings.shared == nil:
		return fmt.Sprintf("it has the label %s, but the controller has no shared-gateway-addresses; set them, or remove the label", gatewayLabel)
	case n.windows():
		return fmt.Sprintf("it has the label %s, but runs Windows, whose datapath lacks what a gateway for other nodes needs (%s); label Linux nodes", gatewayLabel, capability.ClonedPackets.Feature)
	case n.facts.Chassis == "":
		return fmt.Sprintf("it has the label %s, but its agent has not said its chassis' name yet", gatewayLabel)
	case n.facts.Gateway == nil:
		return fmt.Sprintf("it has the label %s, but its agent says nothing of a gateway on the node; set gateway-interface and gateway-addresses for the agent, or remove the label", gatewayLabel)
	case n.facts.Gateway.Network != b.settings.shared.Network:
		return fmt.Sprintf("it has the label %s, but its gateway is on network %q and the shared one on shared-gateway-network %q; make the two the same, or remove the label",
			gatewayLabel, quoted(n.facts.Gateway.Network), b.settings.shared.Network)
	case n.outside == "":
		_, why := n.outsideOf(b.settings)
		return fmt.Sprintf("it has the label %s, but %s", gatewayLabel, why)
	}
	return ""
}

// gatewayProblems are those of a node with the shared gateway.
func (b *nodeBook) gatewayProblems(n *nodeState) []problem {
	var found []problem
	if n.object.gateway != "" && n.object.gateway != "false" {
		if why := b.refuseMember(n); why != "" && n.facts.Chassis != "" {
			found = append(found, problemf("Node", &n.object.ObjectMeta, "NotAGatewayNode", "the node does not carry the shared gateway: %s", why))
		}
	}
	if _, ok := b.sharers[n.name]; !ok {
		return found
	}
	switch {
	case b.settings.shared == nil:
		found = append(found, problemf("Node", &n.object.ObjectMeta, "NoSharedGateway",
			"its pods shall leave by the shared gateway (gateway: shared), but the controller has no shared-gateway-addresses: they reach pods and their node, and nothing else, nor an API server outside; set shared-gateway-addresses and shared-gateway-next-hops for the controller, or gateway: local for the node's agent"))
	case len(b.members) == 0:
		found = append(found, problemf("Node", &n.object.ObjectMeta, "NoSharedGateway",
			"its pods shall leave by the shared gateway (gateway: shared), but no node carries it: they reach pods and their node, and nothing else, nor an API server outside; label Linux nodes that have a gateway with %s=", gatewayLabel))
	}
	return found
}

// gatewayMembers are the nodes that carry the shared gateway, the oldest first: who comes later does
// not take the connections of who is there.
func (b *nodeBook) gatewayMembers() []*placement {
	list := make([]*nodeState, 0, len(b.members))
	for name := range maps.Keys(b.members) {
		list = append(list, b.all[name])
	}
	slices.SortFunc(list, byAge)
	members := make([]*placement, len(list))
	for i, n := range list {
		members[i] = &n.placement
	}
	return members
}

// hasGateway says whether there is a shared gateway.
func (b *nodeBook) hasGateway() bool { return b.settings.shared != nil && len(b.members) > 0 }

var gatewayNetwork = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// sharedGateway reads the keys of the shared gateway, nil when there shall be none.
func (c Config) sharedGateway(s *settings) (*contract.Gateway, error) {
	if len(c.SharedGatewayAddresses) == 0 {
		if len(c.SharedGatewayNextHops) > 0 {
			return nil, errors.New("shared-gateway-addresses: is empty while shared-gateway-next-hops is not; give the gateway's own addresses, like 203.0.113.10/24")
		}
		return nil, nil
	}
	g := &contract.Gateway{Network: c.SharedGatewayNetwork}
	var errs []error
	if !gatewayNetwork.MatchString(g.Network) {
		errs = append(errs, fmt.Errorf("shared-gateway-network: %q is not a name of letters, digits, '.', '_' and '-'; give the gateway-network of the gateway nodes' agents", g.Network))
	}
	for _, text := range c.SharedGatewayAddresses {
		address, err := s.sharedAddress(text)
		switch {
		case err != nil:
			errs = append(errs, err)
		case family(g.Addresses, address.Addr()) != nil:
			errs = append(errs, fmt.Errorf("shared-gateway-addresses: %q holds more than one address of a family; keep one IPv4 and one IPv6 address at most",
				strings.Join(c.SharedGatewayAddresses, ",")))
		default:
			g.Addresses = append(g.Addresses, address)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortFunc(g.Addresses, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) // IPv4 first
	g.MAC = contract.MAC(contract.Addrs(g.Addresses)...).String()
	for _, text := range c.SharedGatewayNextHops {
		next, err := netip.ParseAddr(strings.TrimSpace(text))
		on := family(g.Addresses, next)
		switch {
		case err != nil || next.Zone() != "" || next.Is4In6():
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %q is not an IP address; write it like 203.0.113.1", text))
		case on == nil || !on.Contains(next) || next == on.Addr():
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %s is not another address in a subnet of shared-gateway-addresses %s", next, join(g.Addresses)))
		case slices.Contains(g.NextHops, next):
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %s is there twice", next))
		default:
			g.NextHops = append(g.NextHops, next)
		}
	}
	for _, address := range g.Addresses {
		if !slices.ContainsFunc(g.NextHops, func(next netip.Addr) bool { return next.Is4() == address.Addr().Is4() }) && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("shared-gateway-next-hops: %q has none in the subnet of %s; give the router's address there", strings.Join(c.SharedGatewayNextHops, ","), address))
		}
	}
	return g, errors.Join(errs...)
}

// sharedAddress reads one address of the shared gateway.
func (s *settings) sharedAddress(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("shared-gateway-addresses: %q is not an address with the length of its subnet; write it like 203.0.113.10/24", text)
	}
	addr := p.Addr()
	last := p.Addr().Is4() && hostBits(p) > 1 && addr == nth(p, 1<<hostBits(p)-1)
	switch {
	case hostBits(p) > 0 && addr == p.Masked().Addr(), last, !addr.IsGlobalUnicast():
		return p, fmt.Errorf("shared-gateway-addresses: %s is no host's address; give a free one of the subnet, like %s", p, nth(p, 10))
	case family(s.pods, addr) == nil:
		return p, fmt.Errorf("shared-gateway-addresses: %s has an address family that pod-cidrs %s lacks; drop it or add a pod range of that family", p, join(s.pods))
	}
	for _, inside := range slices.Concat(s.pods, s.services, s.joins) {
		if inside.Overlaps(p.Masked()) {
			return p, fmt.Errorf("shared-gateway-addresses: the subnet of %s overlaps with %s, which is the cluster's own; the gateway's addresses are outside", p, inside)
		}
	}
	return p, nil
}
