package ovn

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestConnectionsAreSpread counts what each of many endpoints gets of new connections, as Open vSwitch
// itself counts it: nobody need be there.
func TestConnectionsAreSpread(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	var clients []string
	for i := range 20 {
		clients = append(clients, fmt.Sprintf("10.244.0.%d/24", 200+i))
	}
	d.host(clients...)
	for i, n := range []int{10, 64, 200, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d.t = t
			s := d.service(fmt.Sprintf("s%d", n), fmt.Sprintf("10.96.1.%d", 1+i))
			s.Ports = []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}}
			d.do(s)
			given := []any{}
			for from := 0; from < n; from += 100 {
				sl := d.slice(fmt.Sprintf("s%d-%d", n, from), s.Name,
					[]objects.ServicePort{{Name: "log", Protocol: "udp", Port: 8080}})
				for k := from; k < min(n, from+100); k++ {
					sl.Endpoints = append(sl.Endpoints, ready(fmt.Sprintf("10.244.%d.%d", 100+k/250, 1+k%250), "elsewhere"))
				}
				given = append(given, sl)
			}
			d.do(given...)
			const each = 20 // connections an endpoint
			var counts []int
			total := 0
			for total < each*n*3/4 { // a busy machine's datapath drops what its queue does not hold
				before := total
				d.spray(clients, s.ClusterIPs[0], each*n-total)
				if counts, total = d.counts(n); total == before {
					t.Fatalf("none of another %d connections is counted: there are %d", each*n-total, total)
				}
			}
			zero, most := 0, 0
			for _, c := range counts {
				most = max(most, c)
				if c == 0 {
					zero++
				}
			}
			mean, square := float64(total)/float64(n), 0.0
			for _, c := range counts {
				square += (float64(c) - mean) * (float64(c) - mean) / mean
			}
			// By chance alone the sum is n-1, give or take the root of its double. Up to 64 endpoints share
			// slots that do not go up in their number, which adds to it. A client address that sees
			// one endpoint, or endpoints with twice others' part, make it many times as large.
			t.Logf("%d connections, %.1f an endpoint, at most %d, %d endpoints without; chi square %.0f of %d", total, mean,
				most, zero, square, n-1)
			if limit := 2.5 * float64(n+5); square > limit {
				t.Errorf("chi square is %.0f, want less than %.0f: %v", square, limit, counts)
			}
		})
	}
}

// spray sends datagrams from many addresses and ports.
func (d *datapath) spray(clients []string, to netip.Addr, count int) {
	d.t.Helper()
	for i := range count {
		from := netip.MustParsePrefix(clients[i%len(clients)]).Addr()
		d.within("host", func() {
			conn, err := net.DialUDP("udp", &net.UDPAddr{IP: from.AsSlice()}, &net.UDPAddr{IP: to.AsSlice(), Port: 514})
			if err != nil {
				d.t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("x")); err != nil {
				d.t.Fatal(err)
			}
		})
		if i%50 == 49 { // the datapath's queue is short
			<-time.After(2 * time.Millisecond)
		}
	}
}

var bucketCount = regexp.MustCompile(`bucket\d+:packet_count=(\d+)`)

// counts are the packets of each bucket of the group with n, and their sum, once no more come.
func (d *datapath) counts(n int) (counts []int, total int) {
	d.t.Helper()
	last := -1
	nodetest.Eventually(d.t, 30*time.Second, func() error {
		d.revalidate()
		total = 0
		for line := range strings.Lines(d.ovn.Run("ovs-ofctl", "-O", "OpenFlow15", "dump-group-stats", "br-int")) {
			found := bucketCount.FindAllStringSubmatch(line, -1)
			if len(found) != n {
				continue
			}
			counts, total = nil, 0
			for _, f := range found {
				c, err := strconv.Atoi(f[1])
				if err != nil {
					return err
				}
				counts, total = append(counts, c), total+c
			}
		}
		if total == 0 || total != last {
			last = total
			return fmt.Errorf("%d packets are counted", total)
		}
		return nil
	})
	return counts, total
}
