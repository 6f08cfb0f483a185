package capability

import "testing"

// TestForbidden: what the record names by its number, too.
func TestForbidden(t *testing.T) {
	for executed, want := range map[string]string{
		"clone": "clone", "action 77": "unknown actions", "set arp": "set of other fields",
		"set field 77": "set of other fields", "key 32": "unknown keys",
		"recirc lost": "recirculation", "output": "", "set ipv6": "", "set tunnel": "", "ct": "",
		"ct timeout": "connection tracking timeout policies", "ct part 77": "unknown actions", "ct commit": "",
		"ct helper": "FTP and TFTP", "helper tftp": "FTP and TFTP",
		"match nd_ext": "nd_ext", "match ct_orig_tuple6": "ct_orig_tuple6", "match key 28": "unknown keys",
		"match ct_orig_tuple4": "", "match ipv6": "", "match nd_target": "", "match tcp_flags": "", "match skb_mark": "",
	} {
		if got := Forbidden(executed); got != want {
			t.Errorf("%s is forbidden by %q, want %q", executed, got, want)
		}
	}
}
