package contract

import (
	"net/netip"
	"strings"
	"testing"
)

// TestAgentEnd: nobody connects wherever a node says.
func TestAgentEnd(t *testing.T) {
	status := []string{"node-1", "192.0.2.1", "2001:db8::1", "127.0.0.1", "169.254.169.254", "::1", "fe80::1", "224.0.0.1",
		"0.0.0.0", "255.255.255.255"}
	facts := []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	for _, c := range []struct{ said, want, refused string }{
		{"192.0.2.1:16642", "192.0.2.1:16642", ""},
		{"[2001:db8::1]:16642", "[2001:db8::1]:16642", ""},
		{"[2001:db8:0::1]:16642", "[2001:db8::1]:16642", ""},
		{"198.51.100.1:20000", "198.51.100.1:20000", ""},
		{"192.0.2.9:16642", "", "no address that the Node has"},
		{"node-1:16642", "", "no unicast address"},
		{"localhost:16642", "", "no unicast address"},
		{":16642", "", "no unicast address"},
		{"127.0.0.1:16642", "", "no unicast address"},
		{"[::1]:16642", "", "no unicast address"},
		{"[::ffff:192.0.2.1]:16642", "", "no unicast address"},
		{"[fe80::1]:16642", "", "no unicast address"},
		{"[fe80::1%eth0]:16642", "", "no unicast address"},
		{"169.254.169.254:16642", "", "no unicast address"},
		{"224.0.0.1:16642", "", "no unicast address"},
		{"255.255.255.255:16642", "", "no unicast address"},
		{"0.0.0.0:16642", "", "no unicast address"},
		{"192.0.2.1:22", "", "not one at which an agent is met"},
		{"192.0.2.1:1023", "", "not one at which an agent is met"},
		{"192.0.2.1:2379", "", "not one at which an agent is met"},
		{"192.0.2.1:6443", "", "not one at which an agent is met"},
		{"192.0.2.1:6643", "", "not one at which an agent is met"},
		{"192.0.2.1:10250", "", "not one at which an agent is met"},
		{"192.0.2.1:0", "", "not one at which an agent is met"},
		{"192.0.2.1:65536", "", "not one at which an agent is met"},
		{"192.0.2.1:https", "", "not one at which an agent is met"},
		{"192.0.2.1", "", "is not HOST:PORT"},
		{"", "", "is not HOST:PORT"},
	} {
		got, err := AgentEnd(c.said, status, facts)
		if (err != nil) != (c.refused != "") || err != nil && (!strings.Contains(err.Error(), c.refused) ||
			!strings.Contains(err.Error(), "tunnel-address")) {
			t.Errorf("%q: %v; want %q", c.said, err, c.refused)
		}
		if err == nil && got.String() != c.want {
			t.Errorf("%q: %s; want %s", c.said, got, c.want)
		}
	}
}
