package bench

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/bench/load"
)

// zonesVariable has pairs: the nodes of the own zone, and those of all others; 100,900,250,750
const zonesVariable = "WEFT_BENCH_ZONES"

// Bounds of what another zone costs.
const (
	aimForeignNodeFlows             = 20
	aimNorthdForeignPodMilliseconds = 20
)

// BenchmarkZones is the gauge of a zone, see docs/zones.md. Weft has no zones: the rows of own nodes and pods are those
// of the translation, as in BenchmarkScale, and those between zones are written here. Beside each zone is a cluster
// that has its nodes alone. The node reads all of the Southbound.
func BenchmarkZones(b *testing.B) {
	var r report
	sizes, shared := numbers(b, zonesVariable, "100,900,250,750"), sharedNumbers(b)
	if len(sizes)%2 != 0 {
		b.Fatalf("%s: needs pairs of numbers, of own and of foreign nodes", zonesVariable)
	}
	const all = "true" // the value of ovn-monitor-all
	for size := range slices.Chunk(sizes, 2) {
		own, foreign := size[0], size[1]
		alone := scaleScenario(own)
		measureScale(b, &r, alone, &largeCluster{load: large(own, shared)}, all)
		beside := fmt.Sprintf("%s beside %d", alone, foreign)
		measureScale(b, &r, beside, &largeCluster{load: large(own+foreign, shared), zone: newZone(own, foreign)}, all)
		r.growScale(alone, beside, all)
	}
	r.publish(b)
	r.print(os.Stdout)
}

// zone is the part of a cluster's nodes that one Northbound has. It makes the zone's rows of the whole cluster's. Of
// the methods that say so, those of a nil zone are about a cluster without zones.
type zone struct {
	own, all      int // how many nodes it has, and how many there are
	number        int // its own, beyond those of nodes; those of the other zones come after it
	transit, join netip.Prefix
	foreign       map[string]bool // the switches of foreign nodes by UUID
}

const (
	transitSwitch = "ts"
	// transitKey is the key of the transit switch's datapath, beyond those that northd gives.
	transitKey = 16711683
	// Ports of the zone itself, by which its packets enter the transit switch.
	sendingRouterPort, sendingSwitchPort = "rtots", "tstor"
)

var transitSwitchID = ovsdb.ID(nb.LogicalSwitchTable, northbound.ClusterOwner, transitSwitch)

func newZone(own, foreign int) *zone {
	z := &zone{own: own, all: own + foreign, transit: netip.MustParsePrefix("100.88.0.0/16"), foreign: map[string]bool{}}
	most := z.all + eventRounds // events make further ones
	z.number = most + 1
	for i := range most {
		if !z.has(i) {
			z.foreign[northbound.SwitchID(load.NodeName(i))] = true
		}
	}
	return z
}

// has says whether node i is in the zone. Own nodes are spread, so that as many of them are Windows nodes as of all.
// The first node is one of them.
func (z *zone) has(i int) bool { return z == nil || i < z.all && i*z.own%z.all < z.own }

// others is how many zones there are besides, if they are as large.
func (z *zone) others() int { return (z.all - 1) / z.own }

// foreignNode is the i-th node of other zones.
func (z *zone) foreignNode(i int) int {
	for node := range z.all {
		if !z.has(node) {
			if i == 0 {
				return node
			}
			i--
		}
	}
	panic(fmt.Sprintf("there are not so many foreign nodes: %d too few", i+1))
}

func (z *zone) begin(b *testing.B, config settings.Config) {
	b.Helper()
	s, err := config.Settings()
	if err != nil {
		b.Fatal(err)
	}
	z.join = s.Joins[0]
}

// chassisSettings are those that a node of a zone has besides.
func (z *zone) chassisSettings() []string {
	if z == nil {
		return nil
	}
	return []string{"external_ids:ovn-is-interconn=true"}
}

// rows are what the zone has of a cluster's.
func (z *zone) rows(changes []ovsdb.Change) []ovsdb.Change {
	if z == nil {
		return changes
	}
	list := make([]ovsdb.Change, len(changes))
	for i, change := range changes {
		node, isNode := strings.CutPrefix(string(change.Owner), string(northbound.NodeOwner("")))
		switch {
		case change.Owner == northbound.ClusterOwner:
			list[i] = z.cluster(change)
		case isNode && z.foreign[northbound.SwitchID(node)]:
			list[i] = z.ofForeignNode(node, change)
		case isNode:
			list[i] = z.ofOwnNode(node, change)
		case slices.ContainsFunc(change.Memberships, func(m ovsdb.Membership) bool { return z.foreign[m.UUID] }):
			list[i] = ovsdb.Change{Owner: change.Owner, Memberships: inAddressSets(change), With: change.With}
		default:
			list[i] = change
		}
	}
	return list
}

// copied may be added to: the translation keeps the original.
func copied(change ovsdb.Change) ovsdb.Change {
	change.Rows, change.Memberships = slices.Clone(change.Rows), slices.Clone(change.Memberships)
	for i := range change.Memberships {
		change.Memberships[i].Values = slices.Clone(change.Memberships[i].Values)
	}
	return change
}

func inAddressSets(change ovsdb.Change) []ovsdb.Membership {
	return slices.DeleteFunc(slices.Clone(change.Memberships), func(m ovsdb.Membership) bool {
		return m.Table != nb.AddressSetTable
	})
}

// cluster is the transit switch, with the port by which the own router sends, and those by which other zones do.
func (z *zone) cluster(change ovsdb.Change) ovsdb.Change {
	change = copied(change)
	for i, row := range change.Rows {
		if router, ok := row.Model.(*nb.LogicalRouter); ok && row.Key == "cluster" {
			options := maps.Clone(router.Options)
			options["dynamic_neigh_routers"] = "true"
			dynamic := *router
			dynamic.Options = options
			change.Rows[i].Model = &dynamic
		}
	}
	r := northbound.Extend(change)
	r.LogicalSwitch(transitSwitch, transitSwitch)
	northbound.Model[nb.LogicalSwitch](r, transitSwitch).OtherConfig = map[string]string{"interconn-ts": transitSwitch,
		"requested-tnl-key": strconv.Itoa(transitKey)}
	r.Link("transit", northbound.ClusterRouterID, transitSwitchID, northbound.RouterPort(sendingRouterPort,
		[]netip.Prefix{netip.PrefixFrom(z.address(z.number), z.transit.Bits())}), sendingSwitchPort, tunnelKey(z.number))
	for i := range z.others() {
		name := foreignSendingPort(i)
		r.SwitchPort(transitSwitchID, name, &nb.LogicalSwitchPort{Name: name, Type: "remote",
			Options: tunnelKey(z.foreignNumber(i))})
	}
	return r.Change
}

// foreignSendingPort is the port by which packets of the i-th other zone enter the transit switch.
func foreignSendingPort(i int) string { return fmt.Sprintf("%s@z%d", sendingSwitchPort, i+1) }

func (z *zone) foreignNumber(i int) int { return z.number + 1 + i }

func tunnelKey(number int) map[string]string {
	return map[string]string{"requested-tnl-key": strconv.Itoa(number)}
}

// address is that of a node or a zone on the transit switch.
func (z *zone) address(number int) netip.Addr { return ipam.Nth(z.transit, uint64(number)) }

// linked is what the zones know of a node from its record, which is read here from its rows.
type linked struct {
	number  int
	join    netip.Addr   // of its gateway router
	router  string       // the hardware address of its port there
	subnet  netip.Prefix // of its pods
	chassis string
}

func (z *zone) linkedOf(change ovsdb.Change) (n linked) {
	for _, row := range change.Rows {
		switch m := row.Model.(type) {
		case *nb.HAChassis:
			n.chassis = m.ChassisName
		case *nb.LogicalRouterPort:
			address := netip.MustParsePrefix(m.Networks[0])
			switch row.Key {
			case "join":
				n.join, n.router = address.Addr(), m.MAC
				for n.number = 1; settings.JoinAddress(z.join, n.number) != n.join; n.number++ {
				}
			case "switch":
				n.subnet = address.Masked()
			}
		}
	}
	return n
}

// ofOwnNode adds the port by which packets of other zones come.
func (z *zone) ofOwnNode(node string, change ovsdb.Change) ovsdb.Change {
	n := z.linkedOf(change)
	r := northbound.Extend(copied(change))
	r.Link("transit", northbound.ClusterRouterID, transitSwitchID, northbound.RouterPort("rtots-"+node,
		[]netip.Prefix{single(z.address(n.number))}), nodePort(node), tunnelKey(n.number))
	r.Add(nb.StaticMACBindingTable, "neighbour", &nb.StaticMACBinding{LogicalPort: "rtoj-cluster", IP: n.join.String(),
		MAC: n.router, OverrideDynamicMAC: true})
	return r.Change
}

// nodePort is a node's port of the transit switch.
func nodePort(node string) string { return "tstor-" + node }

func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// ofForeignNode is the way to it.
func (z *zone) ofForeignNode(node string, change ovsdb.Change) ovsdb.Change {
	n := z.linkedOf(change)
	r := northbound.Extend(ovsdb.Change{Owner: change.Owner, Memberships: inAddressSets(change), With: change.With})
	options := tunnelKey(n.number)
	options["requested-chassis"] = n.chassis
	r.SwitchPort(transitSwitchID, "transit", &nb.LogicalSwitchPort{Name: nodePort(node), Type: "remote",
		Addresses: []string{northbound.PortAddresses([]netip.Addr{z.address(n.number)})}, Options: options})
	out := sendingRouterPort
	for _, prefix := range []netip.Prefix{n.subnet, single(n.join)} {
		r.Route(northbound.ClusterRouterID, "zones/"+prefix.String(), &nb.LogicalRouterStaticRoute{
			IPPrefix: prefix.String(), Nexthop: z.address(n.number).String(), OutputPort: &out,
			Options: map[string]string{"origin": "connected"}})
	}
	return r.Change
}

// addRemoteChassis adds the chassis of a foreign node.
func (c *largeCluster) addRemoteChassis(b *testing.B, nodes ...int) {
	b.Helper()
	client := dialBare(b, c.sb.remote, "OVN_Southbound")
	defer client.conn.Close()
	var operations []any
	for _, i := range nodes {
		encap := fmt.Sprint("encap", i)
		operations = append(operations, map[string]any{"op": "insert", "table": "Encap", "uuid-name": encap,
			"row": map[string]any{"type": "geneve", "ip": load.NodeAddress(i).String(), "chassis_name": load.Chassis(i),
				"options": ovsdbMap(map[string]string{"csum": "true"})}},
			map[string]any{"op": "insert", "table": "Chassis", "row": map[string]any{"name": load.Chassis(i),
				"hostname": load.NodeName(i), "encaps": []string{"named-uuid", encap},
				"other_config": ovsdbMap(map[string]string{"is-remote": "true"})}})
	}
	client.transact(b, operations)
}

// nodesHere and pods are how many the databases have.
func (c *largeCluster) nodesHere() int {
	if c.zone == nil {
		return c.load.Nodes
	}
	return c.zone.own
}

func (c *largeCluster) pods() int { return podsPerNode * c.nodesHere() }

// foreignEvents are changes in other zones. Their pods are like those that there are.
func (c *largeCluster) foreignEvents(b *testing.B) []event {
	return []event{
		{name: "a foreign pod", northdMilliseconds: aimNorthdForeignPodMilliseconds, make: func(i int) k8sruntime.Object {
			pod := c.load.Pod(c.load.Pods + i)
			pod.Spec.NodeName = load.NodeName(c.zone.foreignNode(0))
			return pod
		}},
		{name: "a foreign node", flows: aimForeignNodeFlows, settle: func() { c.awaitTunnels(b, c.zone.all+eventRounds-1) },
			make: func(i int) k8sruntime.Object {
				i += c.zone.all
				c.addRemoteChassis(b, i)
				return c.load.Node(i)
			}},
	}
}
