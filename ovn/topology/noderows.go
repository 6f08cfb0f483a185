package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// NodeChange is a node's part of the network: the switch of its pods and, if the node has said how it
// meets the outside, its gateway router, or its way to the one that nodes share, if there is one.
func NodeChange(s *settings.Settings, n *Node, hasShared bool) ovsdb.Change {
	r := NewRows(northbound.NodeOwner(n.Name))
	id := r.LogicalSwitch("switch", n.Name, loadbalancer.Groups(loadbalancer.OnSwitches, n.topologyZone(), n.OS)...)
	var own, management []netip.Prefix
	for _, subnet := range n.Subnets {
		own = append(own, netip.PrefixFrom(contract.GatewayAddress(subnet), subnet.Bits()))
		management = append(management, netip.PrefixFrom(contract.ManagementAddress(subnet), subnet.Bits()))
	}
	port := northbound.RouterPort(northbound.ClusterRouterPort(n.Name), own)
	port.Options = map[string]string{"route_table": n.Name} // see egress
	port.HaChassisGroup = r.boundTo(n)
	r.Link("switch", northbound.ClusterRouterID, id, port, northbound.NodeSwitchPort(n.Name), nil)
	config, options := map[string]string{}, map[string]string{"requested-chassis": n.Chassis()}
	BoundConnections(config, n, s.NodeConnections)
	BoundConnections(options, n, s.HostConnections())
	northbound.Model[nb.LogicalSwitch](r.Builder, "switch").OtherConfig = config
	// No port security here: the host answers pods also from its own addresses.
	r.SwitchPort(id, "management", &nb.LogicalSwitchPort{
		Name:      contract.ManagementPort(n.Name),
		Addresses: []string{northbound.PortAddresses(contract.Addrs(management))},
		Options:   options,
		// An empty list says that there are none.
		ExternalIDs: map[string]string{contract.TunnelAddressesKey: strings.Join(ipam.Texts(n.Tunnels), ",")},
	})
	r.ownHost(n, management)
	r.joinPortGroups(n)
	if n.Facts.Chassis != "" { // of a name that stands in for it, another node's chassis may be
		r.template(n)
	}
	switch g := n.Facts.Gateway; {
	case g != nil:
		r.gateway(s, n, g)
	case n.Facts.SharedGateway && hasShared:
		r.sharedEgress(s, n)
	}
	return r.Change
}

// boundTo binds the router's port to the node's switch to the node: what is for its pods goes to the node first, and
// through their switch there. So the node's ovn-controller alone has the switch's flows. Without it each ovn-controller
// has the switches of all nodes, since one router joins them.
func (r *Rows) boundTo(n *Node) *string {
	group := r.Add(nb.HAChassisGroupTable, "switch", &nb.HAChassisGroup{Name: northbound.ClusterRouterPort(n.Name)})
	r.Member(nb.HAChassisGroupTable, group, "ha_chassis", r.Add(nb.HAChassisTable, "switch", &nb.HAChassis{
		ChassisName: n.Chassis(), Priority: northbound.MaxPriority}))
	return &group
}

// template says what the load balancers of NodePorts have on this node.
func (r *Rows) template(n *Node) {
	r.Add(nb.ChassisTemplateVarTable, "template", &nb.ChassisTemplateVar{Chassis: n.Chassis(),
		Variables: n.TemplateVariables()})
}

// ownHost sends what pods have for their own node's host through the management port. By the gateway
// it would come back to the host from the host's own network, or not at all.
func (r *Rows) ownHost(n *Node, management []netip.Prefix) {
	for _, m := range management {
		ip, set := northbound.IPWord(m.Addr().Is4()), northbound.AddressSet(n.Facts.Addresses, m.Addr().Is4())
		if set == "" {
			continue
		}
		r.Policy(northbound.ClusterRouterID, "own host/"+ip, &nb.LogicalRouterPolicy{
			Priority: policyOwnHost,
			Match:    fmt.Sprintf("inport == %q && %s.dst == %s", northbound.ClusterRouterPort(n.Name), ip, set),
			Action:   nb.LogicalRouterPolicyActionReroute,
			Nexthops: []string{m.Addr().String()},
		})
	}
}

// gateway is the router between the cluster and the world, which lives on the node's chassis.
func (r *Rows) gateway(s *settings.Settings, n *Node, g *contract.Gateway) {
	joins := s.JoinAddresses(n.ID)
	options := map[string]string{
		"chassis": n.Chassis(),
		// Endpoints on other nodes must answer this router, and no other.
		"lb_force_snat_ip": "router_ip",
		// Gateway routers hardly talk to each other: without this, and with what they would learn of
		// each other's questions, OVN would keep flows and neighbours for every pair of them.
		"dynamic_neigh_routers": "true",
	}
	if !g.HostAddresses {
		// The host shares the uplink, and conntrack zone 0 is its own: both must know each
		// other's ports.
		options["snat-ct-zone"] = "0"
	}
	BoundConnections(options, n, s.NodeConnections)
	id := r.gatewayRouter(s, g, n.Outside, "-"+n.Name, joins, nb.LogicalRouterPort{}, options)
	northbound.Model[nb.LogicalRouter](r.Builder, "gateway").ExternalIDs = map[string]string{podsLeave: waysOut(s, g)}
	r.gatewayBalancers(n)
	r.joinGateways(s, g)
	r.inwardMTU(n)
	r.clusterNeighbour(s, n)
	for _, join := range joins {
		subnet := ipam.Family(n.Subnets, join.Addr())
		if subnet == nil {
			continue
		}
		r.egress(n.Name, join.Addr())
		address := ipam.Family(g.Addresses, join.Addr())
		if !s.Lacks.ConditionalNAT {
			r.sentAgain(s, id, n.Name, *subnet, join.Addr(), address)
		}
		switch {
		case address == nil:
		case g.HostAddresses:
			r.hostAlias(n, id, address.Addr())
			r.hostNeighbours(n, address.Addr())
			r.hostToItself(n, contract.Addrs(g.Addresses), *subnet, join.Addr())
		case !g.Routed:
			r.Snat(id, *subnet, address.Addr())
			r.hostToItself(n, n.Facts.Addresses, *subnet, join.Addr())
		}
		if address != nil && g.Routed && !s.Lacks.ConditionalNAT {
			r.toGateways(id, n.Name, *subnet, address.Addr())
		}
	}
}

// podsLeave is the key in external_ids of a node's gateway router (Logical_Router): how pods leave the node. The value
// has their source addresses outside, or says that they keep their own or do not leave. If addresses are translated, it
// also says what does so: flows of the node's external bridge, or this router's rows of NAT. If the flows do, none of
// these rows is for pods that leave.
const podsLeave = "weft.net/pods-leave"

func waysOut(s *settings.Settings, g *contract.Gateway) string {
	switch list := strings.Join(ipam.Texts(contract.Addrs(ipam.Firsts(g.Addresses))), " "); {
	case g.Routed && (list == "" || s.Lacks.ConditionalNAT):
		return "with their own addresses"
	case g.Routed:
		return "with their own addresses, and to gateways of other nodes as " + list + ", translated by this router's rows " +
			"of NAT"
	case list == "":
		return "not at all: the gateway has no address"
	case g.HostAddresses:
		return "as " + list + ", translated by flows on the node's external bridge and by no row of NAT"
	default:
		return "as " + list + ", translated by this router's rows of NAT"
	}
}

// sentAgain gives the gateway's address to what a client outside sends again before it was answered, as a SYN that
// was lost beyond the gateway. lb_force_snat_ip does so for what opens a connection and for what follows an answer.
// In between OVN takes the packet for neither: it is new to conntrack, and has its endpoint's address already. The
// endpoint would answer the client itself, and the connection would never come about. Endpoints on the node
// itself are told nothing: that of externalTrafficPolicy Local must see the client, and no network lies before them.
func (r *Rows) sentAgain(s *settings.Settings, routerID, node string, subnet netip.Prefix, join netip.Addr,
	outside *netip.Prefix) {
	inward, outward, word := "rtoj-gw-"+node, "rtoe-"+node, northbound.IPWord(join.Is4())
	const unflagged = "flags.skip_snat_for_lb == 0"
	r.nat(routerID, "again/in/"+word, &nb.NAT{Type: nb.NATTypeSNAT, ExternalIP: join.String(),
		LogicalIP: northbound.Everything(join),
		Match: fmt.Sprintf("outport == %q && %s && %s.dst == %s && %s.dst != %s", inward, unflagged, word,
			ipam.Family(s.Pods, join), word, subnet)})
	if outside != nil {
		r.nat(routerID, "again/out/"+word, &nb.NAT{Type: nb.NATTypeSNAT, ExternalIP: outside.Addr().String(),
			LogicalIP: northbound.Everything(join),
			Match: fmt.Sprintf("inport == %q && outport == %q && %s && %s.dst != %s", outward, outward, unflagged, word,
				contract.OfFamily(contract.HostAliases, join))})
	}
}

// joinGateways puts the gateway router's addresses into the sets of all nodes'.
func (r *Rows) joinGateways(s *settings.Settings, g *contract.Gateway) {
	for _, addr := range contract.Addrs(g.Addresses) {
		if slices.Contains(s.Families(), addr.Is4()) {
			r.Member(nb.AddressSetTable, ovsdb.ID(nb.AddressSetTable, northbound.ClusterOwner,
				northbound.GatewaysKey(addr.Is4())), "addresses", addr.String())
		}
	}
}

// toGateways gives the router's own address to what pods that keep theirs outside send to other nodes' gateways. A load
// balancer there may leave its client as it is, as that of a hostPort or with externalTrafficPolicy Local. To a pod's
// address its endpoint would answer straight, and the pod would see another address than it has asked.
func (r *Rows) toGateways(routerID, node string, subnet netip.Prefix, outside netip.Addr) {
	word := northbound.IPWord(outside.Is4())
	r.nat(routerID, "gateways/"+word, &nb.NAT{Type: nb.NATTypeSNAT, ExternalIP: outside.String(),
		LogicalIP: subnet.String(), Match: fmt.Sprintf("outport == %q && %s.dst == $%s", "rtoe-"+node, word,
			northbound.GatewaysSet(outside.Is4()))})
}

// gatewayBalancers puts the node's gateway router into the groups of its kind.
func (r *Rows) gatewayBalancers(n *Node) {
	northbound.Model[nb.LogicalRouter](r.Builder, "gateway").LoadBalancerGroup = loadbalancer.Groups(
		loadbalancer.OnRouters, n.topologyZone(), n.OS)
}

// inwardMTU has the gateway router answer what is too large for the tunnels to other nodes' pods. On
// Windows every packet would go through ovs-vswitchd for it, see capability.Limits.
func (r *Rows) inwardMTU(n *Node) {
	if !n.Windows() && n.Facts.MTU > 0 {
		northbound.Model[nb.LogicalRouterPort](r.Builder, "join").Options = map[string]string{
			"gateway_mtu": strconv.Itoa(n.Facts.MTU)}
	}
}

// hostAlias is the way to the host itself where the gateway router has the host's addresses. The router takes
// packets to those as its own; what no load balancer wants of them, and what a load balancer has
// for an endpoint there, goes to the alias, which the external bridge turns into the host's first address.
func (r *Rows) hostAlias(n *Node, routerID string, first netip.Addr) {
	alias := contract.OfFamily(contract.HostAliases, first)
	single := netip.PrefixFrom(alias, alias.BitLen())
	outside := "rtoe-" + n.Name
	r.Route(routerID, "host/"+alias.String(), &nb.LogicalRouterStaticRoute{IPPrefix: single.String(),
		Nexthop: alias.String(), OutputPort: &outside})
	for _, host := range contract.Addrs(n.Facts.Gateway.Addresses) {
		if host.Is4() == first.Is4() {
			r.nat(routerID, "host/"+host.String(), &nb.NAT{Type: nb.NATTypeDNAT, ExternalIP: host.String(),
				LogicalIP: alias.String()})
		}
	}
}

// hostNeighbours tells the gateway router with the host's first address where the host is: it can ask neither for the
// alias nor for the host's other addresses, since the question comes from the host's own address.
func (r *Rows) hostNeighbours(n *Node, first netip.Addr) {
	for _, addr := range append([]netip.Addr{contract.OfFamily(contract.HostAliases, first)}, n.Facts.Addresses...) {
		if addr.Is4() == first.Is4() && addr != first {
			r.Neighbour("rtoe-"+n.Name, addr, contract.HostAliasMAC())
		}
	}
}

// clusterNeighbour tells the gateway router of a Windows node where the cluster's router is. A router that asks learns
// by put_arp, of a packet that ovn-controller has sent into the switch, and the datapath there does not give such a
// packet to ovs-vswitchd again: see capability.Limits. On Linux it asks, so that the Southbound has no row of it.
func (r *Rows) clusterNeighbour(s *settings.Settings, n *Node) {
	if !n.Windows() {
		return
	}
	cluster := s.JoinAddresses(0)
	for _, join := range contract.Addrs(cluster) {
		r.Neighbour("rtoj-gw-"+n.Name, join, contract.MAC(contract.Addrs(cluster)...))
	}
}

// hostToItself sends what a node's host has for itself to the gateway: it is what the host has sent to a
// Service whose endpoint it is. By its management port the packet would come back to it with a source
// that is its own, and it would drop it. So it is with its pods' datagrams: a server that has not bound an
// address would answer by the management port with that port's address, and not with the one that was asked.
// What is for a port of those that systems give to clients is an answer to the host, and goes as it came.
func (r *Rows) hostToItself(n *Node, hosts []netip.Addr, subnet netip.Prefix, gateway netip.Addr) {
	word := northbound.IPWord(gateway.Is4())
	set := northbound.AddressSet(hosts, gateway.Is4())
	if set == "" {
		return
	}
	r.Policy(northbound.ClusterRouterID, "host to itself/"+word, &nb.LogicalRouterPolicy{
		Priority: policyHostToItself,
		Match: fmt.Sprintf("inport == %q && (%s.src == %s || udp.dst < %d) && %s.dst == %s",
			northbound.ClusterRouterPort(n.Name), word, contract.ManagementAddress(subnet), northbound.ClientPorts, word, set),
		Action:   nb.LogicalRouterPolicyActionReroute,
		Nexthops: []string{gateway.String()},
	})
}

// gatewayRouter is a router between the join switch and an external switch of its own, and its routes to
// both sides. Names end with suffix; port is completed, and is the one to the outside. Granted is the network that its
// chassis are granted.
func (r *Rows) gatewayRouter(s *settings.Settings, g *contract.Gateway, granted, suffix string, joins []netip.Prefix,
	port nb.LogicalRouterPort, options map[string]string) (id string) {
	name := "gw" + suffix
	id = r.LogicalRouter("gateway", name, options)
	r.Link("join", id, northbound.JoinSwitchID, northbound.RouterPort("rtoj-"+name, joins), "jtor-"+name, nil)
	outside := r.External(suffix, g.Network, granted)
	port.Name, port.MAC, port.Networks = "rtoe"+suffix, g.MAC, ipam.Texts(g.Addresses)
	// OVN announces the port's own addresses; with nat-addresses it would announce those for the join switch, too.
	r.Link("external", id, outside, &port, "etor"+suffix, nil)
	r.GatewayRoutes(s, id, port.Name, g)
	return id
}

// External is the switch between a gateway router and the world on a network outside.
func (r *Rows) External(suffix, network, granted string) (switchID string) {
	switchID = r.LogicalSwitch("external", "ext"+suffix)
	r.SwitchPort(switchID, "localnet", &nb.LogicalSwitchPort{Name: "localnet" + suffix, Type: "localnet",
		Addresses: []string{"unknown"}, Options: map[string]string{"network_name": network},
		// An empty name says that it is not granted.
		ExternalIDs: map[string]string{contract.GrantedNetworkKey: granted}})
	r.Member(nb.PortGroupTable, northbound.OutsideGroupID, "ports", ovsdb.ID(nb.LogicalSwitchPortTable, r.Owner,
		"localnet"))
	return switchID
}

// egress leads what comes from the node's switch, and is for nobody within, to a gateway: by a default
// route that only this switch's port has. A route by source would win over the subnets of other nodes
// where those are larger, and over their gateway routers' addresses.
func (r *Rows) egress(node string, gateway netip.Addr) {
	r.Route(northbound.ClusterRouterID, "egress/"+northbound.Everything(gateway), &nb.LogicalRouterStaticRoute{
		IPPrefix: northbound.Everything(gateway), Nexthop: gateway.String(), RouteTable: node})
}

func (r *Rows) Snat(routerID string, inside netip.Prefix, outside netip.Addr) {
	r.nat(routerID, "snat/"+inside.String(), &nb.NAT{Type: nb.NATTypeSNAT, ExternalIP: outside.String(),
		LogicalIP: inside.String()})
}

func (r *Rows) nat(routerID, key string, nat *nb.NAT) {
	r.Member(nb.LogicalRouterTable, routerID, "nat", r.Add(nb.NATTable, key, nat))
}

// GatewayRoutes lead to the cluster inside and to everything else outside.
func (r *Rows) GatewayRoutes(s *settings.Settings, id, external string, g *contract.Gateway) {
	for _, pods := range s.Pods {
		if join := ipam.Family(s.Joins, pods.Addr()); join != nil {
			r.Route(id, "cluster/"+pods.String(), &nb.LogicalRouterStaticRoute{
				IPPrefix: pods.String(), Nexthop: ipam.Nth(*join, 1).String()})
		}
	}
	// Several of a family share the load, answers to connections from outside included: with OVN's
	// ecmp_symmetric_reply no connection to a load balancer comes up.
	for _, next := range g.NextHops {
		r.Route(id, "default/"+next.String(), &nb.LogicalRouterStaticRoute{IPPrefix: northbound.Everything(next),
			Nexthop: next.String(), OutputPort: &external})
	}
}
