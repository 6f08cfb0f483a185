package proxy

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/weftnet/weft/node/hostservice/hosttest"
)

// compare has each benchmark beside its floor: the same without the proxy, on the same loopback.
func compare(b *testing.B, to netip.AddrPort, run func(b *testing.B, at string)) {
	b.Run("direct", func(b *testing.B) { run(b, to.String()) })
	b.Run("proxy", func(b *testing.B) {
		s := startStreams(b, Target{To: to})
		run(b, s.listener.Addr().String())
	})
}

func dialOrFail(b *testing.B, at string) *net.TCPConn {
	b.Helper()
	conn, err := net.Dial("tcp4", at)
	if err != nil {
		b.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// BenchmarkStreamThroughput sends 1 MiB an operation on one connection.
func BenchmarkStreamThroughput(b *testing.B) {
	sink := hosttest.Backend(b, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c); _, _ = c.Write([]byte("!")) })
	compare(b, sink, func(b *testing.B, at string) {
		conn := dialOrFail(b, at)
		defer conn.Close()
		chunk := make([]byte, 1<<20)
		b.SetBytes(int64(len(chunk)))
		for b.Loop() {
			if _, err := conn.Write(chunk); err != nil {
				b.Fatal(err)
			}
		}
		if err := conn.CloseWrite(); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil { // all has arrived
			b.Fatal(err)
		}
	})
}

// BenchmarkStreamConnections makes a connection, asks once and ends it.
func BenchmarkStreamConnections(b *testing.B) {
	server := hosttest.Backend(b, echo)
	compare(b, server, func(b *testing.B, at string) {
		one := make([]byte, 1)
		for b.Loop() {
			conn := dialOrFail(b, at)
			if _, err := conn.Write(one); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(conn, one); err != nil {
				b.Fatal(err)
			}
			reset(conn) // no TIME_WAIT: ports are few
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
	})
}

// BenchmarkDatagrams asks and waits for the answer.
func BenchmarkDatagrams(b *testing.B) {
	to := datagramBackend(b, "a")
	run := func(b *testing.B, at netip.AddrPort) {
		conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(at))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		for b.Loop() {
			ask(b, conn, "?")
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
	}
	b.Run("direct", func(b *testing.B) { run(b, to) })
	b.Run("proxy", func(b *testing.B) {
		run(b, openDatagrams(b, Target{To: to}, 10).at().AddrPort())
	})
}
