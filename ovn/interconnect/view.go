package interconnect

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// The transit switch joins the routers of all zones.
const (
	TransitSwitch = "ts"
	// TransitKey is the tunnel key of the switch's datapath. It is beyond those that northd gives.
	TransitKey = 16711683
	// sendingRouterPort leads to the switch, whose port it is linked with is sendingSwitchPort. Packets of the zone enter
	// the switch by it, and none leaves by it.
	sendingRouterPort, sendingSwitchPort = "rtots", "tstor"
)

var transitID = ovsdb.ID(nb.LogicalSwitchTable, northbound.ClusterOwner, TransitSwitch)

// SendingPort is the port by which packets of another zone enter the transit switch.
func SendingPort(zone string) string { return sendingSwitchPort + "@" + zone }

// View is what the Northbound of one zone has of a cluster. It is not safe for use by several goroutines at once.
type View struct {
	// Settings are those of the whole cluster.
	Settings *settings.Settings
	// Zone is one of the settings' zones.
	Zone settings.Zone
	// Foreign says whether a node is in another zone. The answer for a node stays the same as long as there are rows of
	// the node.
	Foreign func(node string) bool
	// Number is a node's, as [settings.JoinAddress] has it, 0 for none.
	Number func(node string) int
	// TunnelEnd is the address at which a node's tunnels end, if it is known. If it is not, other zones have no tunnel to
	// the node.
	TunnelEnd func(node string) (addr netip.Addr, ok bool)

	foreign map[string]bool // UUIDs of foreign nodes' switches and gateway routers
}

// Rows are what the zone has of the rows of the whole cluster. A node's come before those of its pods.
func (v *View) Rows(changes []ovsdb.Change) []ovsdb.Change {
	list := make([]ovsdb.Change, len(changes))
	for i, change := range changes {
		list[i] = v.rowsOf(change)
	}
	return list
}

func (v *View) rowsOf(change ovsdb.Change) ovsdb.Change {
	word, node := part.Split(change.Owner)
	switch {
	case change.Owner == northbound.ClusterOwner:
		return v.ofCluster(change)
	case word != nodeWord:
		return joined(v.withoutForeign(change))
	case v.Foreign(node):
		return v.ofForeignNode(node, change)
	default:
		return joined(v.ofOwnNode(node, change))
	}
}

// joined tells the cluster's router of the routers of a change that are on the join switch: gateway routers, and those
// of EgressIPs. dynamic_neigh_routers has it forget them.
func joined(change ovsdb.Change) ovsdb.Change {
	var r *northbound.Builder
	for _, row := range change.Rows {
		port, ok := row.Model.(*nb.LogicalRouterPort)
		if !ok || row.Key != "join" {
			continue
		}
		if r == nil {
			r = northbound.Extend(copied(change))
		}
		mac, err := net.ParseMAC(port.MAC)
		if err != nil {
			panic(fmt.Sprintf("router port %s: %v", port.Name, err)) // the translation has made it
		}
		for _, network := range port.Networks {
			r.Neighbour("rtoj-cluster", netip.MustParsePrefix(network).Addr(), mac)
		}
	}
	if r == nil {
		return change
	}
	return r.Change
}

var (
	nodeWord, _ = part.Split(northbound.NodeOwner(""))
	podWord, _  = part.Split(northbound.PodOwner(""))
)

// Node is what zones know of each other's nodes.
type Node struct {
	Chassis string
	Subnets []netip.Prefix
	// Joins are the addresses of the node's gateway router on the join switch.
	Joins []netip.Prefix
	// Gateway is the gateway router's port to the network outside, nil for none.
	Gateway *nb.LogicalRouterPort
}

// NodeOf reads a node's rows.
func NodeOf(change ovsdb.Change) (n Node) {
	for _, row := range change.Rows {
		switch m := row.Model.(type) {
		case *nb.HAChassis:
			n.Chassis = m.ChassisName
		case *nb.LogicalRouterPort:
			if row.Key == "external" {
				n.Gateway = m
			}
			for _, text := range m.Networks {
				address := netip.MustParsePrefix(text)
				switch row.Key {
				case "join":
					n.Joins = append(n.Joins, address)
				case "switch":
					n.Subnets = append(n.Subnets, address.Masked())
				}
			}
		}
	}
	return n
}

// Address is that of a node or a zone on the transit switch.
func (v *View) Address(number int) netip.Addr { return ipam.Nth(v.Settings.Transit, uint64(number)) }

func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

func tunnelKey(number int) map[string]string {
	return map[string]string{"requested-tnl-key": strconv.Itoa(number)}
}

// ofCluster adds the transit switch, the port by which the zone sends, and those by which other zones do.
func (v *View) ofCluster(change ovsdb.Change) ovsdb.Change {
	if len(change.Rows) == 0 {
		return change
	}
	r := northbound.Extend(copied(change))
	for i, row := range r.Rows {
		if router, ok := row.Model.(*nb.LogicalRouter); ok {
			dynamic := *router
			dynamic.Options = maps.Clone(router.Options)
			// Without it northd makes two flows for each ordered pair of the router's ports on the transit switch.
			dynamic.Options["dynamic_neigh_routers"] = "true"
			r.Rows[i].Model = &dynamic
		}
	}
	r.LogicalSwitch(TransitSwitch, TransitSwitch)
	config := tunnelKey(TransitKey)
	config["interconn-ts"] = TransitSwitch
	northbound.Model[nb.LogicalSwitch](r, TransitSwitch).OtherConfig = config
	// Only this port has the whole range: northd makes a flow for each pair of such a port and a foreign node.
	sender := northbound.RouterPort(sendingRouterPort,
		[]netip.Prefix{netip.PrefixFrom(v.Address(v.Zone.Number), v.Settings.Transit.Bits())})
	r.Link("transit", northbound.ClusterRouterID, transitID, sender, sendingSwitchPort, tunnelKey(v.Zone.Number))
	for _, other := range v.Settings.Zones {
		if other.Name == v.Zone.Name {
			continue
		}
		name := SendingPort(other.Name)
		r.SwitchPort(transitID, name, &nb.LogicalSwitchPort{Name: name, Type: "remote", Options: tunnelKey(other.Number)})
	}
	return r.Change
}

// copied may be added to: the translation keeps the original.
func copied(change ovsdb.Change) ovsdb.Change {
	change.Rows, change.Memberships = slices.Clone(change.Rows), slices.Clone(change.Memberships)
	for i := range change.Memberships {
		change.Memberships[i].Values = slices.Clone(change.Memberships[i].Values)
	}
	return change
}

// ofOwnNode adds the port by which packets of other zones come to the node.
func (v *View) ofOwnNode(node string, change ovsdb.Change) ovsdb.Change {
	delete(v.foreign, northbound.SwitchID(node))
	delete(v.foreign, northbound.GatewayID(node))
	number := v.Number(node)
	if number == 0 || len(change.Rows) == 0 {
		return change
	}
	r := northbound.Extend(copied(change))
	r.Link("transit", northbound.ClusterRouterID, transitID, northbound.RouterPort("rtots-"+node,
		[]netip.Prefix{single(v.Address(number))}), contract.TransitPort(node), tunnelKey(number))
	return r.Change
}

// ofForeignNode is the way to it, and what sets of addresses have of it.
func (v *View) ofForeignNode(node string, change ovsdb.Change) ovsdb.Change {
	if v.foreign == nil {
		v.foreign = map[string]bool{}
	}
	v.foreign[northbound.SwitchID(node)], v.foreign[northbound.GatewayID(node)] = true, true
	r := northbound.Extend(ovsdb.Change{Owner: change.Owner, Memberships: inAddressSets(change), With: change.With})
	number := v.Number(node)
	if number == 0 || len(change.Rows) == 0 {
		return r.Change
	}
	n := NodeOf(change)
	at, out := v.Address(number), sendingRouterPort
	port := &nb.LogicalSwitchPort{Name: contract.TransitPort(node), Type: "remote",
		Addresses: []string{northbound.PortAddresses([]netip.Addr{at})}, Options: tunnelKey(number)}
	port.Options["requested-chassis"] = n.Chassis
	port.ExternalIDs = map[string]string{}
	if end, ok := v.TunnelEnd(node); ok { // the remote chassis is made by it
		port.ExternalIDs[contract.TunnelAddressesKey] = end.String()
	}
	if n.Gateway != nil {
		port.ExternalIDs[contract.RemoteGatewayKey] = records.FormatGateway(n.Gateway)
	}
	r.SwitchPort(transitID, "transit", port)
	ways := slices.Clone(n.Subnets)
	for _, join := range n.Joins { // answers to what its gateway router has sent
		ways = append(ways, single(join.Addr()))
	}
	for _, prefix := range ways {
		r.Route(northbound.ClusterRouterID, "zones/"+prefix.String(), &nb.LogicalRouterStaticRoute{
			IPPrefix: prefix.String(), Nexthop: at.String(), OutputPort: &out,
			// It counts in the route tables of all nodes, too, which have their default routes.
			Options: map[string]string{"origin": "connected"}})
	}
	return r.Change
}

// withoutForeign leaves out what is on foreign nodes' switches and gateway routers. Of a pod there, the sets of
// addresses remain.
func (v *View) withoutForeign(change ovsdb.Change) ovsdb.Change {
	foreign := func(m ovsdb.Membership) bool { return v.foreign[m.UUID] }
	if !slices.ContainsFunc(change.Memberships, foreign) {
		return change
	}
	if word, _ := part.Split(change.Owner); word == podWord {
		return ovsdb.Change{Owner: change.Owner, Memberships: inAddressSets(change), With: change.With}
	}
	change.Memberships = slices.DeleteFunc(slices.Clone(change.Memberships), foreign)
	return change
}

func inAddressSets(change ovsdb.Change) []ovsdb.Membership {
	return slices.DeleteFunc(slices.Clone(change.Memberships), func(m ovsdb.Membership) bool {
		return m.Table != nb.AddressSetTable
	})
}
