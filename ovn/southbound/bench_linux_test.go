package southbound

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

var attackTime = flag.Duration("attack", time.Minute, "how long a stolen node attacks in BenchmarkUnderAttack")

// listeners are honest nodes that hear all.
const listeners = 16

// BenchmarkUnderAttack is how long honest nodes wait while a stolen one attacks, beside that without, in a
// Southbound of some 70 MB: one for writes that all nodes hear of, and others, which start, until they have read
// all. Ratios are of the same server and connection: what comes before and after the attack to what comes with it,
// of which the first seconds are the worst. The stolen node is a process of its own, and takes processors from the
// others.
func BenchmarkUnderAttack(b *testing.B) {
	for _, a := range attacks() {
		b.Run(strings.NewReplacer(" ", "-", ",", "").Replace(a.name), func(b *testing.B) {
			g := newGate(b)
			g.guard.log, g.guard.recheck = slog.New(slog.NewTextHandler(io.Discard, nil)), recheck
			if a.northd {
				g.northd()
			} else {
				g.fill(64<<20, 20_000)
			}
			writer := g.of("l1")
			g.listen()
			for b.Loop() {
				quiet := g.honest(writer, *attackTime/4)
				before := g.serverMiB()
				rounds, stop := g.steal(a.name, g.address)
				under := g.honest(writer, *attackTime)
				stop()
				after := g.honest(writer, *attackTime/4)
				quiet.add(after)
				quiet.report(b, under)
				b.ReportMetric(g.serverMiB()/before, "server-memory-ratio")
				b.ReportMetric(float64(rounds.Load())/attackTime.Seconds(), "rounds/s")
			}
		})
	}
}

// listen has honest nodes hear all that changes, as long as the test takes.
func (g *gate) listen() {
	for i := range listeners {
		conn := g.of(fmt.Sprint("h", i))
		if err := readAll(conn); err != nil {
			g.Fatal(err)
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			g.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
}

// of is a connection of a node.
func (g *gate) of(node string) net.Conn {
	conn, err := g.connect(&tls.Config{Certificates: []tls.Certificate{g.nodes.sign(node)}})
	if err != nil {
		g.Fatal(err)
	}
	return conn
}

// monitoredTables are those that ovn-controller monitors.
var monitoredTables = []string{"Address_Set", "BFD", "Chassis", "Chassis_Private", "Chassis_Template_Var",
	"Controller_Event", "DHCP_Options", "DHCPv6_Options", "DNS", "Datapath_Binding", "Encap", "FDB", "Gateway_Chassis",
	"HA_Chassis", "HA_Chassis_Group", "IGMP_Group", "IP_Multicast", "Load_Balancer", "Logical_DP_Group", "Logical_Flow",
	"MAC_Binding", "Meter", "Meter_Band", "Multicast_Group", "Port_Binding", "Port_Group", "SB_Global",
	"Service_Monitor", "Static_MAC_Binding"}

// readAll is what a node does that starts: it reads all that there is.
func readAll(conn net.Conn) error {
	tables := strings.Join(monitoredTables, `":[{}],"`)
	request := call("monitor_cond_since", `["OVN_Southbound",0,{"`+tables+`":[{}]},"`+noTransaction+`"]`)
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	return (&hearing{from: conn}).answer()
}

// times are what honest nodes waited for, the shortest first, and how much of a processor the server had meanwhile.
type times struct {
	writes, readings []time.Duration
	busy             float64
}

// add takes other times as well, as long as these.
func (t *times) add(more times) {
	t.writes, t.readings = append(t.writes, more.writes...), append(t.readings, more.readings...)
	slices.Sort(t.writes)
	slices.Sort(t.readings)
	t.busy = (t.busy + more.busy) / 2
}

// honest is how long each of a node's writes takes, one after the other for so long, and each reading of others,
// which start meanwhile.
func (g *gate) honest(writer net.Conn, long time.Duration) (t times) {
	if err := writer.SetDeadline(time.Time{}); err != nil {
		g.Fatal(err)
	}
	over, read := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for next := time.NewTicker(time.Second); err == nil; {
			var took time.Duration
			if took, err = g.starts(); err == nil {
				t.readings = append(t.readings, took)
			}
			select {
			case <-next.C:
			case <-over:
				read <- err
				return
			}
		}
		<-over
		read <- err
	}()
	began, worked := time.Now(), g.serverWorked()
	t.writes = g.waits(writer, long)
	t.busy = (g.serverWorked() - worked).Seconds() / time.Since(began).Seconds()
	close(over)
	if err := <-read; err != nil {
		g.Fatal(err)
	}
	slices.Sort(t.readings)
	return t
}

// starts is how long a node that there was not yet takes to connect and to read all.
func (g *gate) starts() (time.Duration, error) {
	g.started++
	own := g.nodes.sign(fmt.Sprint("r", g.started))
	config := &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true}
	began := time.Now()
	conn, err := tls.Dial("tcp", g.address, config)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(began.Add(5 * time.Minute)); err != nil {
		return 0, err
	}
	err = readAll(conn)
	return time.Since(began), err
}

// report is of times under attack, beside those without.
func (quiet times) report(b *testing.B, under times) {
	for _, kind := range []struct {
		name         string
		quiet, under []time.Duration
	}{{"write", quiet.writes, under.writes}, {"read", quiet.readings, under.readings}} {
		for _, p := range []int{50, 99} {
			b.ReportMetric(milliseconds(kind.quiet, p), fmt.Sprintf("%s-quiet-p%d-ms", kind.name, p))
			b.ReportMetric(milliseconds(kind.under, p)/milliseconds(kind.quiet, p), fmt.Sprintf("%s-p%d-ratio", kind.name, p))
		}
		b.ReportMetric(milliseconds(kind.under, 100), kind.name+"-longest-ms")
	}
	b.ReportMetric(100*quiet.busy, "server-quiet-%")
	b.ReportMetric(100*under.busy, "server-%")
}

// waits is how long each of a node's writes takes, one after the other for so long, the shortest first.
func (g *gate) waits(conn net.Conn, long time.Duration) []time.Duration {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		g.Fatal(err)
	}
	var took []time.Duration
	next := time.NewTicker(5 * time.Millisecond)
	defer next.Stop()
	for start := time.Now(); time.Since(start) < long; <-next.C {
		began := time.Now()
		answer, err := ask(conn, "transact",
			g.names.Replace(`["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","{pod1}"]]],"row":{"up":`+
				strconv.FormatBool(len(took)%2 == 0)+`}}]`))
		if err != nil || !strings.Contains(answer, `"count":1`) {
			g.Fatal(answer, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took
}

// milliseconds are those of a percentile.
func milliseconds(sorted []time.Duration, percentile int) float64 {
	return float64(sorted[min(len(sorted)*percentile/100, len(sorted)-1)].Microseconds()) / 1000
}

// fill gives the server so many bytes of addresses, flows and ports as of a few hundred pods, and the nodes that
// may be stolen.
func (s *southbound) fill(bytes, flows int) {
	conn := s.dialled(s.server.Endpoint)
	address := strings.Repeat("x", 1000)
	insert := func(operations ...string) {
		answer, err := ask(conn, "transact", s.names.Replace(`["OVN_Southbound",`+strings.Join(operations, ",")+`]`))
		if err != nil || strings.Contains(answer, `"error":"`) {
			s.Fatal(answer, err)
		}
	}
	for i := range bytes / (1000 * len(address)) {
		var set []string
		for j := range 1000 {
			set = append(set, fmt.Sprintf("%q", fmt.Sprint(j, address)))
		}
		insert(fmt.Sprintf(`{"op":"insert","table":"Address_Set","row":{"name":"set%d","addresses":["set",[%s]]}}`, i,
			strings.Join(set, ",")))
	}
	for i := range flows / 1000 {
		var rows []string
		for j := i * 1000; j < (i+1)*1000; j++ {
			rows = append(rows, fmt.Sprintf(
				`{"op":"insert","table":"Logical_Flow","row":{"logical_datapath":["uuid","{datapath of pod1}"],"pipeline":"ingress","table_id":1,"priority":100,"match":"ip4.src == %d","actions":"next;"}}`, j))
			if j%20 == 0 {
				rows = append(rows, fmt.Sprintf(
					`{"op":"insert","table":"Port_Binding","row":{"logical_port":"more%d","datapath":["uuid","{datapath of pod1}"],"tunnel_key":%d,"options":["map",[["requested-chassis","l1"]]]}}`, j, 100+j))
			}
		}
		insert(rows...)
	}
	s.stolenChassis()
	for i, node := range stolenNodes {
		_, chassis, _ := strings.Cut(s.rowsOf(node), ",")
		chassis, _, _ = strings.Cut(chassis, ",")
		insert(fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"port-%[1]s",`+
			`"datapath":["uuid","{datapath of pod1}"],"tunnel_key":%[2]d,"chassis":["uuid",%[3]q],`+
			`"options":["map",[["requested-chassis",%[1]q]]]}}`, node, 90+i, chassis))
	}
}

// stolenChassis are those of the nodes that may be stolen.
func (s *southbound) stolenChassis() {
	for i, node := range stolenNodes {
		ovsdbtest.Run(s, "ovn-sbctl", strings.Fields(fmt.Sprintf("--db=%[1]s "+
			"--id=@e create Encap chassis_name=%[2]s type=geneve ip=192.0.2.%[3]d -- "+
			"--id=@c create Chassis name=%[2]s hostname=%[2]s encaps=@e -- "+
			"create Chassis_Private name=%[2]s chassis=@c", s.server.Endpoint, node, 100+i))...)
	}
}

// rowsOf names the rows that are a stolen node's, each by what it is.
func (s *southbound) rowsOf(node string) string {
	find := func(table, condition string) string {
		out := ovsdbtest.Run(s, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=_uuid", "find", table, condition)
		return strings.TrimSpace(out)
	}
	return strings.Join([]string{"{chassis}", find("Chassis", "name="+node),
		"{private}", find("Chassis_Private", "name="+node), "{port}", find("Port_Binding", "logical_port=port-"+node)}, ",")
}

func (s *southbound) dialled(endpoint string) net.Conn {
	conn, err := net.Dial("unix", strings.TrimPrefix(endpoint, "unix:"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	return conn
}

func (s *southbound) connectAs(node string) net.Conn { return s.dialled(s.as(node)) }

// serverWorked is how long the server has had a processor.
func (s *southbound) serverWorked() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.server.PID()))
	if err != nil {
		s.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	ticks := 0
	for _, field := range strings.Fields(fields)[11:13] { // of the user and of the kernel, hundredths of a second
		n, err := strconv.Atoi(field)
		if err != nil {
			s.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// serverMiB is the most that the server's resident memory has been.
func (s *southbound) serverMiB() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.server.PID()))
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "VmHWM:" {
			kib, _ := strconv.ParseFloat(words[1], 64)
			return kib / 1024
		}
	}
	return 0
}
