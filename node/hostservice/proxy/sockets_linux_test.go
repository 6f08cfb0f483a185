package proxy

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/nodetest"
)

// Sockets of datagrams are as many as NodePorts and addresses of the host: each costs little while it is silent.
func TestSilentDatagramSocketsAreCheap(t *testing.T) {
	const many = 500
	s := New()
	defer s.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	at, to := netip.AddrPortFrom(hosttest.Loopback, 0), Target{To: netip.AddrPortFrom(hosttest.Loopback, 9)}
	for range many { // each has a port of the kernel's
		one, err := s.listen(t.Context(), listeners.Socket{Protocol: listeners.UDP, At: at}, to)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { one.close(true); one.wait() }()
	}
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / many; each > largestDatagram/4 {
		t.Errorf("a silent socket takes %d bytes of the heap", each)
	}
}

// The ranges of a load balancer's address that is the host's own are for others than the host.
func TestSourceRangesOfTheHostsOwnAddress(t *testing.T) {
	own := netip.MustParseAddr("192.0.2.11")
	hosttest.Address(t, "192.0.2.11/32")
	for _, c := range []struct {
		client, ranges string
		served         bool
	}{{"127.0.0.1", "198.51.100.0/24", false}, {"127.0.0.1", "127.0.0.0/8", true}, {"192.0.2.11", "198.51.100.0/24",
		true}} {
		to := Target{Restricted: true, Ranges: nodetest.Prefixes(c.ranges)}
		to.To = hosttest.Greeter(t, "a")
		s, err := listenStreams(t.Context(), netip.AddrPortFrom(own, 0), to, newMetrics(), &limit{most: 10})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.close(true); s.wait() }()
		dialer := net.Dialer{Timeout: nodetest.Patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.client)}}
		conn, err := dialer.Dial("tcp4", s.listener.Addr().String())
		if err == nil {
			defer conn.Close()
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		if (err == nil) != c.served {
			t.Errorf("%+v: %v", c, err)
		}
		to.To = datagramBackend(t, "a")
		d, err := listenDatagrams(t.Context(), netip.AddrPortFrom(own, 0), to, newMetrics(), &limit{most: 10})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { d.close(true); d.wait() }()
		asking, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(c.client)}, d.at())
		if err != nil {
			t.Fatal(err)
		}
		defer asking.Close()
		if _, err := asking.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		hosttest.Eventually(t, "the datagram has come", func() bool {
			refused := measured(t, d.metrics.failures.WithLabelValues(listeners.UDP, failedRange))
			return refused+measured(t, d.metrics.sessions) == 1
		})
		if served := measured(t, d.metrics.sessions) == 1; served != c.served {
			t.Errorf("%+v: a datagram is served: %t", c, served)
		}
	}
}
