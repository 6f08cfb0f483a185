package contract

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

func TestListenersAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Listener{
		"tcp/9100":            {"tcp", netip.Addr{}, 9100},
		"udp/192.0.2.1:53":    {"udp", netip.MustParseAddr("192.0.2.1"), 53},
		"tcp/0.0.0.0:80":      {"tcp", netip.IPv4Unspecified(), 80},
		"tcp/[2001:db8::1]:1": {"tcp", netip.MustParseAddr("2001:db8::1"), 1},
	} {
		var got Listener
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || got.String() != text {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "9100", "tcp/", "tcp/0", "tcp/70000", "sctp/80", "tcp/web:80",
		"tcp/[fe80::1%eth0]:80", "tcp/[::ffff:192.0.2.1]:80",
	} {
		var got Listener
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	for _, facts := range []string{`{"listeners":[null]}`, `{"listeners":["tcp/0"]}`} {
		if got, _, err := Parse[NodeFacts](map[string]string{NodeFactsAnnotation: facts}, NodeFactsAnnotation); err == nil {
			t.Errorf("%s is read as %v", facts, got)
		}
	}
}

func TestWhereListenersAreInTheWay(t *testing.T) {
	var l Listeners
	if err := json.Unmarshal([]byte(`["tcp/80","tcp/0.0.0.0:81","tcp/[::]:82","udp/192.0.2.1:53"]`), &l); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{
		"tcp 192.0.2.1:80": true, "tcp [2001:db8::1]:80": true, "udp 192.0.2.1:80": false, "tcp 192.0.2.1:79": false,
		"tcp 192.0.2.1:81": true, "tcp [2001:db8::1]:81": false, "tcp 192.0.2.1:82": false, "tcp [2001:db8::1]:82": true,
		"udp 192.0.2.1:53": true, "udp 192.0.2.2:53": false, "sctp 192.0.2.1:80": false,
	} {
		protocol, text, _ := strings.Cut(at, " ")
		if got := l.Have(protocol, netip.MustParseAddrPort(text)); got != want {
			t.Errorf("%s: %t", at, got)
		}
	}
}
