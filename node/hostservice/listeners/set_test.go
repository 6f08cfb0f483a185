package listeners

import (
	"net/netip"
	"strings"
	"testing"
)

func listenersOf(texts ...string) Set {
	l := Set{}
	for _, text := range texts {
		protocol, at, _ := strings.Cut(text, " ")
		l.Add(Socket{protocol, netip.MustParseAddrPort(at)})
	}
	return l
}

func TestWhoIsInTheWay(t *testing.T) {
	l := listenersOf("tcp 0.0.0.0:80", "tcp [::]:81", "udp 192.0.2.1:53")
	for at, want := range map[string]bool{
		"tcp 192.0.2.1:80": true, "tcp 127.0.0.1:80": true, "tcp [::1]:80": false, "udp 192.0.2.1:80": false,
		"tcp 192.0.2.1:82":     false,
		"tcp [2001:db8::1]:81": true, "tcp 192.0.2.1:81": false, "udp 192.0.2.1:53": true, "udp 192.0.2.2:53": false,
	} {
		for one := range listenersOf(at) {
			if l.Has(one) != want {
				t.Errorf("%s: %t", at, !want)
			}
		}
	}
}
