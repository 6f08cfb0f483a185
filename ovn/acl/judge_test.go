package acl

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// bed collects rows by hand: ports a and b are on switch s1, c on s2; a router joins the two.
type bed struct{ Rows }

func newBed() *bed {
	b := new(bed)
	port := func(name, kind string, addresses ...string) string {
		b.Ports = append(b.Ports, &nb.LogicalSwitchPort{UUID: "port-" + name, Name: name, Type: kind, Addresses: addresses})
		return "port-" + name
	}
	b.Switches = []*nb.LogicalSwitch{
		{UUID: "switch-s1", Name: "s1", Ports: []string{
			port("a", "", "0a:58:0a:f4:00:03 10.244.0.3 fd00::3"), port("b", "", "0a:58:0a:f4:00:04 10.244.0.4 fd00::4"),
			port("s1-r", "router", "router")}},
		{UUID: "switch-s2", Name: "s2", Ports: []string{port("c", "", "0a:58:0a:f4:01:03 10.244.1.3 fd00:1::3"),
			port("s2-r", "router", "router")}},
	}
	return b
}

func (b *bed) group(name string, ports ...string) *nb.PortGroup {
	g := &nb.PortGroup{UUID: "group-" + name, Name: name}
	for _, p := range ports {
		g.Ports = append(g.Ports, "port-"+p)
	}
	b.PortGroups = append(b.PortGroups, g)
	return g
}

// acl puts a rule into a row's acls. It is written as in "to-lport 1/1001 drop outport == @g", with
// from-lport/lb for apply-after-lb, and is named by that text.
func (b *bed) acl(acls *[]string, text string) {
	fields := strings.SplitN(text, " ", 4)
	a := &nb.ACL{UUID: fmt.Sprintf("acl-%03d", len(b.ACLs)), Name: &text, Action: fields[2], Match: fields[3]}
	var after bool
	a.Direction, after = strings.CutSuffix(fields[0], "/lb")
	if after {
		a.Options = map[string]string{"apply-after-lb": "true"}
	}
	if _, err := fmt.Sscanf(fields[1], "%d/%d", &a.Tier, &a.Priority); err != nil {
		panic(err)
	}
	b.ACLs = append(b.ACLs, a)
	*acls = append(*acls, a.UUID)
}

var addresses = map[string][2]string{"a": {"10.244.0.3", "fd00::3"}, "b": {"10.244.0.4", "fd00::4"},
	"c": {"10.244.1.3", "fd00:1::3"}, "": {"198.51.100.7", "2001:db8::7"}}

// tcp is a connection between two ports; "" is the outside.
func tcp(from, to string, port uint16) Connection {
	return Connection{Packet: Packet{Inport: from, Outport: to, Src: addr(addresses[from][0]), Dst: addr(addresses[to][0]),
		Proto: TCP, SrcPort: 40000, DstPort: port}}
}

func trail(v Verdict) string {
	var words []string
	for _, s := range v.Steps {
		words = append(words, fmt.Sprintf("%s %s %d/%d %s", s.Switch, s.Stage, s.Rule.Tier, s.Rule.Priority, s.Rule.Action))
	}
	return strings.Join(words, "; ")
}

func TestJudge(t *testing.T) {
	vip := func(c Connection, vip string) Connection {
		c.VIP = netip.MustParseAddrPort(vip)
		return c
	}
	hairpinned := func(c Connection) Connection {
		c.Hairpin = addr("169.254.169.5")
		return c
	}
	for _, c := range []struct {
		name       string
		groups     map[string][]string // ports
		onGroups   map[string][]string // rules
		onSwitch   []string            // of s1
		connection Connection
		allowed    bool
		trail      string
		bypass     bool
	}{
		{name: "nothing forbids", connection: tcp("a", "b", 80), allowed: true},
		{name: "isolation", groups: map[string][]string{"g": {"b"}},
			onGroups:   map[string][]string{"g": {"to-lport 2/1000 drop outport == @g"}},
			connection: tcp("a", "b", 80), trail: "s1 to-lport 2/1000 drop"},
		{name: "isolation of another", groups: map[string][]string{"g": {"c"}},
			onGroups:   map[string][]string{"g": {"to-lport 2/1000 drop outport == @g"}},
			connection: tcp("a", "b", 80), allowed: true},
		{name: "an exception", groups: map[string][]string{"g": {"b"}},
			onGroups: map[string][]string{"g": {"to-lport 2/1000 drop outport == @g", "to-lport 2/1001 allow-related " +
				"outport == @g && ip4.src == $g_ip4", "to-lport 2/1001 allow-related outport == @g && tcp.dst == 80"}},
			connection: tcp("a", "b", 80), allowed: true, trail: "s1 to-lport 2/1001 allow-related"},
		{name: "a group's addresses", groups: map[string][]string{"g": {"b"}, "h": {"a"}},
			onGroups:   map[string][]string{"g": {"to-lport 2/1000 reject outport == @g && ip4.src == $h_ip4"}},
			connection: tcp("a", "b", 80), trail: "s1 to-lport 2/1000 reject"},
		{name: "pass goes to the next tier", groups: map[string][]string{"g": {"b"}},
			onGroups: map[string][]string{"g": {"to-lport 1/9 pass outport == @g", "to-lport 1/8 drop outport == @g",
				"to-lport 3/1 drop outport == @g"}},
			connection: tcp("a", "b", 80), trail: "s1 to-lport 1/9 pass; s1 to-lport 3/1 drop"},
		{name: "allow ends the tiers", groups: map[string][]string{"g": {"b"}},
			onGroups:   map[string][]string{"g": {"to-lport 0/1 allow outport == @g", "to-lport 1/8 drop outport == @g"}},
			connection: tcp("a", "b", 80), allowed: true, trail: "s1 to-lport 0/1 allow"},
		{name: "pass at the end allows", groups: map[string][]string{"g": {"b"}},
			onGroups:   map[string][]string{"g": {"to-lport 3/1 pass outport == @g"}},
			connection: tcp("a", "b", 80), allowed: true, trail: "s1 to-lport 3/1 pass"},
		{name: "egress comes first", groups: map[string][]string{"g": {"a", "c"}},
			onGroups:   map[string][]string{"g": {"from-lport/lb 2/1 drop inport == @g", "to-lport 2/1 drop outport == @g"}},
			connection: tcp("a", "c", 80), trail: "s1 from-lport after load balancing 2/1 drop"},
		{name: "both directions", groups: map[string][]string{"g": {"a", "c"}},
			onGroups: map[string][]string{"g": {"from-lport/lb 2/1 allow-related inport == @g",
				"to-lport 2/1 drop outport == @g"}},
			connection: tcp("a", "c", 80), trail: "s1 from-lport after load balancing 2/1 allow-related; s2 to-lport 2/1 drop"},
		{name: "to the outside", groups: map[string][]string{"g": {"a"}},
			onGroups:   map[string][]string{"g": {"from-lport 0/1 drop ip4.dst == 198.51.100.0/24"}},
			connection: tcp("a", "", 80), trail: "s1 from-lport 0/1 drop"},
		{name: "from the outside", groups: map[string][]string{"g": {"c"}},
			onGroups:   map[string][]string{"g": {"to-lport 0/1 drop ip4.src == 198.51.100.0/24"}},
			connection: tcp("", "c", 80), trail: "s2 to-lport 0/1 drop"},
		{name: "before load balancing", groups: map[string][]string{"g": {"a"}},
			onGroups: map[string][]string{"g": {"from-lport 0/1 drop ip4.dst == 10.96.0.10 && tcp.dst == 80",
				"from-lport/lb 0/1 drop ip4"}},
			connection: vip(tcp("a", "b", 8080), "10.96.0.10:80"), trail: "s1 from-lport 0/1 drop"},
		{name: "after load balancing", groups: map[string][]string{"g": {"a"}},
			onGroups: map[string][]string{"g": {"from-lport 0/1 drop tcp.dst == 8080", "from-lport/lb 0/1 drop ip4.dst == " +
				"10.244.0.4 && tcp.dst == 8080"}},
			connection: vip(tcp("a", "b", 8080), "10.96.0.10:80"), trail: "s1 from-lport after load balancing 0/1 drop"},
		{name: "a stateless ACL keeps the packet from the load balancer", groups: map[string][]string{"g": {"a"}},
			onGroups:   map[string][]string{"g": {"from-lport/lb 3/1 allow-stateless ip4.dst == 10.96.0.10"}},
			connection: vip(tcp("a", "b", 8080), "10.96.0.10:80"), bypass: true},
		{name: "hairpin", groups: map[string][]string{"g": {"a"}},
			onGroups: map[string][]string{"g": {"from-lport/lb 0/1 drop 1", "to-lport 0/2 drop ip4.src == 10.244.0.3",
				"to-lport 0/1 allow ip4.src == 169.254.169.5"}},
			connection: hairpinned(vip(tcp("a", "a", 8080), "10.96.0.10:80")), allowed: true, trail: "s1 to-lport 0/1 allow"},
		{name: "a switch's own ACL", onSwitch: []string{"from-lport 0/1 drop tcp.dst == 80"},
			connection: tcp("a", "c", 80), trail: "s1 from-lport 0/1 drop"},
		{name: "entering by the router", onSwitch: []string{"from-lport 0/1 drop tcp.dst == 80"},
			connection: tcp("c", "a", 80), trail: "s1 from-lport 0/1 drop"},
		{name: "leaving by the router", onSwitch: []string{`to-lport 0/1 drop outport == "s1-r"`},
			connection: tcp("a", "c", 80), trail: "s1 to-lport 0/1 drop"},
		{name: "outport is not known on the way in", onSwitch: []string{`from-lport 0/1 drop outport == "b"`},
			connection: tcp("a", "b", 80), allowed: true},
		{name: "an ACL that mentions a group without a port on the switch", groups: map[string][]string{"g": {"b"},
			"far": {"c"}},
			onGroups:   map[string][]string{"g": {"to-lport 0/1 drop outport == @g || outport == @far"}},
			connection: tcp("a", "b", 80), allowed: true},
		{name: "neighbour discovery", onSwitch: []string{"from-lport 0/1 drop 1"},
			connection: Connection{Packet: ask6}, allowed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed()
			for name, ports := range c.groups {
				g := b.group(name, ports...)
				for _, text := range c.onGroups[name] {
					b.acl(&g.ACLs, text)
				}
			}
			for _, text := range c.onSwitch {
				b.acl(&b.Switches[0].ACLs, text)
			}
			tables, err := New(b.Rows)
			if err != nil {
				t.Fatal(err)
			}
			v := tables.Judge(c.connection)
			if v.Allowed != c.allowed || trail(v) != c.trail || v.Ambiguous != nil || v.Unread != nil ||
				(v.Bypass != nil) != c.bypass {
				t.Errorf("%t by %q, ambiguous %v, unread %v, bypass %v; want %t by %q, bypass %t", v.Allowed, trail(v), v.Ambiguous,
					v.Unread, v.Bypass, c.allowed, c.trail, c.bypass)
			}
		})
	}
}

func TestAmbiguous(t *testing.T) {
	b := newBed()
	for _, text := range []string{"to-lport 0/5 allow tcp", "to-lport 0/5 drop tcp.dst == 80",
		"to-lport 0/5 allow-related ip4", "to-lport 0/4 reject ip4", "to-lport 0/5 pass udp"} {
		b.acl(&b.Switches[0].ACLs, text)
	}
	tables, err := New(b.Rows)
	if err != nil {
		t.Fatal(err)
	}
	v := tables.Judge(tcp("a", "b", 80))
	if len(v.Ambiguous) != 1 || len(v.Ambiguous[0]) != 2 || v.Ambiguous[0][0].Action == v.Ambiguous[0][1].Action {
		t.Errorf("ambiguous %v, want allow and drop", v.Ambiguous)
	}
	if v := tables.Judge(tcp("a", "b", 81)); v.Ambiguous != nil || !v.Allowed {
		t.Errorf("allowed %t, ambiguous %v; allow and allow-related are one", v.Allowed, v.Ambiguous)
	}
}

func TestUnread(t *testing.T) {
	b := newBed()
	for _, text := range []string{"to-lport 0/9 drop ct.new", "to-lport 0/5 drop ip4", "to-lport 0/4 drop reg0 == 1",
		"to-lport 0/9 drop ip4 &"} {
		b.acl(&b.Switches[0].ACLs, text)
	}
	tables, err := New(b.Rows)
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "ct.new") || !strings.Contains(err.Error(),
		"'&' has no place") {
		t.Errorf("error %v, want those that cannot be read", err)
	}
	v := tables.Judge(tcp("a", "b", 80))
	if v.Allowed || len(v.Unread) != 1 || v.Unread[0].Text != "ct.new" {
		t.Errorf("allowed %t, unread %v; want the one before what decides", v.Allowed, v.Unread)
	}
}

func TestBadRows(t *testing.T) {
	b := newBed()
	g := b.group("g", "b", "gone")
	g.ACLs = []string{"gone"}
	b.acl(&g.ACLs, "to-lport 0/1 drop outport == @nobody && ip4.src == $nothing")
	b.acl(&g.ACLs, "to-lport 0/1 drop ip4.src == $mixed")
	b.acl(&g.ACLs, "to-lport 7/1 drop ip4")
	b.AddressSets = []*nb.AddressSet{{Name: "mixed", Addresses: []string{"10.0.0.1", "fd00::1", "web"}}}
	b.Switches[0].Ports = append(b.Switches[0].Ports, "port-lost")
	tables, err := New(b.Rows)
	for _, want := range []string{
		"port group g has port port-gone", "port group g has ACL gone", "no port group nobody", "no address set nothing",
		"address set mixed has values that do not fit ip4.src", `address set mixed: address "web"`,
		"tier 7: OVN has tiers 0 to 3", "switch s1 has port port-lost",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if v := tables.Judge(tcp("a", "b", 80)); !v.Allowed {
		t.Errorf("refused by %s, which OVN leaves out", trail(v))
	}
}

func TestFromChanges(t *testing.T) {
	const policy, pods, node ovsdb.Owner = "NetworkPolicy/prod/web", "Selection/web", "Node/l1"
	group := ovsdb.ID(nb.PortGroupTable, pods, "ports")
	set := ovsdb.ID(nb.AddressSetTable, pods, "ip4")
	pod := func(name, address string) ovsdb.Change {
		owner := ovsdb.Owner("Pod/prod/" + name)
		port := ovsdb.ID(nb.LogicalSwitchPortTable, owner, "uid")
		return ovsdb.Change{
			Owner: owner,
			Rows: []ovsdb.Row{{Key: "uid", Model: &nb.LogicalSwitchPort{Name: name,
				Addresses: []string{"0a:58:0a:f4:00:03 " + address}}}},
			Memberships: []ovsdb.Membership{
				{Table: nb.LogicalSwitchTable, UUID: ovsdb.ID(nb.LogicalSwitchTable, node, "switch"), Column: "ports",
					Values: []string{port}},
				{Table: nb.PortGroupTable, UUID: group, Column: "ports", Values: []string{port}},
				{Table: nb.AddressSetTable, UUID: set, Column: "addresses", Values: []string{address}},
			},
		}
	}
	changes := []ovsdb.Change{
		pod("a", "10.244.0.3"), pod("b", "10.244.0.4"),
		{Owner: pods, Rows: []ovsdb.Row{{Key: "ports", Model: &nb.PortGroup{Name: "pods_web"}},
			{Key: "ip4", Model: &nb.AddressSet{Name: "addrs_web_ip4"}}}},
		{Owner: policy,
			Rows: []ovsdb.Row{{Key: "ingress/0", Model: &nb.ACL{Direction: nb.ACLDirectionToLport, Tier: 2, Priority: 1001,
				Action: nb.ACLActionDrop,
				Match:  "outport == @pods_web && ip4.src == $addrs_web_ip4 && tcp.dst == 80"}}},
			Memberships: []ovsdb.Membership{{Table: nb.PortGroupTable, UUID: group, Column: "acls",
				Values: []string{ovsdb.ID(nb.ACLTable, policy, "ingress/0")}}}},
	}
	rows, err := FromChanges(changes)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := New(rows)
	if err != nil {
		t.Fatal(err)
	}
	v := tables.Judge(tcp("a", "b", 80))
	if v.Allowed || len(v.Steps) != 1 || v.Steps[0].Rule.Owner != string(policy) || v.Steps[0].Rule.Key != "ingress/0" ||
		v.Steps[0].Rule.Group != "pods_web" {
		t.Errorf("allowed %t by %v", v.Allowed, v.Steps)
	}
	if v := tables.Judge(tcp("a", "b", 81)); !v.Allowed {
		t.Errorf("refused by %v", v.Steps)
	}
	without := slices.DeleteFunc(slices.Clone(changes), func(c ovsdb.Change) bool { return c.Owner == pods })
	if _, err := FromChanges(without); err == nil || !strings.Contains(err.Error(),
		"Pod/prod/a has values for ports of Port_Group "+group) {
		t.Errorf("error %v, want the missing group named", err)
	}
}

// BenchmarkJudge is a connection under 200 ACLs; reading them, too.
func BenchmarkJudge(b *testing.B) {
	d := newBed()
	for i := range 20 {
		g := d.group(fmt.Sprintf("g%d", i), "a", "b", "c")
		d.AddressSets = append(d.AddressSets, &nb.AddressSet{Name: fmt.Sprintf("addrs%d", i), Addresses: []string{"10.0.0.1",
			"10.0.0.2"}})
		for j := range 5 {
			for _, kind := range []string{"from-lport/lb", "to-lport"} {
				port := map[string]string{"from-lport/lb": "inport", "to-lport": "outport"}[kind]
				d.acl(&g.ACLs, fmt.Sprintf("%s 2/%d allow-related %s == @g%d && (ip4.src == {$addrs%d, 10.9.0.0/16} || ip6.src "+
					"== fd00::/64) && tcp.dst == {%d, 443}", kind, 1001+j, port, i, i, 80+j))
			}
		}
	}
	b.Run("judge", func(b *testing.B) {
		tables, err := New(d.Rows)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			tables.Judge(tcp("a", "c", 80))
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := New(d.Rows); err != nil {
				b.Fatal(err)
			}
		}
	})
}
