package acl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/model"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// northbound is a real Northbound with ovn-northd: ports a and b on switch s1, c and d on s2, a router
// between them, and on s1 a load balancer from 10.96.0.10:80 to port 8080 of c, and from 10.96.0.11:80 to that of b.
type northbound struct {
	t                      *testing.T
	northbound, southbound *ovsdbtest.Process
	client                 *ovsdb.Client
	engine                 *ovsdb.Engine
}

func newNorthbound(t *testing.T) *northbound {
	d := ovsdbtest.Northbound(t)
	n := &northbound{t: t, northbound: ovsdbtest.Server(t, d), southbound: ovsdbtest.Server(t, ovsdbtest.Southbound(t))}
	ovsdbtest.Northd(t, n.northbound, n.southbound)
	n.client = ovsdbtest.Connect(t, d, n.northbound.Endpoint,
		ovsdb.Table{Model: &nb.LogicalSwitch{}, Columns: []string{"name"}, Sets: []string{"ports", "acls", "load_balancer"}},
		ovsdb.Table{Model: &nb.LogicalSwitchPort{}, Columns: []string{"name", "type", "addresses", "options"}},
		ovsdb.Table{Model: &nb.LogicalRouter{}, Columns: []string{"name"}, Sets: []string{"ports"}},
		ovsdb.Table{Model: &nb.LogicalRouterPort{}, Columns: []string{"name", "mac", "networks"}},
		ovsdb.Table{Model: &nb.LoadBalancer{}, Columns: []string{"name", "protocol", "vips"}},
		ovsdb.Table{Model: &nb.PortGroup{}, Columns: []string{"name"}, Sets: []string{"ports", "acls"}},
		ovsdb.Table{Model: &nb.AddressSet{}, Columns: []string{"name"}, Sets: []string{"addresses"}},
		ovsdb.Table{Model: &nb.ACL{}, Columns: []string{"direction", "priority", "tier", "match", "action", "options"}})
	n.engine = ovsdb.NewEngine(n.client)
	return n
}

// write makes changes all that the Northbound has, and waits for the logical flows.
func (n *northbound) write(changes []ovsdb.Change) {
	n.t.Helper()
	if err := n.engine.Replace(context.Background(), changes); err != nil {
		n.t.Fatal(err)
	}
	ovsdbtest.Run(n.t, "ovn-nbctl", "--timeout=300", "--db="+n.northbound.Endpoint, "--wait=sb", "sync")
}

// live are the rows as listed off the Northbound.
func (n *northbound) live() Rows {
	return Rows{
		ACLs: ovsdb.List[nb.ACL](n.client, nil), PortGroups: ovsdb.List[nb.PortGroup](n.client, nil),
		AddressSets: ovsdb.List[nb.AddressSet](n.client, nil),
		Ports:       ovsdb.List[nb.LogicalSwitchPort](n.client, nil), Switches: ovsdb.List[nb.LogicalSwitch](n.client, nil),
	}
}

var macs = map[string]string{"a": "0a:58:0a:f4:00:03", "b": "0a:58:0a:f4:00:04", "c": "0a:58:0a:f4:01:03",
	"d": "0a:58:0a:f4:01:04"}

func home(port string) string { return map[string]string{"a": "1", "b": "1", "c": "2", "d": "2"}[port] }

// trace asks ovn-trace what becomes of a connection.
func (n *northbound) trace(c Connection) string {
	n.t.Helper()
	flow := c.Packet
	if c.VIP.IsValid() {
		flow.Dst, flow.DstPort = c.VIP.Addr(), c.VIP.Port()
	}
	next := "0a:58:00:00:00:0" + home(c.Inport)
	if home(c.Inport) == home(c.Outport) && !c.VIP.IsValid() {
		next = macs[c.Outport]
	}
	text := fmt.Sprintf("%s && eth.src == %s && eth.dst == %s", microflow(flow), macs[c.Inport], next)
	return ovsdbtest.Run(n.t, "ovn-trace", "--no-friendly-names", "--db="+n.southbound.Endpoint, "--ct=new", "--ct=new",
		"--ct=new", "--ct=new", "--ct=new", text)
}

// desired collects what an owner must have.
type desired struct{ ovsdb.Change }

func (d *desired) add(table, key string, m libovsdb.Model) (uuid string) {
	d.Rows = append(d.Rows, ovsdb.Row{Key: key, Model: m})
	return ovsdb.ID(table, d.Owner, key)
}

func (d *desired) member(table, uuid, column string, values ...string) {
	d.Memberships = append(d.Memberships, ovsdb.Membership{Table: table, UUID: uuid, Column: column, Values: values})
}

// topology is what all cases share; it gives the UUIDs of ports and switches by name.
func topology() (ovsdb.Change, map[string]string) {
	d := &desired{ovsdb.Change{Owner: "Topology/test"}}
	uuids := map[string]string{}
	router := d.add(nb.LogicalRouterTable, "r", &nb.LogicalRouter{Name: "r"})
	for _, s := range []string{"1", "2"} {
		name := "s" + s
		uuids[name] = d.add(nb.LogicalSwitchTable, name, &nb.LogicalSwitch{Name: name})
		d.member(nb.LogicalRouterTable, router, "ports", d.add(nb.LogicalRouterPortTable, "r"+s,
			&nb.LogicalRouterPort{Name: "r" + s, MAC: "0a:58:00:00:00:0" + s,
				Networks: []string{map[string]string{"1": "10.244.0.1/24", "2": "10.244.1.1/24"}[s],
					map[string]string{"1": "fd00::1/64", "2": "fd00:1::1/64"}[s]}}))
		d.member(nb.LogicalSwitchTable, uuids[name], "ports", d.add(nb.LogicalSwitchPortTable, name+"r",
			&nb.LogicalSwitchPort{Name: name + "r", Type: "router",
				Addresses: []string{"router"}, Options: map[string]string{"router-port": "r" + s}}))
	}
	for port, mac := range macs {
		uuids[port] = d.add(nb.LogicalSwitchPortTable, port, &nb.LogicalSwitchPort{Name: port,
			Addresses: []string{fmt.Sprintf("%s %s %s", mac, ips[port][0], ips[port][1])}})
		d.member(nb.LogicalSwitchTable, uuids["s"+home(port)], "ports", uuids[port])
	}
	protocol := "tcp"
	d.member(nb.LogicalSwitchTable, uuids["s1"], "load_balancer", d.add(nb.LoadBalancerTable, "lb",
		&nb.LoadBalancer{Name: "lb", Protocol: &protocol, Vips: map[string]string{"10.96.0.10:80": ips["c"][0] + ":8080",
			"10.96.0.11:80": ips["b"][0] + ":8080"}}))
	return d.Change, uuids
}

var ips = map[string][2]string{"a": {"10.244.0.3", "fd00::3"}, "b": {"10.244.0.4", "fd00::4"},
	"c": {"10.244.1.3", "fd00:1::3"}, "d": {"10.244.1.4", "fd00:1::4"}}

// policies makes up port groups, address sets and ACLs.
func (g *generator) policies(uuids map[string]string) ovsdb.Change {
	d := &desired{ovsdb.Change{Owner: "NetworkPolicy/test/some"}}
	groups := map[string]string{}
	for name, ports := range map[string][]string{"ab": {"a", "b"}, "cd": {"c", "d"}, "ac": {"a", "c"}, "d": {"d"},
		"all": {"a", "b", "c", "d"}, "nobody": nil} {
		groups[name] = d.add(nb.PortGroupTable, name, &nb.PortGroup{Name: name})
		for _, p := range ports {
			d.member(nb.PortGroupTable, groups[name], "ports", uuids[p])
		}
	}
	for name, addresses := range map[string][]string{
		"pods_ip4": {"10.244.0.3", "10.244.1.0/24", "10.96.0.10"}, "pods_ip6": {"fd00::3", "fd00:1::/64"}, "empty": nil,
		"mixed": {"10.244.0.3", "fd00::3"}, "macs": {macs["a"]}, "ports": {"80", "53"},
	} {
		set := d.add(nb.AddressSetTable, name, &nb.AddressSet{Name: name})
		d.member(nb.AddressSetTable, set, "addresses", addresses...)
	}
	for i, priority := range g.Perm(40)[:12+g.IntN(20)] { // no two of one priority
		a := &nb.ACL{Tier: g.IntN(4), Priority: 1000 + priority, Action: pick(g, "allow", "allow-related", "allow-related",
			"allow-stateless", "drop", "drop", "reject", "pass", "pass")}
		port := "inport"
		switch g.IntN(3) {
		case 0:
			a.Direction = nb.ACLDirectionFromLport
		case 1:
			a.Direction, a.Options = nb.ACLDirectionFromLport, map[string]string{"apply-after-lb": "true"}
		case 2:
			a.Direction, port = nb.ACLDirectionToLport, "outport"
		}
		group := pick(g, "ab", "cd", "ac", "d", "all", "nobody")
		a.Match = fmt.Sprintf("%s == @%s && (%s || %s) && %s", port, group,
			pick(g, "ip4.src == $pods_ip4", "ip4.dst == {$ac_ip4, 10.96.0.10}", "ip4.src == $all_ip4", "0", "ip4",
				"!(ip4.dst == 10.244.0.0/24)"),
			pick(g, "ip6.src == $pods_ip6", "ip6.dst == {$cd_ip6}", "0", "ip6"),
			pick(g, "ip", "1", "tcp", "(tcp.dst == {80, 443} || udp)", "(sctp || icmp || tcp.dst == 8080)",
				"(tcp.dst >= 80 && tcp.dst <= 90)"))
		if g.IntN(4) == 0 {
			// Routers change Ethernet addresses: Judge leaves them out.
			for a.Match = g.expression(2); strings.Contains(a.Match, "eth.src"); a.Match = g.expression(2) {
			}
		}
		uuid := d.add(nb.ACLTable, fmt.Sprintf("acl/%d", i), a)
		if s := pick(g, "s1", "s2", "", "", "", ""); s != "" {
			d.member(nb.LogicalSwitchTable, uuids[s], "acls", uuid)
		} else {
			d.member(nb.PortGroupTable, groups[group], "acls", uuid)
		}
	}
	return d.Change
}

// connection makes up a connection between two ports.
func (g *generator) connection() Connection {
	ports := []string{"a", "b", "c", "d"}
	g.Shuffle(len(ports), func(i, j int) { ports[i], ports[j] = ports[j], ports[i] })
	from, to, family := ports[0], ports[1], g.IntN(2)
	if g.IntN(5) == 0 {
		return Connection{Packet: Packet{Inport: "b", Outport: "b", Src: addr(ips["b"][0]), Dst: addr(ips["b"][0]),
			Proto: TCP, SrcPort: 40000, DstPort: 8080},
			VIP: netip.MustParseAddrPort("10.96.0.11:80"), Hairpin: addr(ips["b"][0])} // ovn-trace lets the source be
	}
	if g.IntN(5) == 0 {
		from := pick(g, "a", "b")
		return Connection{Packet: Packet{Inport: from, Outport: "c", Src: addr(ips[from][0]), Dst: addr(ips["c"][0]),
			Proto: TCP, SrcPort: 40000, DstPort: 8080},
			VIP: netip.MustParseAddrPort("10.96.0.10:80")}
	}
	p := Packet{Inport: from, Outport: to, Src: addr(ips[from][family]), Dst: addr(ips[to][family]), SrcPort: 40000,
		DstPort: pick[uint16](g, 80, 85, 443, 8080, 53)}
	switch p.Proto = pick[uint8](g, TCP, TCP, UDP, SCTP, ICMP); {
	case p.Proto != ICMP:
	case family == 0:
		p.ICMPType, p.SrcPort, p.DstPort = 8, 0, 0
	default:
		p.Proto, p.ICMPType, p.SrcPort, p.DstPort = ICMPv6, 128, 0, 0
	}
	return Connection{Packet: p}
}

// TestJudgesAsOVN writes made-up ACLs into a Northbound and compares verdicts, and the ACLs that they
// rest on, with ovn-trace on what ovn-northd makes of them.
func TestJudgesAsOVN(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := &generator{rand.New(rand.NewPCG(seed, 0))}
	n := newNorthbound(t)
	shared, uuids := topology()
	refused := 0
	for range 5 {
		changes := []ovsdb.Change{shared, g.policies(uuids)}
		n.write(changes)
		rows, err := FromChanges(changes)
		if err != nil {
			t.Fatal(err)
		}
		tables, _ := New(rows) // the error tells of matches that OVN refuses too
		live, _ := New(n.live())
		for range 8 {
			c := g.connection()
			v := tables.Judge(c)
			if other := live.Judge(c); other.Allowed != v.Allowed || trail(other) != trail(v) {
				t.Errorf("allowed %t by %s; as listed, %t by %s", v.Allowed, trail(v), other.Allowed, trail(other))
			}
			if v.Ambiguous != nil || v.Unread != nil {
				t.Errorf("ambiguous %v, unread %v", v.Ambiguous, v.Unread)
			}
			if !v.Allowed {
				refused++
			}
			if last := len(v.Steps) - 1; c.hairpin() && last >= 0 && v.Steps[last].Stage == ToPort &&
				v.Steps[last].Rule.Action == "reject" {
				continue // ovn-trace follows the reset round and round, until its stack ends
			}
			trace := n.trace(c)
			forth, _, _ := strings.Cut(trace, "reject {") // what follows goes back to the source
			if got := strings.Contains(forth, fmt.Sprintf("output to %q", c.Outport)); got != v.Allowed {
				t.Fatalf("allowed %t by %s\nbut in OVN %t: %s\n%s", v.Allowed, trail(v), got, trace, texts(v))
			}
			rest := trace
			for _, s := range v.Steps {
				if s.Rule.Action == "pass" {
					continue // ovn-trace leaves out a pass that matches everything
				}
				_, after, found := strings.Cut(rest, "("+s.Rule.Text+")")
				if !found {
					t.Fatalf("the trace has not %s in its place: %s\n%s", s.Rule.Text, trace, texts(v))
				}
				rest = after
			}
		}
	}
	if refused < 4 || refused > 36 {
		t.Errorf("%d of 40 connections refused: the cases tell too little", refused)
	}
}

func texts(v Verdict) string {
	var lines []string
	for _, s := range v.Steps {
		lines = append(lines, fmt.Sprintf("%s on %s: %s: %s", s.Stage, s.Switch, s.Rule.Action, s.Rule.Text))
	}
	return strings.Join(lines, "\n")
}
