package southbound

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkUnderAttack is how long an honest node waits for a write while a stolen one reads all that there is (some 64 MB), by as many connections
// as it may have and as often as it can; and how much memory the server has in the end.
func BenchmarkUnderAttack(b *testing.B) {
	for _, attackers := range []int{0, clientsEach} {
		b.Run(fmt.Sprint("connections=", attackers), func(b *testing.B) {
			s := newSouthbound(b)
			s.guard.log = slog.New(slog.NewTextHandler(io.Discard, nil))
			s.fill(64 << 20)
			honest := s.connectAs("l1")
			stop := make(chan struct{})
			var all sync.WaitGroup
			endpoint := s.as("l2")
			for i := range attackers {
				conn := s.dialled(endpoint)
				all.Go(func() { attack(conn, i, stop) })
			}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				answer, err := ask(honest, "transact", s.names.Replace(`["OVN_Southbound",{"op":"update","table":"Chassis","where":[["_uuid","==",["uuid","{l1}"]]],"row":{"nb_cfg":`+strconv.Itoa(i)+`}}]`))
				if err != nil || !strings.Contains(answer, `"count":1`) {
					b.Fatal(answer, err)
				}
				took = append(took, time.Since(began))
				time.Sleep(5 * time.Millisecond)
			}
			close(stop)
			slices.Sort(took)
			sum := time.Duration(0)
			for _, t := range took {
				sum += t
			}
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(sum.Microseconds())/1000/float64(len(took)), "mean-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(s.serverMiB(), "server-MiB")
			s.closeAll()
			all.Wait()
		})
	}
}

// attack reads everything, again and again.
func attack(conn net.Conn, id int, stop chan struct{}) {
	m := &messages{from: conn}
	for n := 0; ; n++ {
		for _, request := range []string{
			fmt.Sprintf(`{"id":1,"method":"monitor_cond","params":["OVN_Southbound",%d,{"Address_Set":[{}],"Logical_Flow":[{}]}]}`, n),
			fmt.Sprintf(`{"id":2,"method":"monitor_cancel","params":[%d]}`, n),
			`{"id":3,"method":"transact","params":["OVN_Southbound",{"op":"select","table":"Address_Set","where":[]}]}`,
		} {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := io.WriteString(conn, request); err != nil {
				return
			}
			if _, err := m.next(); err != nil {
				return
			}
		}
	}
}

// fill gives the server so many bytes of rows.
func (s *southbound) fill(bytes int) {
	conn := s.dialled(s.server.Endpoint)
	address := strings.Repeat("x", 1000)
	for i := range bytes / (1000 * len(address)) {
		var set []string
		for j := range 1000 {
			set = append(set, fmt.Sprintf("%q", fmt.Sprint(j, address)))
		}
		answer, err := ask(conn, "transact", fmt.Sprintf(`["OVN_Southbound",{"op":"insert","table":"Address_Set","row":{"name":"set%d","addresses":["set",[%s]]}}]`, i, strings.Join(set, ",")))
		if err != nil || strings.Contains(answer, `"error":"`) {
			s.Fatal(answer, err)
		}
	}
}

func (s *southbound) dialled(endpoint string) net.Conn {
	conn, err := net.Dial("unix", strings.TrimPrefix(endpoint, "unix:"))
	if err != nil {
		s.Fatal(err)
	}
	s.conns = append(s.conns, conn)
	s.Cleanup(func() { conn.Close() })
	return conn
}

func (s *southbound) connectAs(node string) net.Conn { return s.dialled(s.as(node)) }

func (s *southbound) closeAll() {
	for _, conn := range s.conns {
		conn.Close()
	}
}

// serverMiB is the server's resident memory.
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
