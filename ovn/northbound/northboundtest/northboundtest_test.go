package northboundtest

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
)

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *northbound.Builder)
		want  string
	}{
		"nothing": {func(*northbound.Builder) {}, ""},
		"what Weft writes": {func(b *northbound.Builder) {
			b.Member(nb.AddressSetTable, b.Add(nb.AddressSetTable, "set", &nb.AddressSet{Name: "beacon"}), "addresses",
				"192.0.2.1")
			b.Add(nb.ACLTable, "acl", &nb.ACL{Match: "ip4", ExternalIDs: map[string]string{"weft.net/rule": "1"}})
		}, ""},
		"another table": {func(b *northbound.Builder) { b.Add(nb.MirrorTable, "mirror", &nb.Mirror{Name: "tap"}) },
			"a row is a Mirror, whose table Weft does not write"},
		"another column, twice": {func(b *northbound.Builder) {
			b.Add(nb.ACLTable, "1", &nb.ACL{Label: 1})
			b.Add(nb.ACLTable, "2", &nb.ACL{Label: 2})
		}, "a row of ACL has a value in column label, which Weft does not write"},
		"members in a row's own value": {func(b *northbound.Builder) {
			b.Add(nb.AddressSetTable, "set", &nb.AddressSet{Addresses: []string{"192.0.2.1"}})
		}, "a row of AddressSet has a value in column addresses, which Weft does not write"},
		"another set": {func(b *northbound.Builder) { b.Member(nb.LogicalSwitchTable, "switch", "dns_records", "x") },
			"column dns_records of table Logical_Switch is no set that memberships fill"},
		"a column that is no set": {func(b *northbound.Builder) { b.Member(nb.ACLTable, "acl", "match", "x") },
			"column match of table ACL is no set that memberships fill"},
		"a set of another table": {func(b *northbound.Builder) { b.Member(nb.MirrorTable, "mirror", "x", "x") },
			"column x of table Mirror is no set that memberships fill"},
	} {
		b := northbound.NewBuilder(ovsdb.Owner("Beacon/a"))
		c.build(b)
		if got := strings.Join(problems(b.Change), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
