package extbridge

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/digitalocean/go-openvswitch/ovs"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

// example is a node's bridge of the tests' clusters.
func example(change func(*Bridge)) Bridge {
	b := Bridge{
		Name: "br-ex", Uplink: 1, Patch: 3, MAC: []byte{2, 0, 0, 0, 0, 2}, HostAddresses: true, HyperV: true,
		GatewayMAC: []byte{2, 0, 0, 0, 0, 0x99},
		Host:       []netip.Addr{netip.MustParseAddr("172.31.0.2"), netip.MustParseAddr("fd00:172:31::2")},
		Cluster:    []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
		PodSubnets: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")},
	}
	if change != nil {
		change(&b)
	}
	return b
}

var exampleEntries = []Entry{
	{Protocol: "tcp", Port: 30080}, {Protocol: "udp", Port: 30053}, {Protocol: "sctp", Port: 30090},
	{Addr: netip.MustParseAddr("172.31.0.100"), Protocol: "tcp", Port: 80}, {Addr: netip.MustParseAddr("fd00:172:31::100"),
		Protocol: "TCP", Port: 80},
}

func TestGolden(t *testing.T) {
	for name, bridge := range map[string]Bridge{
		"shared": example(func(b *Bridge) { b.HyperV = false }),
		"routed": example(func(b *Bridge) { b.Routed = true }),
		"ipv4":   example(func(b *Bridge) { b.Host, b.Cluster, b.PodSubnets = b.Host[:1], b.Cluster[:1], b.PodSubnets[:1] }),
		"early":  example(func(b *Bridge) { b.Patch, b.Cluster, b.PodSubnets = 0, nil, nil }),
		"own":    example(func(b *Bridge) { b.HostAddresses = false }),
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, flow := range Flows(bridge, exampleEntries) {
				text.WriteString(words(t, flow) + "\n")
			}
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Errorf("flows of %s (-want +got):\n%s", name, diff)
			}
		})
	}
}

// words are a flow's text without what is the same in all.
func words(tb testing.TB, flow *ovs.Flow) string {
	tb.Helper()
	plain := *flow
	plain.Cookie = 0
	text, err := plain.MarshalText()
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Replace(string(text), ",idle_timeout=0", "", 1)
}

// Where there is nothing to divide the bridge is a plain switch.
func TestNothingToDivide(t *testing.T) {
	for name, test := range map[string]struct {
		bridge  Bridge
		entries []Entry
	}{
		"no MAC yet":                {example(func(b *Bridge) { b.MAC = nil }), exampleEntries},
		"no address yet":            {example(func(b *Bridge) { b.Host = nil }), exampleEntries},
		"own addresses, no gateway": {example(func(b *Bridge) { b.HostAddresses, b.Patch = false, 0 }), exampleEntries},
		"own addresses, no entry":   {example(func(b *Bridge) { b.HostAddresses = false }), nil},
		"own addresses, SCTP only": {example(func(b *Bridge) { b.HostAddresses = false }),
			[]Entry{{Protocol: "sctp", Port: 30090}}},
		"own addresses, no such port": {example(func(b *Bridge) { b.HostAddresses = false }),
			[]Entry{{Protocol: "tcp"}, {Protocol: "icmp", Port: 3}}},
	} {
		if flows := Flows(test.bridge, test.entries); len(flows) != 0 {
			t.Errorf("%s: got %d flows", name, len(flows))
		}
	}
}

// The same in any order, each once, no two for one packet.
func TestOrder(t *testing.T) {
	bridge := example(nil)
	entries := append(append([]Entry{}, exampleEntries...), exampleEntries[0], Entry{Addr: bridge.Host[0], Protocol: "tcp",
		Port: 30080})
	backwards := make([]Entry, len(entries))
	for i, e := range entries {
		backwards[len(entries)-1-i] = e
	}
	a, b := Flows(bridge, entries), Flows(bridge, backwards)
	matches := map[string]bool{}
	for i, flow := range a {
		if words(t, flow) != words(t, b[i]) || flow.Cookie != b[i].Cookie {
			t.Fatalf("flow %d: %s and %s", i, words(t, flow), words(t, b[i]))
		}
		if flow.Cookie&CookieMask != CookieMark {
			t.Errorf("cookie %#x", flow.Cookie)
		}
		match, _, _ := strings.Cut(words(t, flow), ",actions=")
		if matches[match] {
			t.Errorf("two flows for %s", match)
		}
		matches[match] = true
	}
}

// Hyper-V's datapath knows connection tracking and Ethernet addresses of what these flows may ask for, and
// drops a packet that it cannot track. It has no clone, which ovs-vswitchd asks for where what comes by a patch port
// is tracked at once. Its keys have no flags of TCP: one flow looks at them all the same, as package capability tells.
func TestHyperV(t *testing.T) {
	harmless := []string{"ct(", "mod_dl_", "load:0->NXM_OF_IN_PORT", "set_field:172.31.0.2->ip_src",
		"load:0xfffe->NXM_OF_IN_PORT", "load:0xfa0", "output:", "resubmit(", "normal", "local", "drop"}
	for name, bridge := range map[string]Bridge{
		"shared": example(nil), "routed": example(func(b *Bridge) { b.Routed = true }), "own": example(func(b *Bridge) {
			b.HostAddresses = false
		}),
	} {
		for _, flow := range Flows(bridge, exampleEntries) {
			text := words(t, flow)
			for _, action := range flow.Actions {
				words, err := action.MarshalText()
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(harmless, func(prefix string) bool { return strings.HasPrefix(string(words), prefix) }) {
					t.Errorf("%s: action %s of %s", name, words, text)
				}
			}
			const reset = "ct_state=+trk+inv,tcp_flags=+rst,table=20,actions=drop"
			if strings.Contains(text, "tcp_flags=") && !strings.HasSuffix(text, reset) {
				t.Errorf("%s: the datapath's keys have no flags: %s", name, text)
			}
			tracks := strings.Contains(text, "=ct(") || strings.Contains(text, ",ct(")
			if !tracks || flow.Table != tableClassify {
				continue
			}
			if flow.InPort != ovs.PortLOCAL && !strings.Contains(text, "dl_dst="+bridge.MAC.String()) {
				t.Errorf("%s: what comes by the patch port may be tracked at once: %s", name, text)
			}
			switch flow.Protocol {
			case "tcp", "tcp6", "udp", "udp6", "icmp", "icmp6":
			default:
				if !strings.Contains(text, "nw_proto=44") {
					t.Errorf("%s: it would be dropped untracked: %s", name, text)
				}
			}
		}
	}
}
