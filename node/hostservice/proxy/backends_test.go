package proxy

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/weftnet/weft/node/hostservice/hosttest"
)

// Connections are spread over endpoints; a client of a sticky Service has one, and changes only if that goes.
func TestChoice(t *testing.T) {
	var all []Backend
	for i := range 4 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 2, byte(i)}), 80)
		all = append(all, Backend{Endpoint: at.Addr(), At: at})
	}
	client := netip.MustParseAddr("172.31.0.1")
	count := func(sticky bool) map[netip.AddrPort]int {
		to, counts := Target{Backends: &Backends{Sticky: sticky}}, map[netip.AddrPort]int{}
		for range 4000 {
			one, rest := to.choose(client, all)
			counts[one.At]++
			if len(rest) != 3 || slices.Contains(rest, one) {
				t.Fatalf("%v leaves %v", one, rest)
			}
		}
		return counts
	}
	for to, n := range count(false) {
		if n < 800 || n > 1200 { // 1,000, by 7 standard deviations
			t.Errorf("%v has %d of 4,000", to, n)
		}
	}
	if counts := count(true); len(counts) != 1 {
		t.Errorf("a sticky Service's client: %v", counts)
	}
	sticky, counts := Target{Backends: &Backends{Sticky: true}}, map[netip.Addr]int{}
	for i := range 1000 {
		client := netip.AddrFrom4([4]byte{172, 31, byte(i >> 8), byte(i)})
		before, _ := sticky.choose(client, all)
		counts[before.Endpoint]++
		now, _ := sticky.choose(client, all[1:])
		if before != all[0] && now != before {
			t.Errorf("client %v moved from %v to %v although the first stays", client, before.Endpoint, now.Endpoint)
		}
	}
	for endpoint, n := range counts {
		if n < 150 || n > 350 {
			t.Errorf("%v is that of %d of 1,000 clients", endpoint, n)
		}
	}
}

// An endpoint of this node is shown the address that the client asked, where that is not the loopback.
func TestEndpointsOfTheNodeSeeItsAddress(t *testing.T) {
	if !(Backend{Local: true}).source(netip.MustParseAddr("172.31.0.1")).IsValid() && runtime.GOOS != "windows" {
		t.Error("the host's address is not shown")
	}
	for _, c := range []struct {
		asked string
		local bool
	}{{"127.0.0.1", true}, {"::1", true}, {"172.31.0.1", false}} {
		if got := (Backend{Local: c.local}).source(netip.MustParseAddr(c.asked)); got.IsValid() {
			t.Errorf("%+v: %v", c, got)
		}
	}
	s := startStreams(t, Target{To: closedPort(t)})
	s.asked = netip.MustParseAddr("172.31.0.1")
	froms := make(chan netip.Addr, 1)
	s.dial = func(ctx context.Context, from netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
		froms <- from
		return dialStream(ctx, netip.Addr{}, to)
	}
	local := Backend{At: hosttest.Greeter(t, "a"), Local: true}
	s.retarget(Target{To: closedPort(t), Backends: &Backends{List: []Backend{local}}})
	read(t, s.client(t), 1)
	if from := <-froms; from != local.source(s.asked) {
		t.Errorf("from %v", from)
	}
	conn, err := dialStream(t.Context(), netip.MustParseAddr("127.0.0.2"), hosttest.Greeter(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if from := addrOf(conn.LocalAddr()); from != netip.MustParseAddr("127.0.0.2") {
		t.Errorf("connected from %v", from)
	}
}
