package ovn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
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
}

// chassis is where the node's ports may be bound. Before the node's agent has said its chassis' name
// the node's own stands in: OVN also compares it with the chassis' host name.
func (n *placement) chassis() string {
	if n.facts.Chassis != "" {
		return n.facts.Chassis
	}
	return n.name
}

// nodeChange is a node's part of the network: the switch of its pods and, if the node has said how it
// meets the outside, its gateway router.
func nodeChange(s *settings, n *placement) ovsdb.Change {
	r := newRows(nodeOwner(n.name))
	id := r.logicalSwitch("switch", n.name, clusterGroupID)
	var own, management []netip.Prefix
	for _, subnet := range n.subnets {
		own = append(own, netip.PrefixFrom(contract.GatewayAddress(subnet), subnet.Bits()))
		management = append(management, netip.PrefixFrom(contract.ManagementAddress(subnet), subnet.Bits()))
	}
	port := routerPort(clusterRouterPort(n.name), own)
	port.Options = map[string]string{"route_table": n.name} // see gateway
	r.link("switch", clusterRouterID, id, port, nodeSwitchPort(n.name), nil)
	// No port security here: the host answers pods also from its own addresses.
	r.switchPort(id, "management", &nb.LogicalSwitchPort{
		Name:      contract.ManagementPort(n.name),
		Addresses: []string{portAddresses(contract.Addrs(management))},
		Options:   map[string]string{"requested-chassis": n.chassis()},
	})
	r.ownHost(n, management)
	if g := n.facts.Gateway; g != nil {
		r.gateway(s, n, g)
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
	name, external := gatewayRouter(n.name), "rtoe-"+n.name
	id := r.add(nb.LogicalRouterTable, "gateway", &nb.LogicalRouter{Name: name, Options: map[string]string{
		"chassis": n.chassis(),
		// The host shares the uplink, and conntrack zone 0 is its own: both must know each
		// other's ports.
		"snat-ct-zone": "0",
		// Gateway routers hardly talk to each other: without these two OVN would keep flows
		// and neighbours for every pair of them.
		"dynamic_neigh_routers":         "true",
		"always_learn_from_arp_request": "false",
	}})
	joins := s.joinAddresses(n.id)
	r.link("join", id, joinSwitchID, routerPort("rtoj-"+name, joins), "jtor-"+name, nil)
	outside := r.logicalSwitch("external", "ext-"+n.name)
	r.switchPort(outside, "localnet", &nb.LogicalSwitchPort{Name: "localnet-" + n.name, Type: "localnet",
		Addresses: []string{"unknown"}, Options: map[string]string{"network_name": g.Network}})
	r.link("external", id, outside, &nb.LogicalRouterPort{Name: external, MAC: g.MAC, Networks: texts(g.Addresses)}, "etor-"+n.name,
		map[string]string{"nat-addresses": "router", "exclude-lb-vips-from-garp": "true"})
	r.gatewayRoutes(s, id, external, g)
	for _, join := range joins {
		subnet := family(n.subnets, join.Addr())
		if subnet == nil {
			continue
		}
		// What comes from the node's switch and is for nobody within leaves by the node's own
		// gateway: a default route that only this switch's port has. A route by source would
		// win over the subnets of other nodes where those are larger, and over their gateway
		// routers' addresses.
		r.route(clusterRouterID, "egress/"+everything(join.Addr()), &nb.LogicalRouterStaticRoute{
			IPPrefix: everything(join.Addr()), Nexthop: join.Addr().String(), RouteTable: n.name})
		if address := family(g.Addresses, join.Addr()); address != nil {
			r.member(nb.LogicalRouterTable, id, "nat", r.add(nb.NATTable, "snat/"+subnet.String(), &nb.NAT{
				Type: nb.NATTypeSNAT, ExternalIP: address.Addr().String(), LogicalIP: subnet.String()}))
		}
	}
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
func checkGateway(g *contract.Gateway) error {
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
