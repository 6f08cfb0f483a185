package ovn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// placement is all that a node's rows follow from.
type placement struct {
	name    string
	id      int
	subnets []netip.Prefix // at most one a family, IPv4 first
	facts   contract.NodeFacts
	os      string // [contract.Linux] or [contract.Windows]
}

// windows says whether the node's chassis has the Hyper-V datapath: see hyperVLimits.
func (n *placement) windows() bool { return n.os == contract.Windows }

// chassis is where the node's ports may be bound. Before the node's agent has said its chassis' name
// the node's own stands in: OVN also compares it with the chassis' host name.
func (n *placement) chassis() string {
	if n.facts.Chassis != "" {
		return n.facts.Chassis
	}
	return n.name
}

// nodeChange is a node's part of the network: the switch of its pods and, if the node has said how it
// meets the outside, its gateway router, or its way to the one that nodes share, if there is one.
func nodeChange(s *settings, n *placement, hasShared bool) ovsdb.Change {
	r := newRows(nodeOwner(n.name))
	group := linuxGroupID
	if n.windows() {
		group = windowsGroupID
	}
	id := r.logicalSwitch("switch", n.name, clusterGroupID, group)
	var own, management []netip.Prefix
	for _, subnet := range n.subnets {
		own = append(own, netip.PrefixFrom(contract.GatewayAddress(subnet), subnet.Bits()))
		management = append(management, netip.PrefixFrom(contract.ManagementAddress(subnet), subnet.Bits()))
	}
	port := routerPort(clusterRouterPort(n.name), own)
	port.Options = map[string]string{"route_table": n.name} // see egress
	r.link("switch", clusterRouterID, id, port, nodeSwitchPort(n.name), nil)
	// No port security here: the host answers pods also from its own addresses.
	r.switchPort(id, "management", &nb.LogicalSwitchPort{
		Name:      contract.ManagementPort(n.name),
		Addresses: []string{portAddresses(contract.Addrs(management))},
		Options:   map[string]string{"requested-chassis": n.chassis()},
	})
	r.ownHost(n, management)
	switch g := n.facts.Gateway; {
	case g != nil:
		r.gateway(s, n, g)
	case n.facts.SharedGateway && hasShared:
		r.sharedEgress(s, n)
	}
	return r.Change
}

// ownHost sends what pods have for their own node's host through the management port. By the gateway
// it would come back to the host from the host's own network, or not at all.
func (r *rows) ownHost(n *placement, management []netip.Prefix) {
	for _, m := range management {
		var addresses []string
		for _, addr := range n.facts.Addresses {
			if addr.Is4() == m.Addr().Is4() {
				addresses = append(addresses, addr.String())
			}
		}
		if len(addresses) == 0 {
			continue
		}
		ip := "ip6"
		if m.Addr().Is4() {
			ip = "ip4"
		}
		set := addresses[0]
		if len(addresses) > 1 {
			set = "{" + strings.Join(addresses, ", ") + "}"
		}
		r.policy(clusterRouterID, "own host/"+ip, &nb.LogicalRouterPolicy{
			Priority: policyOwnHost,
			Match:    fmt.Sprintf("inport == %q && %s.dst == %s", clusterRouterPort(n.name), ip, set),
			Action:   nb.LogicalRouterPolicyActionReroute,
			Nexthops: []string{m.Addr().String()},
		})
	}
}

// gateway is the router between the cluster and the world, which lives on the node's chassis.
func (r *rows) gateway(s *settings, n *placement, g *contract.Gateway) {
	joins := s.joinAddresses(n.id)
	id := r.gatewayRouter(s, g, "-"+n.name, joins, nb.LogicalRouterPort{}, map[string]string{
		"chassis": n.chassis(),
		// The host shares the uplink, and conntrack zone 0 is its own: both must know each
		// other's ports.
		"snat-ct-zone": "0",
		// Gateway routers hardly talk to each other: without these two OVN would keep flows
		// and neighbours for every pair of them.
		"dynamic_neigh_routers":         "true",
		"always_learn_from_arp_request": "false",
	})
	for _, join := range joins {
		subnet := family(n.subnets, join.Addr())
		if subnet == nil {
			continue
		}
		r.egress(n.name, join.Addr())
		if address := family(g.Addresses, join.Addr()); address != nil {
			r.snat(id, *subnet, address.Addr())
		}
	}
}

// gatewayRouter is a router between the join switch and an external switch of its own, and its routes to
// both sides. Names end with suffix; port is completed, and is the one to the outside.
func (r *rows) gatewayRouter(s *settings, g *contract.Gateway, suffix string, joins []netip.Prefix, port nb.LogicalRouterPort, options map[string]string) (id string) {
	name := "gw" + suffix
	id = r.add(nb.LogicalRouterTable, "gateway", &nb.LogicalRouter{Name: name, Options: options})
	r.link("join", id, joinSwitchID, routerPort("rtoj-"+name, joins), "jtor-"+name, nil)
	outside := r.logicalSwitch("external", "ext"+suffix)
	r.switchPort(outside, "localnet", &nb.LogicalSwitchPort{Name: "localnet" + suffix, Type: "localnet",
		Addresses: []string{"unknown"}, Options: map[string]string{"network_name": g.Network}})
	port.Name, port.MAC, port.Networks = "rtoe"+suffix, g.MAC, texts(g.Addresses)
	r.link("external", id, outside, &port, "etor"+suffix,
		map[string]string{"nat-addresses": "router", "exclude-lb-vips-from-garp": "true"})
	r.gatewayRoutes(s, id, port.Name, g)
	return id
}

// egress leads what comes from the node's switch, and is for nobody within, to a gateway: by a default
// route that only this switch's port has. A route by source would win over the subnets of other nodes
// where those are larger, and over their gateway routers' addresses.
func (r *rows) egress(node string, gateway netip.Addr) {
	r.route(clusterRouterID, "egress/"+everything(gateway), &nb.LogicalRouterStaticRoute{
		IPPrefix: everything(gateway), Nexthop: gateway.String(), RouteTable: node})
}

func (r *rows) snat(routerID string, inside netip.Prefix, outside netip.Addr) {
	r.member(nb.LogicalRouterTable, routerID, "nat", r.add(nb.NATTable, "snat/"+inside.String(), &nb.NAT{
		Type: nb.NATTypeSNAT, ExternalIP: outside.String(), LogicalIP: inside.String()}))
}

// gatewayRoutes lead to the cluster inside and to everything else outside.
func (r *rows) gatewayRoutes(s *settings, id, external string, g *contract.Gateway) {
	for _, pods := range s.pods {
		if join := family(s.joins, pods.Addr()); join != nil {
			r.route(id, "cluster/"+pods.String(), &nb.LogicalRouterStaticRoute{
				IPPrefix: pods.String(), Nexthop: nth(*join, 1).String()})
		}
	}
	for _, next := range g.NextHops {
		r.route(id, "default/"+next.String(), &nb.LogicalRouterStaticRoute{IPPrefix: everything(next), Nexthop: next.String(), OutputPort: &external})
	}
}

// everything is the prefix of all addresses of addr's family.
func everything(addr netip.Addr) string {
	if addr.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

func parseFacts(text string) (contract.NodeFacts, error) {
	facts, err := parse[contract.NodeFacts](contract.NodeFactsAnnotation, text)
	if err == nil {
		err = checkAddresses(facts)
	}
	return facts, err
}

// checkAddresses wants plain ones. They become part of OVN's matches, where a zone, which may be any
// text, would be read as more of the expression.
func checkAddresses(facts contract.NodeFacts) error {
	all := slices.Clone(facts.Addresses)
	if g := facts.Gateway; g != nil {
		all = append(append(all, contract.Addrs(g.Addresses)...), g.NextHops...)
	}
	for _, addr := range all {
		if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() {
			return fmt.Errorf("annotation %s: address %q is empty, has a zone or is an IPv4 address dressed as IPv6",
				contract.NodeFactsAnnotation, quoted(addr.String()))
		}
	}
	return nil
}

// checkGateway checks what a gateway router cannot do without; OVN would leave out the row in silence.
func checkGateway(g *contract.Gateway, s *settings) error {
	if g == nil {
		return nil
	}
	if _, err := net.ParseMAC(g.MAC); err != nil {
		return fmt.Errorf("gateway.mac %q is not a hardware address", quoted(g.MAC))
	}
	if g.Network == "" {
		return errors.New("gateway.network is empty; it names the external bridge as ovn-bridge-mappings does")
	}
	if len(g.Addresses) == 0 {
		return errors.New("gateway.addresses is empty; without an address nothing leaves the node")
	}
	if s.shared != nil {
		for _, address := range contract.Addrs(g.Addresses) {
			if slices.Contains(contract.Addrs(s.shared.Addresses), address) {
				return fmt.Errorf("gateway.addresses holds %s, which is the shared gateway's (shared-gateway-addresses); give the node another one (gateway-addresses)", address)
			}
		}
	}
	return nil
}

func checkOS(os string) error {
	switch os {
	case "", contract.Linux, contract.Windows:
		return nil
	}
	return fmt.Errorf("os %q is neither %s nor %s", quoted(os), contract.Linux, contract.Windows)
}

// checkHosted checks where a chassis host shall connect to.
func checkHosted(h *contract.Hosted) error {
	if h == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(h.Address)
	if err != nil {
		return fmt.Errorf("hosted.address %q is not HOST:PORT", quoted(h.Address))
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 || host == "" {
		return fmt.Errorf("hosted.address %q is not HOST:PORT", quoted(h.Address))
	}
	return nil
}

// portAddresses is the value of a switch port's addresses and port_security.
func portAddresses(addrs []netip.Addr) string {
	text := contract.MAC(addrs...).String()
	for _, addr := range addrs {
		text += " " + addr.String()
	}
	return text
}
