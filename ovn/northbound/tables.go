package northbound

import (
	"maps"
	"net"
	"net/netip"
	"strings"

	libovsdb "github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovsdb"
)

// Tables are the Northbound tables that weft writes, with the columns it manages there. All others,
// and all other columns (a load balancer's health checks, a port's DHCP options), are the operator's.
var Tables = []ovsdb.Table{
	{Model: &nb.LogicalRouter{}, Columns: []string{"name", "options", "load_balancer_group"},
		Sets: []string{"ports", "static_routes", "policies", "nat", "load_balancer"}},
	{Model: &nb.LogicalRouterPort{}, Columns: []string{"name", "mac", "networks", "options", "ha_chassis_group"},
		Read: []string{"status"}},
	{Model: &nb.StaticMACBinding{}, Columns: []string{"logical_port", "ip", "mac", "override_dynamic_mac"},
		Label: "logical_port", Prefix: routerPortPrefix},
	{Model: &nb.LogicalRouterStaticRoute{}, Columns: []string{"ip_prefix", "nexthop", "output_port", "route_table",
		"options"}},
	{Model: &nb.LogicalRouterPolicy{}, Columns: []string{"priority", "match", "action", "nexthops"}},
	{Model: &nb.HAChassisGroup{}, Columns: []string{"name"}, Sets: []string{"ha_chassis"}},
	{Model: &nb.HAChassis{}, Columns: []string{"chassis_name", "priority"}},
	{Model: &nb.QoS{}, Columns: []string{"direction", "priority", "match", "action"}},
	{Model: &nb.AddressSet{}, Columns: []string{"name"}, Sets: []string{"addresses"}},
	{Model: &nb.NAT{}, Columns: []string{"type", "external_ip", "logical_ip", "match"}},
	{Model: &nb.ChassisTemplateVar{}, Columns: []string{"chassis", "variables"}},
	{Model: &nb.LogicalSwitch{}, Columns: []string{"name", "load_balancer_group", "other_config"},
		Sets: []string{"ports", "load_balancer", "qos_rules", "acls"}},
	{Model: &nb.LogicalSwitchPort{}, Columns: []string{"name", "type", "addresses", "port_security", "options"}},
	{Model: &nb.LoadBalancerGroup{}, Columns: []string{"name"}, Sets: []string{"load_balancer"}},
	{Model: &nb.PortGroup{}, Columns: []string{"name"}, Sets: []string{"ports", "acls"}},
	{Model: &nb.ACL{}, Columns: []string{"name", "direction", "priority", "tier", "match", "action", "options", "log",
		"severity", "meter"}},
	{Model: &nb.Meter{}, Columns: []string{"name", "unit", "fair", "bands"}},
	{Model: &nb.MeterBand{}, Columns: []string{"action", "rate"}},
	{Model: &nb.LoadBalancer{}, Columns: []string{"name", "protocol", "vips", "options", "selection_fields"}},
}

// routerPortPrefix begins the names of weft's router ports: "rto" and what they lead to.
const routerPortPrefix = "rto"

// Builder collects what an owner must have.
type Builder struct {
	ovsdb.Change
	columns map[memberOf]int // of Memberships, once there is one to be found
}

// memberOf is a set column of a row.
type memberOf struct{ uuid, column string }

func NewBuilder(owner ovsdb.Owner) *Builder { return Extend(ovsdb.Change{Owner: owner}) }

// Extend adds to a change.
func Extend(change ovsdb.Change) *Builder { return &Builder{Change: change} }

// Add puts a row and returns its UUID.
func (b *Builder) Add(table, key string, m libovsdb.Model) (uuid string) {
	b.Rows = append(b.Rows, ovsdb.Row{Key: key, Model: m})
	return ovsdb.ID(table, b.Owner, key)
}

// Member puts values into a set column of a row, be it the owner's own or another's.
func (b *Builder) Member(table, uuid, column string, values ...string) {
	if b.columns == nil {
		b.columns = make(map[memberOf]int, len(b.Memberships))
		for i, m := range b.Memberships {
			b.columns[memberOf{m.UUID, m.Column}] = i
		}
	}
	of := memberOf{uuid, column}
	if i, ok := b.columns[of]; ok {
		b.Memberships[i].Values = append(b.Memberships[i].Values, values...)
		return
	}
	b.columns[of] = len(b.Memberships)
	b.Memberships = append(b.Memberships, ovsdb.Membership{Table: table, UUID: uuid, Column: column, Values: values})
}

func (b *Builder) LogicalSwitch(key, name string, groups ...string) (uuid string) {
	return b.Add(nb.LogicalSwitchTable, key, &nb.LogicalSwitch{Name: name, LoadBalancerGroup: groups})
}

// SwitchPort puts a port on a switch.
func (b *Builder) SwitchPort(switchID, key string, port *nb.LogicalSwitchPort) {
	b.Member(nb.LogicalSwitchTable, switchID, "ports", b.Add(nb.LogicalSwitchPortTable, key, port))
}

// NeighbourAge is for how many seconds a router remembers a neighbour. Since OVN 23.09 that is after the last packet of
// the neighbour's own; before, it asks again after that time.
const NeighbourAge = "300"

// LogicalRouter makes a router. Many gateway routers on the join switch ask for each other's neighbours: what is not
// for a router it need not remember. All routers forget in time, or what a stolen node has made of neighbours would
// stay; and of several releases of OVN no router forgets if one does not.
func (b *Builder) LogicalRouter(key, name string, options map[string]string) (uuid string) {
	all := map[string]string{"always_learn_from_arp_request": "false", "mac_binding_age_threshold": NeighbourAge}
	maps.Copy(all, options)
	return b.Add(nb.LogicalRouterTable, key, &nb.LogicalRouter{Name: name, Options: all})
}

// Link joins a router with a switch: a port on each, which know of each other by name.
func (b *Builder) Link(key, routerID, switchID string, port *nb.LogicalRouterPort, switchPort string,
	options map[string]string) {
	b.Member(nb.LogicalRouterTable, routerID, "ports", b.Add(nb.LogicalRouterPortTable, key, port))
	all := map[string]string{"router-port": port.Name}
	for k, v := range options {
		all[k] = v
	}
	b.SwitchPort(switchID, key, &nb.LogicalSwitchPort{Name: switchPort, Type: "router", Addresses: []string{"router"},
		Options: all})
}

func (b *Builder) Route(routerID, key string, route *nb.LogicalRouterStaticRoute) {
	b.Member(nb.LogicalRouterTable, routerID, "static_routes", b.Add(nb.LogicalRouterStaticRouteTable, key, route))
}

// Neighbour is one that a router port knows for good. Whatever is said there of its MAC address does not count.
func (b *Builder) Neighbour(port string, at netip.Addr, mac net.HardwareAddr) {
	b.Add(nb.StaticMACBindingTable, "neighbour/"+port+"/"+at.String(),
		&nb.StaticMACBinding{LogicalPort: port, IP: at.String(), MAC: mac.String(), OverrideDynamicMAC: true})
}

func (b *Builder) Policy(routerID, key string, policy *nb.LogicalRouterPolicy) {
	b.Member(nb.LogicalRouterTable, routerID, "policies", b.Add(nb.LogicalRouterPolicyTable, key, policy))
}

// Model is the row of a key that was added before.
func Model[T any](b *Builder, key string) *T {
	for i := range b.Rows {
		if row, ok := b.Rows[i].Model.(*T); ok && b.Rows[i].Key == key {
			return row
		}
	}
	return nil
}

// RouterPort is a router port whose hardware address follows from its addresses.
func RouterPort(name string, addresses []netip.Prefix) *nb.LogicalRouterPort {
	return &nb.LogicalRouterPort{Name: name, MAC: contract.MAC(contract.Addrs(addresses)...).String(),
		Networks: ipam.Texts(addresses)}
}

// Match is an OVN match of one side ("src" or "dst") of an IP packet.
func Match(side string, p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip4." + side + " == " + p.String()
	}
	return "ip6." + side + " == " + p.String()
}

// AddressSet is those of a family as a match has them, "" if there is none.
func AddressSet(all []netip.Addr, ipv4 bool) string {
	var list []string
	for _, addr := range all {
		if addr.Is4() == ipv4 {
			list = append(list, addr.String())
		}
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// PortAddresses is the value of a switch port's addresses and port_security.
func PortAddresses(addrs []netip.Addr) string {
	text := contract.MAC(addrs...).String()
	for _, addr := range addrs {
		text += " " + addr.String()
	}
	return text
}

// Everything is the prefix of all addresses of addr's family.
func Everything(addr netip.Addr) string {
	if addr.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}
