package bench

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/ovn/interconnect"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
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

// BenchmarkZones is the gauge of a zone, see docs/zones.md. No controller runs: rows of own nodes and pods are those
// of the translation, as in BenchmarkScale, of which package interconnect makes a zone's. Beside each zone is a cluster
// that has its nodes alone. The node reads all of the Southbound.
func BenchmarkZones(b *testing.B) {
	var r report
	sizes := numbers(b, zonesVariable, "100,900,250,750")
	if len(sizes)%2 != 0 {
		b.Fatalf("%s: needs pairs of numbers, of own and of foreign nodes", zonesVariable)
	}
	const all = "true" // the value of ovn-monitor-all
	for size := range slices.Chunk(sizes, 2) {
		own, foreign := size[0], size[1]
		alone := scaleScenario(own)
		measureScale(b, &r, alone, &largeCluster{load: large(b, own)}, all)
		beside := fmt.Sprintf("%s beside %d", alone, foreign)
		measureScale(b, &r, beside, &largeCluster{load: large(b, own+foreign), zone: newZone(own, foreign)}, all)
		r.growScale(alone, beside, all)
	}
	r.publish(b)
	r.print(os.Stdout)
}

// zone is the part of a cluster's nodes that one Northbound has. Of the methods that say so, those of a nil zone are
// about a cluster without zones.
type zone struct {
	*interconnect.View                // of the rows, once it has begun
	own, all           int            // how many nodes it has, and how many there are
	numbers            map[string]int // of nodes, as their rows have them
}

func newZone(own, foreign int) *zone {
	return &zone{own: own, all: own + foreign, numbers: map[string]int{}}
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
	config.Northbound = nil
	for i := range 1 + z.others() {
		config.Northbound = append(config.Northbound, fmt.Sprintf("z%d=unix:none", i))
	}
	s, err := config.Settings()
	if err != nil {
		b.Fatal(err)
	}
	foreign := map[string]bool{}
	for i := range z.all + eventRounds { // events make further ones
		foreign[load.NodeName(i)] = !z.has(i)
	}
	z.View = &interconnect.View{Settings: s, Zone: s.Zones[0],
		Foreign:   func(node string) bool { return foreign[node] },
		Number:    func(node string) int { return z.numbers[node] },
		TunnelEnd: func(string) (netip.Addr, bool) { return netip.Addr{}, false }} // see addRemoteChassis
}

// note finds a node's number in the address of its gateway router on the join switch.
func (z *zone) note(change ovsdb.Change) {
	word, node := part.Split(change.Owner)
	if joins := interconnect.NodeOf(change).Joins; word == objects.NodeKind.String() && len(joins) > 0 {
		at, _ := ipam.Offset(*ipam.Family(z.Settings.Joins, joins[0].Addr()), joins[0].Addr())
		z.numbers[node] = int(at) - 1 // as [settings.JoinAddress] has it
	}
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
	for _, change := range changes {
		z.note(change)
	}
	return z.Rows(changes)
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

func (c *largeCluster) pods() int { return c.load.Pods / c.load.Nodes * c.nodesHere() }

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
