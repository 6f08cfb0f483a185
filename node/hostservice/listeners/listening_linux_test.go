package listeners

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/hostservice/hosttest"
)

// The kernel's list of sockets, by what each is.
func TestWhoListensOnLinux(t *testing.T) {
	hosttest.Address(t, "2001:db8::1/128")
	counts := map[string]string{ // daemons by what the agent sees
		"tcp4 127.0.0.1:21001":     "tcp 127.0.0.1:21001",
		"tcp4 0.0.0.0:21002":       "tcp 0.0.0.0:21002",
		"tcp6 [::]:21003":          "tcp [::]:21003", // package net asks for IPv6 alone
		"tcp :21004":               "tcp 0.0.0.0:21004, tcp [::]:21004",
		"tcp6 [2001:db8::1]:21005": "tcp [2001:db8::1]:21005",
		"udp4 127.0.0.1:21006":     "udp 127.0.0.1:21006",
		"udp :21007":               "udp 0.0.0.0:21007, udp [::]:21007",
		"tcp4 127.0.0.1:50051":     "tcp 127.0.0.1:50051", // a port of clients, but it listens
		"udp4 127.0.0.1:50052":     "",                    // as a resolver's
	}
	for at := range counts {
		if _, err := hosttest.StartDaemon(t, at); err != nil {
			t.Fatal(err)
		}
	}
	mine, err := net.Listen("tcp4", "127.0.0.1:21010")
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	asking, err := net.Dial("udp4", "127.0.0.1:21006")
	if err != nil {
		t.Fatal(err)
	}
	defer asking.Close()
	client, err := net.Dial("tcp4", "127.0.0.1:21001")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	want := Set{}
	for _, text := range counts {
		for one := range strings.SplitSeq(text, ", ") {
			if protocol, at, ok := strings.Cut(one, " "); ok {
				want.Add(Socket{protocol, netip.MustParseAddrPort(at)})
			}
		}
	}
	got, err := listening()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
