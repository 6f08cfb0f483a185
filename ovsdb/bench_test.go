package ovsdb_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// The load of the benchmarks: ports, each in one of the switches.
const (
	benchPorts    = 10000
	benchSwitches = 20
)

func benchAddress(i int) string {
	return fmt.Sprintf("0a:58:0a:f4:%02x:%02x 10.244.%d.%d", i/250%256, i%250, i/250, i%250)
}

func benchChanges() []ovsdb.Change {
	var changes []ovsdb.Change
	for i := range benchSwitches {
		changes = append(changes, ovsdb.Change{Owner: ovsdb.Owner(fmt.Sprintf("Node/n%d", i)), Rows: []ovsdb.Row{
			{Model: &nb.LogicalSwitch{Name: fmt.Sprintf("n%d", i)}},
		}})
	}
	for i := range benchPorts {
		owner := ovsdb.Owner(fmt.Sprintf("Pod/ns01/pod-%d", i))
		changes = append(changes, ovsdb.Change{
			Owner: owner,
			Rows: []ovsdb.Row{{Model: &nb.LogicalSwitchPort{
				Name: fmt.Sprintf("ns01_pod-%d", i), Addresses: []string{benchAddress(i)}, PortSecurity: []string{benchAddress(i)},
				Options: map[string]string{"requested-chassis": "pn01"}, ExternalIDs: map[string]string{"namespace": "ns01"},
			}}},
			Memberships: []ovsdb.Membership{{
				Table: "Logical_Switch", Column: "ports", Values: []string{ovsdb.ID("Logical_Switch_Port", owner, "")},
				UUID: ovsdb.ID("Logical_Switch", ovsdb.Owner(fmt.Sprintf("Node/n%d", i%benchSwitches)), ""),
			}},
		})
	}
	return changes
}

func benchEngine(b *testing.B) (*ovsdb.Engine, *ovsdbtest.Process) {
	b.Helper()
	d := ovsdbtest.Northbound(b)
	server := ovsdbtest.Server(b, d)
	return ovsdb.NewEngine(ovsdbtest.Connect(b, d, server.Endpoint, tables...)), server
}

// BenchmarkApply10k puts the load into an empty database, beside what a bare client takes to put
// in the same rows; x-floor is how many times as long.
func BenchmarkApply10k(b *testing.B) {
	var total, floor time.Duration
	for b.Loop() {
		b.StopTimer()
		floor += fill(b)
		changes := benchChanges()
		engine, _ := benchEngine(b)
		b.StartTimer()
		began := time.Now()
		if err := engine.Replace(b.Context(), changes); err != nil {
			b.Fatal(err)
		}
		total += time.Since(began)
	}
	b.ReportMetric(benchPorts*float64(b.N)/total.Seconds(), "rows/s")
	b.ReportMetric(total.Seconds()/floor.Seconds(), "x-floor")
}

// BenchmarkReapply10k applies the same load again: by the engine that did it, and by one that has
// just started.
func BenchmarkReapply10k(b *testing.B) {
	changes := benchChanges()
	for _, kind := range []string{"same engine", "new engine"} {
		b.Run(strings.ReplaceAll(kind, " ", "-"), func(b *testing.B) {
			engine, server := benchEngine(b)
			if err := engine.Replace(b.Context(), changes); err != nil {
				b.Fatal(err)
			}
			before := server.Transactions()
			for b.Loop() {
				if kind == "new engine" {
					b.StopTimer()
					engine = ovsdb.NewEngine(ovsdbtest.Connect(b, ovsdbtest.Northbound(b), server.Endpoint, tables...))
					b.StartTimer()
				}
				if err := engine.Replace(b.Context(), changes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(benchPorts*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(server.Transactions()-before), "writes")
		})
	}
}

// BenchmarkMemory10k says what the replica and the engine keep in memory for the load.
func BenchmarkMemory10k(b *testing.B) {
	for b.Loop() {
		engine, _ := benchEngine(b)
		before := heap()
		if err := engine.Replace(b.Context(), benchChanges()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(heap()-before)/benchPorts, "B/row")
		runtime.KeepAlive(engine)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkOnePod10k adds and removes one port among ten thousand.
func BenchmarkOnePod10k(b *testing.B) {
	changes := benchChanges()
	last := len(changes) - 1
	for _, ports := range []int{100, benchPorts} {
		b.Run(fmt.Sprint(ports), func(b *testing.B) {
			engine, _ := benchEngine(b)
			if err := engine.Replace(b.Context(), changes[:benchSwitches+ports]); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for _, c := range []ovsdb.Change{{Owner: changes[last].Owner}, changes[last]} {
					if err := engine.Apply(b.Context(), []ovsdb.Change{c}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkFloor10k is the load by a bare JSON-RPC client, in batches of 100.
func BenchmarkFloor10k(b *testing.B) {
	var total time.Duration
	for b.Loop() {
		total += fill(b)
	}
	b.ReportMetric(benchPorts*float64(b.N)/total.Seconds(), "rows/s")
}

// fill puts the load into a new server and says how long that took.
func fill(b *testing.B) time.Duration {
	b.Helper()
	server := ovsdbtest.Server(b, ovsdbtest.Northbound(b))
	conn, err := net.Dial("unix", strings.TrimPrefix(server.Endpoint, "unix:"))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	bare := &bareClient{b, bufio.NewWriterSize(conn, 1<<20), json.NewDecoder(bufio.NewReaderSize(conn, 1<<20)), 0}
	type object = map[string]any
	var operations []any
	for i := range benchSwitches {
		operations = append(operations, object{"op": "insert", "table": "Logical_Switch",
			"row": object{"name": fmt.Sprintf("n%d", i)}})
	}
	bare.transact(operations)
	began := time.Now()
	for i := 0; i < benchPorts; i += 100 {
		operations = nil
		for j := i; j < i+100; j++ {
			name := fmt.Sprintf("p%d", j)
			operations = append(operations,
				object{"op": "insert", "table": "Logical_Switch_Port", "uuid-name": name, "row": object{
					"name": fmt.Sprintf("ns01_pod-%d", j), "addresses": benchAddress(j), "port_security": benchAddress(j),
					"options": []any{"map", []any{[]any{"requested-chassis", "pn01"}}},
					"external_ids": []any{"map", []any{[]any{ovsdb.OwnerMark, fmt.Sprintf("Pod/ns01/pod-%d", j)},
						[]any{ovsdb.KeyMark, ""}, []any{"namespace", "ns01"}}},
				}},
				object{"op": "mutate", "table": "Logical_Switch",
					"where":     []any{[]any{"name", "==", fmt.Sprintf("n%d", j%benchSwitches)}},
					"mutations": []any{[]any{"ports", "insert", []any{"set", []any{[]any{"named-uuid", name}}}}}})
		}
		bare.transact(operations)
	}
	return time.Since(began)
}

// bareClient does nothing but send and wait.
type bareClient struct {
	b     *testing.B
	write *bufio.Writer
	read  *json.Decoder
	id    int
}

func (c *bareClient) transact(operations []any) {
	c.b.Helper()
	c.id++
	request := map[string]any{"id": c.id, "method": "transact", "params": append([]any{"OVN_Northbound"}, operations...)}
	if err := json.NewEncoder(c.write).Encode(request); err != nil {
		c.b.Fatal(err)
	}
	if err := c.write.Flush(); err != nil {
		c.b.Fatal(err)
	}
	var answer struct {
		Result []struct{ Error, Details string }
		Error  any
	}
	if err := c.read.Decode(&answer); err != nil {
		c.b.Fatal(err)
	}
	for _, r := range answer.Result {
		if r.Error != "" || answer.Error != nil {
			c.b.Fatal(r, answer.Error)
		}
	}
}
