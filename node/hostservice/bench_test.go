package hostservice

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Each benchmark has its floor beside it: the same without the proxy, on the same loopback.
func ways(b *testing.B, to netip.AddrPort, run func(b *testing.B, at string)) {
	b.Run("direct", func(b *testing.B) { run(b, to.String()) })
	b.Run("proxy", func(b *testing.B) {
		s := startStreams(b, target{to: to})
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
	sink := backend(b, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c); _, _ = c.Write([]byte("!")) })
	ways(b, sink, func(b *testing.B, at string) {
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
	server := backend(b, echo)
	ways(b, server, func(b *testing.B, at string) {
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
		run(b, openDatagrams(b, target{to: to}, 10).at().AddrPort())
	})
}

// BenchmarkPlan is the cost of a change among 5,000 Services with NodePorts.
func BenchmarkPlan(b *testing.B) {
	s := state{host: dual(), nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{}}
	for i := range 5000 {
		port := corev1.ServicePort{Name: "http", Port: 80, NodePort: int32(20000 + i)}
		s.services = append(s.services, trimmed(b, nodePortOf(fmt.Sprint("web-", i), int64(i), "46", port)))
	}
	for b.Loop() {
		if p := makePlan(s); len(p.sockets) != 4*5000 {
			b.Fatalf("%d sockets", len(p.sockets))
		}
	}
}
