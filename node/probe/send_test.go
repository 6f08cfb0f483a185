package probe

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

// serve listens on an address: by TCP, and by UDP, where it answers questions of DNS alone.
func serve(t *testing.T, address string) (tcp, udp uint16) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	conn, err := net.ListenPacket("udp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buffer := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return // the test is over
			}
			var question dnsmessage.Message
			if question.Unpack(buffer[:n]) == nil && len(question.Questions) == 1 {
				_, _ = conn.WriteTo(buffer[:n], from)
			}
		}
	}()
	port := func(a net.Addr) uint16 { return netip.MustParseAddrPort(a.String()).Port() }
	return port(listener.Addr()), port(conn.LocalAddr())
}

// TestResults of a system's sockets, by its loopback.
func TestResults(t *testing.T) {
	loopback, foreign := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("203.0.113.77")
	tcp, udp := serve(t, loopback.String())
	cases := map[string]struct {
		protocol string
		source   netip.Addr
		port     uint16
		want     string // the error, if it is none
	}{
		"tcp":            {"tcp", loopback, tcp, api.ProbeAnswered},
		"udp":            {"udp", loopback, udp, api.ProbeAnswered},
		"tcp, nobody":    {"tcp", loopback, 1, api.ProbeRefused},
		"udp, nobody":    {"udp", loopback, 1, api.ProbeRefused},
		"tcp, elsewhere": {"tcp", foreign, tcp, "does not have the address 203.0.113.77"},
		"udp, elsewhere": {"udp", foreign, udp, "does not have the address 203.0.113.77"},
		"no protocol":    {"icmp", loopback, tcp, "has no probe"},
	}
	if runtime.GOOS == "windows" {
		delete(cases, "udp, nobody") // Wine tells no ICMP error to a datagram's socket
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), nodetest.Patience)
			defer cancel()
			got, err := send(ctx, contract.ProbeRequest{Pod: web, Protocol: c.protocol, Source: c.source,
				Destination: netip.AddrPortFrom(loopback, c.port)})
			if err != nil && got == "" {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}
