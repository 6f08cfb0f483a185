package southbound

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var attackTime = flag.Duration("attack", time.Minute, "how long a stolen node attacks in BenchmarkUnderAttack")

// BenchmarkUnderAttack is how long an honest node waits for a write that all nodes hear of while a stolen one attacks, beside that without, in a
// Southbound of some 70 MB. Ratios are of the same server and connection: what comes before the attack to what comes with it, of which the first
// seconds are the worst. The stolen node is a process of its own, and takes processors from the others.
func BenchmarkUnderAttack(b *testing.B) {
	for _, a := range attacks() {
		b.Run(strings.ReplaceAll(a.name, " ", "-"), func(b *testing.B) {
			g := newGate(b)
			g.guard.log = slog.New(slog.NewTextHandler(io.Discard, nil))
			g.fill(64 << 20)
			honest, err := g.connect(&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1")}})
			if err != nil {
				b.Fatal(err)
			}
			g.reads("l3")
			dir, stolen := b.TempDir(), g.nodes.sign("l2")
			certificate, key := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
			g.nodes.write(certificate, "CERTIFICATE", stolen.Certificate[0])
			g.nodes.writeKey(key, stolen)
			for b.Loop() {
				quiet := g.waits(honest, *attackTime/6)
				before := g.serverMiB()
				stop := g.steal(a.name, certificate, key)
				under := g.waits(honest, *attackTime)
				rounds := stop()
				for _, p := range []int{50, 99} {
					b.ReportMetric(milliseconds(quiet, p), fmt.Sprint("quiet-p", p, "-ms"))
					b.ReportMetric(milliseconds(under, p)/milliseconds(quiet, p), fmt.Sprint("p", p, "-ratio"))
				}
				b.ReportMetric(milliseconds(under, 100), "longest-ms")
				b.ReportMetric(g.serverMiB()/before, "server-memory-ratio")
				b.ReportMetric(float64(rounds)/attackTime.Seconds(), "rounds/s")
			}
		})
	}
}

// reads is what a node does that starts: it reads all that there is.
func (g *gate) reads(node string) {
	conn, err := g.connect(&tls.Config{Certificates: []tls.Certificate{g.nodes.sign(node)}})
	if err != nil {
		g.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, call("monitor_cond", `["OVN_Southbound",0,{"Address_Set":[{}],"Logical_Flow":[{}],"Port_Binding":[{}]}]`)); err != nil {
		g.Fatal(err)
	}
	if err := (&hearing{from: conn}).answer(); err != nil {
		g.Fatal(err)
	}
}

// waits is how long each of a node's writes takes, one after the other for so long, the shortest first.
func (g *gate) waits(conn net.Conn, long time.Duration) []time.Duration {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		g.Fatal(err)
	}
	var took []time.Duration
	for start := time.Now(); time.Since(start) < long; time.Sleep(5 * time.Millisecond) {
		began := time.Now()
		answer, err := ask(conn, "transact", g.names.Replace(`["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","{pod1}"]]],"row":{"up":`+
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

// fill gives the server so many bytes of addresses, and flows and ports as of a few hundred pods.
func (s *southbound) fill(bytes int) {
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
		insert(fmt.Sprintf(`{"op":"insert","table":"Address_Set","row":{"name":"set%d","addresses":["set",[%s]]}}`, i, strings.Join(set, ",")))
	}
	for i := range 20 {
		var rows []string
		for j := i * 1000; j < (i+1)*1000; j++ {
			rows = append(rows, fmt.Sprintf(`{"op":"insert","table":"Logical_Flow","row":{"logical_datapath":["uuid","{datapath of pod1}"],"pipeline":"ingress","table_id":1,"priority":100,"match":"ip4.src == %d","actions":"next;"}}`, j))
			if j%20 == 0 {
				rows = append(rows, fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"more%d","datapath":["uuid","{datapath of pod1}"],"tunnel_key":%d,"options":["map",[["requested-chassis","l1"]]]}}`, j, 100+j))
			}
		}
		insert(rows...)
	}
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
