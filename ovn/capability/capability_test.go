package capability

import (
	"slices"
	"testing"
)

// Each name has one line, and what a line forbids or bears has a place there.
func TestOneLineForEachName(t *testing.T) {
	lines := map[string][]string{}
	for _, l := range Limits {
		for _, name := range slices.Concat(l.Forbids, l.Bears) {
			lines[name] = append(lines[name], l.Feature)
		}
	}
	for _, a := range Abilities {
		for _, name := range a.Does {
			lines[name] = append(lines[name], a.Feature)
		}
	}
	for name, of := range lines {
		if len(of) > 1 {
			t.Errorf("%q is in several lines: %q", name, of)
		}
	}
}

// TestForbidden: what the record names by its number, too. What no line has is forbidden.
func TestForbidden(t *testing.T) {
	for executed, want := range map[string]string{
		"clone": "clone", "action 77": "unknown actions", "set arp": "set of other fields",
		"set field 77": "set of other fields", "key 32": "unknown keys",
		"recirc lost": "recirculation", "output": "", "set tunnel": "", "ct": "",
		"set ipv6": "", "set ipv6_hlimit": "", "set ipv6_src": "set of IPv6 fields", "set ipv4": "", "set ipv4_ecn": "",
		"set ipv4_dscp": "set of DSCP",
		"set tcp":       "", "set tcp6": "ports of IPv6", "set skb_mark 42": "", "set skb_mark 7": "set of other fields",
		"ct timeout": "connection tracking timeout policies", "ct part 77": "unknown actions", "ct commit": "",
		"ct helper": "helpers of connection tracking", "helper tftp": "FTP and TFTP", "ct nat_random": "",
		"other protocol tcp over udp":    "protocols of translations",
		"other protocol udp over tcp":    "protocols of translations",
		"other protocol tcp over icmpv6": "ICMPv6 errors of no connection",
		"other protocol udp over icmpv6": "",
		"ct nat part 77":                 "unknown actions",
		"push_mpls":                      "MPLS", "match mpls": "MPLS", "hash": "", "hash algorithm 1": "dp_hash algorithm 1",
		"sample": "", "sample actions": "sample with actions of its own",
		"sample nesting 4": "sample with actions of its own",
		"match nd_ext":     "nd_ext", "match ct_orig_tuple6": "ct_orig_tuple6", "match key 77": "unknown keys",
		"match ct_orig_tuple4": "", "match ipv6": "", "match ipv6_label": "", "match nd_target": "",
		"set ipv6_label":      "set of IPv6 fields",
		"match tcp_flags rst": "", "match tcp_flags syn+ack": "tcp_flags", "match skb_mark": "",
		"match tun_id": "", "match tun_oam": "other fields of tunnels", "match tunnel part 77": "other fields of tunnels",
		"":     Undecided,
		"what": Undecided,
	} {
		if got := Forbidden(executed); got != want {
			t.Errorf("%s is forbidden by %q, want %q", executed, got, want)
		}
	}
}
