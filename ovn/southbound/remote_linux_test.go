package southbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/transcript"
)

// keepRemotes has a guard keep remote chassis until the end.
func keepRemotes(t testing.TB, r *replica, log io.Writer) *remotes {
	k := newRemotes(r, log)
	k.start(t)
	return k
}

func newRemotes(r *replica, log io.Writer) *remotes {
	return &remotes{replica: r, kept: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kept"}),
		log: slog.New(slog.NewTextHandler(log, nil))}
}

// start has it look until the end.
func (k *remotes) start(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { k.run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
}

// sbctl asks the server itself, by names.
func (s *southbound) sbctl(command string) string {
	s.Helper()
	return ovsdbtest.Run(s, "ovn-sbctl", append([]string{"--db=" + s.server.Endpoint, "--no-leader-only"},
		strings.Fields(s.names.Replace(command))...)...)
}

// foreign is a command that makes the port of a node of another zone.
func foreign(node, chassis, addresses string) string {
	return fmt.Sprintf(`create Port_Binding datapath={datapath of rtos-l1} tunnel_key=%d type=remote logical_port=%s `+
		`options:requested-chassis="%s" external_ids:weft.net/tunnel-addresses="%s" `,
		100+keyOf(node), contract.TransitPort(node), chassis, addresses)
}

// keyOf is a node's, by the number in its name.
func keyOf(node string) (key int) {
	_, _ = fmt.Sscanf(strings.TrimLeft(node, "abcdefghijklmnopqrstuvwxyz-"), "%d", &key)
	return key
}

// seen is a chassis as the replica has it.
func (r *replica) seen(name string) string {
	row := r.ports().chassis[name]
	if row == nil {
		return "none"
	}
	var ends []string
	for _, id := range row.Encaps {
		if encap, ok := ovsdb.Get[sb.Encap](r.Client, id); ok {
			ends = append(ends, fmt.Sprint(encap.Type, " ", encap.IP, " ", encap.ChassisName, " ", encap.Options))
		}
	}
	slices.Sort(ends)
	return fmt.Sprint(row.Hostname, " ", row.OtherConfig, " ", row.ExternalIDs, " ", strings.Join(ends, ", "))
}

// remote is how a remote chassis of Weft is seen.
func remote(node, chassis string, addresses ...string) string {
	var ends []string
	for _, address := range addresses {
		ends = append(ends, fmt.Sprintf("geneve %s %s map[csum:true]", address, chassis))
	}
	slices.Sort(ends)
	return fmt.Sprintf("%s map[is-remote:true] map[%s:%s] %s", node, contract.RemoteNodeKey, node,
		strings.Join(ends, ", "))
}

// untilSeen waits until a chassis is seen as it is to be.
func (s *southbound) untilSeen(r *replica, chassis, as string) {
	s.Helper()
	var was string
	defer func() {
		if was != as {
			s.Logf("chassis %s is %s\nwant %s", chassis, was, as)
		}
	}()
	s.until("chassis "+chassis+" is not as it is to be", func() bool {
		was = r.seen(chassis)
		return was == as
	})
}

// portOf is a node's on the transit switch.
func (r *replica) portOf(node string) *sb.PortBinding {
	return r.ports().named[contract.TransitPort(node)]
}

// synced has the replica have all that the server has.
func (s *southbound) synced() *replica {
	s.Helper()
	if err := s.guard.replica.Sync(s.Context()); err != nil {
		s.Fatal(err)
	}
	return s.guard.replica
}

// TestRemoteChassisFollowPorts: a node of another zone has a remote chassis here as long as it has its port, which
// says what the chassis is like. Other chassis stay as they are.
func TestRemoteChassisFollowPorts(t *testing.T) {
	s := newSouthbound(t)
	r := s.guard.replica
	s.sbctl(`--id=@e create Encap chassis_name=l7 type=geneve ip=192.0.2.77
		-- create Chassis name=l7 hostname=l7 encaps=@e other_config:is-remote=true`)
	s.until("the replica lacks a chassis", func() bool { return r.hasChassis("l7", true) })
	others := func() string { return r.seen("l1") + "\n" + r.seen("l2") + "\n" + r.seen("l7") }
	before := others()
	k := keepRemotes(t, r, t.Output())

	s.sbctl(foreign("l9", "l9", "192.0.2.9,2001:db8::9"))
	s.untilSeen(r, "l9", remote("l9", "l9", "192.0.2.9", "2001:db8::9"))
	first := r.ports().chassis["l9"].UUID
	s.sbctl("set Port_Binding tstor-l9 chassis=" + first) // as ovn-northd does
	s.until("the gauge is wrong", func() bool { return gauge(t, k.kept) == 1 })

	s.sbctl(`set Port_Binding tstor-l9 external_ids:weft.net/tunnel-addresses="198.18.0.9"`)
	s.untilSeen(r, "l9", remote("l9", "l9", "198.18.0.9"))
	if port := r.portOf("l9"); port.Chassis == nil || *port.Chassis != first || r.ports().chassis["l9"].UUID != first {
		t.Error("with another address it is another chassis, and its port is bound to none")
	}
	for _, damage := range []string{"set Chassis l9 hostname=l1", "set Chassis l9 other_config:datapath-type=netdev",
		"set Chassis l9 external_ids:weft.net/remote-node=l1", "set Encap 198.18.0.9 options:dst_port=53",
		"set Encap 198.18.0.9 type=vxlan", "set Encap 198.18.0.9 chassis_name=l1"} {
		encap := strings.TrimSpace(s.sbctl("--bare --columns=_uuid find Encap ip=198.18.0.9"))
		s.sbctl(strings.Replace(damage, "198.18.0.9", encap, 1))
		s.synced()
		s.untilSeen(r, "l9", remote("l9", "l9", "198.18.0.9"))
	}
	s.sbctl("set Port_Binding tstor-l9 options:requested-chassis=c9")
	s.untilSeen(r, "c9", remote("l9", "c9", "198.18.0.9"))
	s.untilSeen(r, "l9", "none")
	s.sbctl(foreign("l8", "l8", "192.0.2.8") + "-- destroy Port_Binding tstor-l9")
	s.untilSeen(r, "l8", remote("l8", "l8", "192.0.2.8"))
	s.untilSeen(r, "c9", "none")
	s.sbctl(`remove Port_Binding tstor-l8 external_ids weft.net/tunnel-addresses`)
	s.untilSeen(r, "l8", "none")
	s.until("the gauge is wrong", func() bool { return gauge(t, k.kept) == 0 })
	if after := others(); after != before {
		t.Errorf("other chassis were\n%s\nand are\n%s", before, after)
	}
	if left := s.sbctl("--bare --columns=chassis_name list Encap"); strings.ContainsAny(left, "89") {
		t.Errorf("tunnels are left: %s", left)
	}
}

// gauge is the value of one.
func gauge(t *testing.T, g prometheus.Gauge) float64 {
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

// TestRemoteChassisTakeNothing: no node of another zone gets the chassis or the address of somebody else, and the log
// says so.
func TestRemoteChassisTakeNothing(t *testing.T) {
	s := newSouthbound(t)
	s.sbctl(`--id=@e create Encap chassis_name=l7 type=geneve ip=192.0.2.77
		-- create Chassis name=l7 hostname=l7 encaps=@e other_config:is-remote=true
		-- --id=@f create Encap chassis_name=l6 type=geneve ip=192.0.2.66 -- create Chassis name=l6 encaps=@f`)
	for _, c := range []struct{ node, chassis, addresses, refused string }{
		{"l11", "l2", "192.0.2.11", "chassis l2 is that of a node of this zone"},
		{"l12", "l7", "192.0.2.12", "an administrator has made a remote chassis l7"},
		{"l7", "l7", "192.0.2.12", "an administrator has made a remote chassis l7"},
		{"l13", "l6", "192.0.2.13", "chassis l6 is not remote"},
		{"l14", "l14,l1", "192.0.2.14", "several chassis"},
		{"l15", "l15", "192.0.2.1", "tunnel address 192.0.2.1 is one of Node l1 of this zone"},
		{"l16", "l16", "2001:db8::2", "tunnel address 2001:db8::2 is one of Node l2 of this zone"}, // no tunnel has it yet
		{"l17", "l17", "192.0.2.66", "tunnel address 192.0.2.66 is that of chassis l6"},
		{"l18", "l18", "192.0.2.77", "tunnel address 192.0.2.77 is that of chassis l7"},
		{"l19", "l19", "flow", `tunnel address "flow" is no unicast address`},
		{"l20", "l20", "224.0.0.20", "no unicast address"},
		{"l21", "l21", "::ffff:192.0.2.21", "no unicast address"},
		{"l22", "l22", "2001:DB8::22", "no unicast address"},
		{"l2", "l2", "192.0.2.2", ""}, // it is of this zone
		{"l2", "c2", "192.0.2.23", ""},
		{"l24", "", "192.0.2.24", ""}, // the controller does not know them yet
		{"l25", "l25", "", ""},
	} {
		s.sbctl(foreign(c.node, c.chassis, c.addresses))
		plan := s.synced().planRemotes()
		if len(plan.changes) > 0 || !strings.Contains(strings.Join(plan.problems[c.node], "; "), c.refused) ||
			(len(plan.problems) > 0) != (c.refused != "") {
			t.Errorf("%s: %d changes, problems %q; want %q", c.node, len(plan.changes), plan.problems[c.node], c.refused)
		}
		s.sbctl("destroy Port_Binding " + contract.TransitPort(c.node))
	}

	// One of two addresses is refused, and of two nodes one gets what both ask for. The log has each problem once.
	var log transcript.Transcript
	r := s.guard.replica
	keepRemotes(t, r, &log)
	s.sbctl(foreign("l31", "l31", "192.0.2.31,192.0.2.1"))
	s.untilSeen(r, "l31", remote("l31", "l31", "192.0.2.31"))
	s.sbctl(foreign("l30", "l30", "192.0.2.31") + "-- " + foreign("l32", "l31", "192.0.2.32") + "-- " +
		foreign("l33", "l33", "192.0.2.33,192.0.2.33"))
	s.untilSeen(r, "l33", remote("l33", "l33", "192.0.2.33"))
	for _, problem := range []string{"object=Node/l31 problem=\"tunnel address 192.0.2.1 is one of Node l1",
		"object=Node/l30 problem=\"tunnel address 192.0.2.31 is that of Node l31 of another zone, too\"",
		"object=Node/l32 problem=\"chassis l31 is that of Node l31 of another zone, too\""} {
		if strings.Count(log.String(), problem) != 1 {
			t.Errorf("not once in the log: %s\n%s", problem, log.String())
		}
	}
	if was := r.seen("l31"); was != remote("l31", "l31", "192.0.2.31") {
		t.Errorf("l31 has lost what others ask for: %s", was)
	}
	// What it gives up the next one gets.
	s.sbctl("destroy Port_Binding tstor-l31")
	s.untilSeen(r, "l30", remote("l30", "l30", "192.0.2.31"))
	s.untilSeen(r, "l31", remote("l32", "l31", "192.0.2.32"))
	// A node of this zone gets an address that one of another zone has.
	s.sbctl(`set Port_Binding mgmt-l2 external_ids:weft.net/tunnel-addresses="192.0.2.2,192.0.2.32"`)
	s.untilSeen(r, "l31", "none")
}

// TestRemoteChassisExchangeAddresses: an address that a node has given up another one may have, also by a cycle, and
// however few chassis a transaction is about.
func TestRemoteChassisExchangeAddresses(t *testing.T) {
	s := newSouthbound(t)
	r := s.guard.replica
	k := &remotes{replica: r, log: ovsdbtest.Logger(t)}
	look := func() int {
		changes := s.synced().planRemotes().changes
		if err := k.make(t.Context(), changes, 1); err != nil {
			t.Error(err)
		}
		return len(changes)
	}
	s.sbctl(foreign("l8", "l8", "192.0.2.8") + "-- " + foreign("l9", "l9", "192.0.2.9"))
	look()
	s.untilSeen(r, "l8", remote("l8", "l8", "192.0.2.8"))
	s.untilSeen(r, "l9", remote("l9", "l9", "192.0.2.9"))
	s.sbctl(`set Port_Binding tstor-l8 external_ids:weft.net/tunnel-addresses="192.0.2.9"
		-- set Port_Binding tstor-l9 external_ids:weft.net/tunnel-addresses="192.0.2.8"`)
	if removed, made := look(), look(); removed != 2 || made != 2 || look() != 0 {
		t.Errorf("%d and then %d changes", removed, made)
	}
	s.untilSeen(r, "l8", remote("l8", "l8", "192.0.2.9"))
	s.untilSeen(r, "l9", remote("l9", "l9", "192.0.2.8"))
}

// TestRemoteChassisOfANodeThatMoves: when a node goes to another zone a remote chassis takes the place of its own, and
// when it comes back its ovn-controller makes its own again.
func TestRemoteChassisOfANodeThatMoves(t *testing.T) {
	s := newSouthbound(t)
	s.guard.patience = 0
	r := s.guard.replica
	keepRemotes(t, r, t.Output())
	node := s.as("l2")
	asNode := func(command string) error {
		s.forgive()
		_, err := ovsdbtest.Try(t, "ovn-sbctl", append([]string{"--timeout=100", "--db=" + node},
			strings.Fields(s.names.Replace(command))...)...)
		return err
	}
	const makesChassis = "--id=@e create Encap chassis_name=l2 type=geneve ip=192.0.2.2 -- " +
		"create Chassis name=l2 hostname=l2 encaps=@e"
	// As long as it has its port, it is of this zone, whatever else there is.
	before := r.seen("l2")
	s.sbctl(foreign("l2", "l2", "192.0.2.2") + "-- " + foreign("l9", "l9", "192.0.2.9"))
	s.untilSeen(r, "l9", remote("l9", "l9", "192.0.2.9"))
	if after := r.seen("l2"); after != before {
		t.Errorf("it has its port, and its chassis was %s and is %s", before, after)
	}

	s.sbctl("destroy Port_Binding mgmt-l2")
	s.untilSeen(r, "l2", remote("l2", "l2", "192.0.2.2"))
	if left := s.sbctl("--bare --columns=name find Chassis_Private name=l2"); left != "" {
		t.Error("ovn-northd would wait for its Chassis_Private")
	}
	if err := asNode("create Chassis_Private name=l2"); err == nil || !strings.Contains(err.Error(), "mgmt-l2") {
		t.Errorf("it makes rows here: %v", err)
	}
	s.sbctl("create Chassis_Private name=l2") // by a guard that did not know it yet
	s.until("its Chassis_Private stays", func() bool {
		return s.sbctl("--bare --columns=name find Chassis_Private name=l2") == ""
	})

	const port = `create Port_Binding datapath={datapath of mgmt-l1} tunnel_key=2 logical_port=mgmt-l2 ` +
		`external_ids:weft.net/tunnel-addresses="192.0.2.2"`
	s.sbctl("set Port_Binding tstor-l2 type=patch -- " + port)
	s.untilSeen(r, "l2", "none")
	s.until("it makes no chassis", func() bool { return asNode(makesChassis) == nil })
	own := s.synced().seen("l2")
	s.sbctl("destroy Port_Binding tstor-l9") // another look
	s.untilSeen(r, "l9", "none")
	if after := r.seen("l2"); after != own || strings.Contains(own, remoteKey) {
		t.Errorf("its chassis was %s and is %s", own, after)
	}
}

// TestRemoteChassisOfThePast: what a guard decides by what is no longer so the server refuses, with all of the
// transaction. In smaller ones what is still so is made.
func TestRemoteChassisOfThePast(t *testing.T) {
	s := newSouthbound(t)
	s.sbctl(foreign("l9", "l9", "192.0.2.9"))
	k := &remotes{replica: s.guard.replica, log: ovsdbtest.Logger(t)}
	look := func() []remoteChange { return s.synced().planRemotes().changes }
	refused := func(what string, changes []remoteChange) {
		t.Helper()
		var refusal *ovsdb.OperationError
		before := s.sbctl("list Chassis") + s.sbctl("list Encap")
		if err := k.make(t.Context(), changes, remoteBatch); !errors.As(err, &refusal) {
			t.Errorf("%s: %v; want a refusal", what, err)
		}
		if after := s.sbctl("list Chassis") + s.sbctl("list Encap"); after != before {
			t.Errorf("%s changes chassis", what)
		}
	}
	for _, c := range []struct{ what, then, undo string }{
		{"a node that has come to this zone", "set Port_Binding tstor-l9 type=patch",
			"set Port_Binding tstor-l9 type=remote"},
		{"another address", `set Port_Binding tstor-l9 external_ids:weft.net/tunnel-addresses="192.0.2.8"`,
			`set Port_Binding tstor-l9 external_ids:weft.net/tunnel-addresses="192.0.2.9"`},
		{"another chassis", "set Port_Binding tstor-l9 options:requested-chassis=c9",
			"set Port_Binding tstor-l9 options:requested-chassis=l9"},
		{"another one's chassis", "--id=@e create Encap chassis_name=l9 type=geneve ip=192.0.2.99 -- " +
			"create Chassis name=l9 encaps=@e", "destroy Chassis l9"},
		{"another one's address", "--id=@e create Encap chassis_name=l5 type=geneve ip=192.0.2.9 -- " +
			"create Chassis name=l5 encaps=@e", "destroy Chassis l5"},
	} {
		changes := look()
		s.sbctl(c.then)
		refused(c.what, changes)
		s.sbctl(c.undo)
	}
	changes := look()
	s.sbctl("set Port_Binding tstor-l9 options:weft=1") // ovn-northd has marks of its own there
	if err := k.make(t.Context(), changes, remoteBatch); err != nil {
		t.Fatal(err)
	}
	refused("what another guard has done", changes)
	s.sbctl("destroy Port_Binding tstor-l9")
	changes = look()
	s.sbctl("set Chassis l9 other_config:x=y")
	refused("a chassis that is another one now", changes)

	s.sbctl(foreign("l8", "l8", "192.0.2.8") + "-- " + foreign("l10", "l10", "192.0.2.10"))
	changes = look()
	s.sbctl("destroy Port_Binding tstor-l8")
	refused("one of several", changes)
	if err := k.make(t.Context(), changes, 1); err == nil {
		t.Error("nobody hears that a change was not made")
	}
	if was := s.synced().seen("l10"); was != remote("l10", "l10", "192.0.2.10") {
		t.Errorf("one that is refused holds up the others: %s", was)
	}
}

// TestRemoteChassisOfANodeThatFlips: a stolen node of another zone that has its port changed again and again costs so
// many changes at once, and then one a minute. The other nodes lose nothing by it.
func TestRemoteChassisOfANodeThatFlips(t *testing.T) {
	s := newSouthbound(t)
	var log transcript.Transcript
	r := s.guard.replica
	k := newRemotes(r, &log)
	s.sbctl(foreign("l9", "l9", "192.0.2.9"))
	const flips = 100
	port, before, began := s.synced().portOf("l9").UUID, s.server.Transactions(), time.Now()
	for i := range flips {
		if _, err := r.Transact(t.Context(), libovsdb.Operation{Op: libovsdb.OperationUpdate, Table: sb.PortBindingTable,
			Where: withUUID(port), Row: libovsdb.Row{"external_ids": mapOf(map[string]string{
				contract.TunnelAddressesKey: zoneAddress(i + 1)})}}); err != nil {
			t.Fatal(err)
		}
		changes, again := k.pace(s.synced().planRemotes().changes)
		if err := k.make(t.Context(), changes, remoteBatch); err != nil {
			t.Fatal(err)
		}
		if i <= chassisBurst && (len(changes) != 1 || again > 0) || i == flips-1 && again == 0 {
			t.Fatalf("flip %d: %d changes, others %s later", i, len(changes), again)
		}
	}
	minutes := int(time.Since(began)/chassisTime) + 1
	if made := s.server.Transactions() - before - flips; made > chassisBurst+minutes {
		t.Errorf("%d flips make %d changes", flips, made)
	}
	if n := strings.Count(log.String(), "are changed"); n > linesEach*minutes {
		t.Errorf("%d lines in the log", n)
	}
	if n := strings.Count(log.String(), "often"); n != 1 || !strings.Contains(log.String(), "object=Node/l9") {
		t.Errorf("not once in the log: %s", log.String())
	}

	held := strings.TrimSpace(s.sbctl("--bare --columns=ip find Encap chassis_name=l9"))
	if minutes == 1 && held != zoneAddress(chassisBurst+1) {
		t.Errorf("its tunnel ends at %s, not at the last address in time", held)
	}
	// A node of this zone does not wait for an address that a node which is held back has still.
	s.sbctl(`set Port_Binding mgmt-l2 external_ids:weft.net/tunnel-addresses="` + held + `"`)
	changes, _ := k.pace(s.synced().planRemotes().changes)
	if len(changes) != 1 || changes[0].node != nil || changes[0].old.Name != "l9" {
		t.Errorf("it keeps an address of a node of this zone: %+v", changes)
	}

	k.start(t)
	s.sbctl(foreign("l8", "l8", "192.0.2.8"))
	s.untilSeen(r, "l8", remote("l8", "l8", "192.0.2.8"))
	// Its time comes, and nothing else does.
	limit := rate.NewLimiter(rate.Every(time.Second), 1)
	limit.ReserveN(time.Now(), 1)
	limit.ReserveN(time.Now(), 1)
	k.changed.mu.Lock()
	k.changed.of["l9"] = limit
	k.changed.mu.Unlock()
	s.sbctl("destroy Port_Binding tstor-l8")
	s.untilSeen(r, "l9", remote("l9", "l9", zoneAddress(flips)))
	s.sbctl("destroy Port_Binding tstor-l9")
	s.untilSeen(r, "l9", "none")
}

// transitPorts makes the ports of many nodes of another zone at once.
func (s *southbound) transitPorts(r *replica, nodes int) {
	s.Helper()
	operations := []libovsdb.Operation{{Op: libovsdb.OperationInsert, Table: sb.DatapathBindingTable, UUIDName: "ts",
		Row: libovsdb.Row{"tunnel_key": 100}}}
	for i := range nodes {
		node := fmt.Sprint("z", i)
		operations = append(operations, libovsdb.Operation{Op: libovsdb.OperationInsert, Table: sb.PortBindingTable,
			Row: libovsdb.Row{"datapath": libovsdb.UUID{GoUUID: "ts"}, "tunnel_key": i + 1, "type": "remote",
				"logical_port": contract.TransitPort(node), "options": mapOf(map[string]string{"requested-chassis": node}),
				"external_ids": mapOf(map[string]string{contract.TunnelAddressesKey: zoneAddress(i)})}})
	}
	if _, err := r.Transact(s.Context(), operations...); err != nil {
		s.Fatal(err)
	}
}

func zoneAddress(i int) string { return fmt.Sprintf("198.18.%d.%d", i>>8, i&255) }

// allRemote says whether all these nodes have their chassis.
func (r *replica) allRemote(nodes int) bool {
	for i := range nodes {
		if node := fmt.Sprint("z", i); r.seen(node) != remote(node, node, zoneAddress(i)) {
			return false
		}
	}
	return true
}

// TestRemoteChassisComeTogether: a thousand nodes cost a few transactions, and what does not concern them costs none.
func TestRemoteChassisComeTogether(t *testing.T) {
	s := newSouthbound(t)
	r := s.guard.replica
	const nodes = 1000
	s.transitPorts(r, nodes)
	before := s.server.Transactions()
	k := keepRemotes(t, r, t.Output())
	s.until("not all have a chassis", func() bool { return r.allRemote(nodes) })
	s.until("the gauge is wrong", func() bool { return gauge(t, k.kept) == nodes })
	if all := s.server.Transactions() - before; all > 1+nodes/remoteBatch {
		t.Errorf("%d transactions for %d nodes", all, nodes)
	}
	s.sbctl("create MAC_Binding logical_port=gw1 datapath={datapath of gw1} ip=192.0.2.99 mac=m")
	if plan := s.synced().planRemotes(); len(plan.changes) > 0 || len(plan.problems) > 0 {
		t.Errorf("%d changes and problems %v without need", len(plan.changes), plan.problems)
	}
}

// TestRemoteChassisWithoutAServer: the guard starts before its server, and outlives it.
func TestRemoteChassisWithoutAServer(t *testing.T) {
	g := newGate(t)
	r := g.guard.replica
	g.sbctl(foreign("l9", "l9", "192.0.2.9"))
	g.server.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, Config{Listen: []string{"127.0.0.1:0"}, Database: g.server.Endpoint,
			Certificate: g.files.Certificate, PrivateKey: g.files.Key, NodeCA: g.files.Authorities})
	}()
	for _, address := range []string{"192.0.2.9", "198.18.0.9"} {
		g.server.Start()
		g.sbctl(`set Port_Binding tstor-l9 external_ids:weft.net/tunnel-addresses="` + address + `"`)
		g.untilSeen(r, "l9", remote("l9", "l9", address))
		g.server.Kill()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestRemoteChassisByManyGuards: each member of a cluster has its guard. They make each chassis once, by the member
// that each of them has, and go on when one of the members is lost.
func TestRemoteChassisByManyGuards(t *testing.T) {
	database := ovsdbtest.Southbound(t)
	members := ovsdbtest.Cluster(t, database, 3)
	s := &southbound{TB: t}
	var guards []*replica
	for _, member := range members {
		guards = append(guards, &replica{Client: ovsdbtest.ConnectWith(t, ovsdb.Config{Endpoints: member.Endpoint,
			Model: database.Model, Tables: tables, AnyMember: true})})
		keepRemotes(t, guards[len(guards)-1], t.Output())
	}
	const nodes = 300
	s.transitPorts(guards[0], nodes)
	done := func(chassis int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(guards, func(r *replica) bool {
				return !r.allRemote(nodes) || len(ovsdb.List[sb.Encap](r.Client, nil)) != chassis ||
					len(r.planRemotes().changes) > 0
			})
		}
	}
	s.until("not all have a chassis", done(nodes))

	leader := ovsdbtest.Leader(t, database, members)
	lost := slices.Index(members, leader)
	leader.Kill()
	members, guards = slices.Delete(members, lost, lost+1), slices.Delete(guards, lost, lost+1)
	ovsdbtest.Leader(t, database, members)
	datapath := ovsdb.List[sb.DatapathBinding](guards[0].Client, nil)[0].UUID
	ovsdbtest.Run(t, "ovn-sbctl", append([]string{"--db=" + members[0].Endpoint, "--no-leader-only", "--timeout=100"},
		strings.Fields(strings.Replace(foreign("l9", "l9", "192.0.2.9"), "{datapath of rtos-l1}", datapath, 1)+
			" tunnel_key=1009")...)...)
	s.until("a new node has no chassis", func() bool {
		return done(nodes+1)() && guards[0].seen("l9") == remote("l9", "l9", "192.0.2.9")
	})
}

// TestRemoteChassisByNorthd: what the controller writes to the Northbound gets to where the guard looks, and ovn-northd
// binds the port to the chassis.
func TestRemoteChassisByNorthd(t *testing.T) {
	above, below := ovsdbtest.Northbound(t), ovsdbtest.Southbound(t)
	nb, server := ovsdbtest.Server(t, above), ovsdbtest.Server(t, below)
	ovsdbtest.Northd(t, nb, server)
	s := &southbound{TB: t}
	r := &replica{Client: ovsdbtest.Connect(t, below, server.Endpoint, tables...)}
	keepRemotes(t, r, t.Output())
	nbctl := func(command string) {
		ovsdbtest.Run(t, "ovn-nbctl", append([]string{"--db=" + nb.Endpoint}, strings.Fields(command)...)...)
	}
	nbctl(`ls-add ts -- set Logical_Switch ts other_config:interconn-ts=ts -- lsp-add ts tstor-l9
		-- lsp-set-type tstor-l9 remote -- lsp-set-options tstor-l9 requested-chassis=l9 requested-tnl-key=9
		-- set Logical_Switch_Port tstor-l9 external_ids:weft.net/tunnel-addresses="192.0.2.9"`)
	bound := func() bool {
		port := r.portOf("l9")
		return port != nil && r.is(port.Chassis, "l9")
	}
	s.untilSeen(r, "l9", remote("l9", "l9", "192.0.2.9"))
	s.until("the port is not bound to its chassis", bound)
	nbctl(`set Logical_Switch_Port tstor-l9 external_ids:weft.net/tunnel-addresses="192.0.2.8"`)
	s.untilSeen(r, "l9", remote("l9", "l9", "192.0.2.8"))
	if !bound() {
		t.Error("with another address the port is not bound")
	}
	nbctl("lsp-del tstor-l9")
	s.untilSeen(r, "l9", "none")
}

// TestRemoteChassisGetTunnels: ovn-controller makes a tunnel to the chassis that the guard has made.
func TestRemoteChassisGetTunnels(t *testing.T) {
	s := newSouthbound(t)
	keepRemotes(t, s.guard.replica, t.Output())
	s.sbctl(foreign("l9", "l9", "192.0.2.9") + "-- destroy Chassis_Private l2 -- destroy Chassis l2")
	vswitch := ovsdbtest.Server(t, ovsdbtest.OpenVSwitch(t))
	ovsdbtest.Run(t, "ovs-vsctl", "--db="+vswitch.Endpoint, "--no-wait", "init", "--", "set", "Open_vSwitch", ".",
		"external_ids:system-id=l2", "external_ids:hostname=l2", "external_ids:ovn-remote="+s.as("l2"),
		"external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=192.0.2.2",
		"external_ids:ovn-is-interconn=true", "--", "add-br", "br-int")
	ovsdbtest.Controller(t, vswitch)
	const id = "l9@192.0.2.9%192.0.2.2"
	s.until("there is no tunnel to the node of another zone", func() bool {
		return strings.Contains(ovsdbtest.Run(t, "ovs-vsctl", "--db="+vswitch.Endpoint, "--columns=external_ids", "list",
			"Port"), id)
	})
	options := ovsdbtest.Run(t, "ovs-vsctl", "--db="+vswitch.Endpoint, "--columns=options", "find", "Interface",
		"type=geneve", `options:remote_ip="192.0.2.9"`)
	if !strings.Contains(options, `csum="true"`) {
		t.Errorf("its options are %s", options)
	}
	s.sbctl("destroy Port_Binding tstor-l9")
	s.until("the tunnel stays", func() bool {
		return !strings.Contains(ovsdbtest.Run(t, "ovs-vsctl", "--db="+vswitch.Endpoint, "--columns=external_ids", "list",
			"Port"), id)
	})
}
