package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/hosting"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pools"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/cases"
)

// TestAddressesComeToTheSameAsAColdStart plays random lives of what wants addresses of one small network outside:
// AddressPools, EgressIPs, host ports, NodePorts, external addresses, nodes and their gateways. Nodes die and live
// again, and ports move as OVN would move them. Controllers end, at rest or amid their work, with annotations that
// are written late or never. After each step all that there must be is what the changes so far come to. A restart
// at rest writes nothing, neither rows nor annotations, and at the end the Northbound is what a cold start makes of
// the objects that are left.
func TestAddressesComeToTheSameAsAColdStart(t *testing.T) {
	for seed := range cases.Of(*lives) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := newAddressLife(t, seed)
			for range 80 {
				switch l.random.IntN(12) {
				case 0:
					l.rest()
					l.restart()
				case 1:
					l.fail()
				default:
					l.step()
				}
			}
			l.rest()
			l.restart()
			l.noAddressTwice()
			l.noAddressOfTwo()
			l.sameAsEver()
			l.asCold()
		})
	}
}

// addressLife is a life with an OVN that moves ports.
type addressLife struct {
	life
	settings *settings.Settings
	rows     map[ovsdb.Owner]ovsdb.Change
	late     []part.Event    // what is put off
	dead     map[string]bool // chassis
	moved    []part.Event    // ports of which the controller has not heard yet
	told     []string        // the events so far
}

func newAddressLife(t *testing.T, seed uint64) *addressLife {
	s := ovntest.Settings(t, func(c *settings.Config) {
		ovntest.Dual(c)
		withShared(c)
		c.AllocateNodeCIDRs, c.AllocateLoadBalancerAddresses = true, true
	})
	l := &addressLife{life: life{t: t, w: newWorld(), random: rand.New(rand.NewPCG(seed, 13))}, settings: s,
		dead: map[string]bool{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the events were:\n%s", strings.Join(l.told, "\n"))
		}
	})
	l.w.put(l.w.namespace("default"))
	for i := range 3 {
		l.w.put(l.host(i))
	}
	l.c, l.engine = cold(t, s, l.w)
	l.take(map[ovsdb.Owner]ovsdb.Change{}, l.c.takeEverything())
	return l
}

// host is node number i, a Linux node with a gateway.
func (l *addressLife) host(i int) *objects.Node {
	n := l.w.node(fmt.Sprint("n", i))
	n.Facts, n.Ready, n.CreationTimestamp = ovntest.Facts(1+i, true), true, l.now()
	n.Labels = objects.NewLabelSet(labelMap([]string{"weft.net/egress="}))
	return n
}

// now is a time of which several objects may be.
func (l *addressLife) now() metav1.Time { return metav1.NewTime(time.Unix(int64(1000+l.w.uids/2), 0)) }

func (l *addressLife) take(rows map[ovsdb.Owner]ovsdb.Change, changes []ovsdb.Change) {
	for _, change := range changes {
		if rows[change.Owner] = change; len(change.Rows)+len(change.Memberships) == 0 {
			delete(rows, change.Owner)
		}
	}
	l.rows = rows
}

func (l *addressLife) step() {
	var keys []part.Event
	for range 1 + l.random.IntN(3) {
		what, touched := l.event()
		l.told = append(l.told, what)
		keys = append(keys, touched...)
	}
	if l.random.IntN(3) == 0 {
		l.told = append(l.told, "what was put off")
		keys = append(keys, l.late...)
		l.late = nil
	}
	l.apply(keys)
	if l.random.IntN(3) > 0 {
		l.told = append(l.told, "annotations are written")
		l.apply(l.w.absorb(l.c))
	}
}

// apply makes an event's changes, and has OVN follow.
func (l *addressLife) apply(keys []part.Event) {
	l.t.Helper()
	l.c.update(keys, l.w.Get)
	changes := l.c.takeChanges()
	l.late = append(l.late, l.c.TakeExpected()...)
	if err := l.engine.Apply(context.Background(), changes); err != nil {
		l.t.Fatal(err)
	}
	l.take(l.rows, changes)
	l.oneList()
	if l.northd(); l.random.IntN(2) == 0 {
		l.follow()
	}
}

// follow tells the controller of ports that have moved.
func (l *addressLife) follow() {
	l.t.Helper()
	if moved := l.moved; len(moved) > 0 {
		l.moved = nil
		l.told = append(l.told, "ports have moved")
		l.apply(moved)
	}
}

// oneList compares what there must be with what the changes so far come to.
func (l *addressLife) oneList() {
	l.t.Helper()
	all := map[ovsdb.Owner]ovsdb.Change{}
	for _, change := range l.c.takeEverything() {
		if len(change.Rows)+len(change.Memberships) > 0 {
			all[change.Owner] = change
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(l.rows)) {
		if _, there := all[owner]; !there {
			l.t.Fatalf("after %s everything lacks %s", l.told[len(l.told)-1], owner)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(all)) {
		if before, now := rowsText(l.rows[owner]), rowsText(all[owner]); before != now {
			l.t.Fatalf("after %s everything has of %s what no change told:\n%s", l.told[len(l.told)-1], owner, diff(before, now))
		}
	}
}

// rowsText is a change's text, with rows and memberships in order.
func rowsText(change ovsdb.Change) string {
	var lines []string
	for _, r := range change.Rows {
		lines = append(lines, fmt.Sprintf("%T %s %s", r.Model, r.Key, must(json.Marshal(r.Model))))
	}
	for _, m := range change.Memberships {
		lines = append(lines, fmt.Sprintf("%s %s %s %v", m.Table, m.UUID, m.Column, slices.Sorted(slices.Values(m.Values))))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// northd puts each port with a group onto the first chassis of the group that lives.
func (l *addressLife) northd() {
	members, groups := map[string]*nb.HAChassis{}, map[string][]string{}
	now := map[part.Event]string{}
	for owner, change := range l.rows {
		for _, r := range change.Rows {
			if m, ok := r.Model.(*nb.HAChassis); ok {
				members[ovsdb.ID(nb.HAChassisTable, owner, r.Key)] = m
			}
		}
		for _, m := range change.Memberships {
			if m.Table == nb.HAChassisGroupTable {
				groups[m.UUID] = append(groups[m.UUID], m.Values...)
			}
		}
	}
	for owner, change := range l.rows {
		for _, r := range change.Rows {
			port, ok := r.Model.(*nb.LogicalRouterPort)
			if !ok || port.HaChassisGroup == nil {
				continue
			}
			var best *nb.HAChassis
			for _, id := range groups[*port.HaChassisGroup] {
				if m := members[id]; !l.dead[m.ChassisName] && (best == nil || m.Priority > best.Priority) {
					best = m
				}
			}
			if best == nil {
				continue
			}
			switch word, name := part.Split(owner); {
			case word == "EgressIP":
				now[part.Signal{What: egress.Hosting, Name: name}] = best.ChassisName
			case owner == northbound.LivenessOwner:
				now[part.Signal{What: pools.LivenessMoved, Name: r.Key}] = best.ChassisName
			}
		}
	}
	for k := range now {
		if l.w.objects[k] != now[k] {
			l.moved = append(l.moved, k)
		}
	}
	for _, k := range l.hosting() {
		if now[k] == "" {
			l.moved = append(l.moved, k)
			delete(l.w.objects, k)
		}
	}
	for k, chassis := range now {
		l.w.objects[k] = chassis
	}
}

// rest lets all be written that is to be, and all come due that was put off.
func (l *addressLife) rest() {
	l.t.Helper()
	l.told = append(l.told, "rest")
	for range 20 {
		keys := slices.Concat(l.w.absorb(l.c), l.late, l.moved)
		if l.late, l.moved = nil, nil; len(keys) == 0 {
			return
		}
		l.apply(keys)
	}
	l.t.Fatal("the cluster does not come to rest")
}

// hosting are the ports that tell something.
func (l *addressLife) hosting() (keys []part.Event) {
	for k := range l.w.objects {
		if _, ok := k.(part.Signal); ok {
			keys = append(keys, k)
		}
	}
	return keys
}

// next is another controller, as a term begins.
func (l *addressLife) next() []ovsdb.Change {
	chassis := map[part.Event]string{}
	for _, k := range l.hosting() {
		chassis[k] = l.w.objects[k].(string)
	}
	source := hosting.NewSource(l.w, chassis)
	l.c, l.late, l.moved = newCluster(l.settings), nil, nil
	l.c.begin(engine{Engine: l.engine}.Records(l.settings), source.Keys(), source.Get)
	l.c.pods.Seen(engine{Engine: l.engine}.Records(l.settings).Pods)
	return l.c.takeEverything()
}

// restart has another controller lead, of a cluster at rest: it writes nothing.
func (l *addressLife) restart() {
	l.t.Helper()
	l.told = append(l.told, "restart")
	before, rows := ovsdb.Dump(l.engine.Client()), l.rows
	changes := l.next()
	for _, a := range l.c.TakeNotes() {
		l.t.Errorf("a new controller would write to %s: %s", a.Key(), ovntest.Written(a))
	}
	if err := l.engine.Replace(context.Background(), changes); err != nil {
		l.t.Fatal(err)
	}
	if after := ovsdb.Dump(l.engine.Client()); after != before {
		l.t.Errorf("a restart writes:\n%s", diff(before, after))
	}
	if l.take(map[ovsdb.Owner]ovsdb.Change{}, changes); len(l.rows) != len(rows) || l.t.Failed() {
		l.t.Fatalf("%d owners had rows, and %d have", len(rows), len(l.rows))
	}
}

// fail has a controller end amid its work, and events come while none leads. What the old one has handed out is
// written after the next one's first write, or never.
func (l *addressLife) fail() {
	l.t.Helper()
	before := l.c
	what, _ := l.event()
	l.told = append(l.told, what+", while no controller leads")
	changes := l.next()
	if err := l.engine.Replace(context.Background(), changes); err != nil {
		l.t.Fatal(err)
	}
	l.take(map[ovsdb.Owner]ovsdb.Change{}, changes)
	l.late = append(l.late, l.c.TakeExpected()...)
	var keys []part.Event
	if l.random.IntN(2) == 0 {
		l.told = append(l.told, "late annotations of another controller")
		keys = append(keys, l.w.absorb(before)...)
	}
	l.apply(keys)
}

// noAddressOfTwo: an address outside is answered for by one.
func (l *addressLife) noAddressOfTwo() {
	l.t.Helper()
	for k := range l.w.objects {
		if k, ok := k.(objects.Key); ok && k.Kind == objects.EgressKind {
			for _, r := range l.c.changeOf(northbound.EgressOwner(k.Name)).Rows {
				if port, ok := r.Model.(*nb.LogicalRouterPort); ok && r.Key == "external" {
					for _, p := range records.Networks(port) {
						if holder, ok := l.c.pools.Holder(p.Addr()); ok {
							l.t.Errorf("EgressIP %s has %s, and so has Service %s", k.Name, p.Addr(), holder)
						}
					}
				}
			}
		}
	}
	for addr, whose := range l.c.OutsideAddresses() {
		name, _ := l.c.pools.Holder(addr)
		if node, _ := l.c.pools.Announcer(addr); node != "" {
			l.t.Errorf("Service %s has %s announced, which is %s", name, addr, whose)
		}
	}
}

// asCold compares with a controller that starts with the objects alone, and the Northbound's word or without it.
func (l *addressLife) asCold() {
	l.t.Helper()
	for start, r := range map[string]records.Records{"with the Northbound": engine{Engine: l.engine}.Records(l.settings),
		"without": {}} {
		again := newCluster(l.settings)
		again.begin(r, l.w.Keys(), l.w.Get)
		before := ovsdb.Dump(l.engine.Client())
		if err := l.engine.Replace(context.Background(), again.takeEverything()); err != nil {
			l.t.Fatal(err)
		}
		if after := ovsdb.Dump(l.engine.Client()); after != before {
			l.t.Errorf("events and cold start %s differ:\n%s", start, diff(after, before))
		}
	}
}

// outsideAddress is one of those that many want: of pools, of nodes, of EgressIPs.
func (l *addressLife) outsideAddress() netip.Addr {
	list := []string{"203.0.113.20", "203.0.113.21", "203.0.113.22", "203.0.113.23", "203.0.113.2", "192.0.2.2",
		"203.0.113.5"}
	return netip.MustParseAddr(list[l.random.IntN(len(list))])
}

func (l *addressLife) event() (what string, keys []part.Event) {
	w, n := l.w, l.random.IntN
	number := n(4)
	nodeName, serviceName := fmt.Sprint("n", number), fmt.Sprint("s", n(6))
	defer func() { what = fmt.Sprintf("%s %v", what, keys) }()
	switch n(14) {
	case 0:
		return "node", l.toggle(objects.Key{Kind: objects.NodeKind, Name: nodeName}, l.host(number))
	case 1, 2:
		return l.nodeEvent(number)
	case 3:
		chassis := fmt.Sprint("chassis-", 1+number)
		l.dead[chassis] = !l.dead[chassis]
		return fmt.Sprintf("%s is dead: %v", chassis, l.dead[chassis]), nil
	case 4, 5:
		name := fmt.Sprint("a", n(3))
		pool := w.addressPool(name, [][]string{{"203.0.113.20/31"}, {"203.0.113.20-203.0.113.23", "2001:db8::20/126"},
			{"203.0.113.22-203.0.113.24"}, {"203.0.113.4/30"}, {"192.0.2.0/29"}}[n(5)]...)
		pool.Auto, pool.CreationTimestamp = n(4) > 0, l.now()
		return "pool", l.toggle(objects.Key{Kind: objects.PoolKind, Name: name}, pool)
	case 6, 7:
		name := fmt.Sprint("e", n(3))
		e := w.egressIP(name, "", [][]string{{l.outsideAddress().String()}, {l.outsideAddress().String(), "2001:db8::21"}}[n(
			2)]...)
		e.CreationTimestamp = l.now()
		if before, ok := w.objects[objects.Key{Kind: objects.EgressKind, Name: name}].(*objects.EgressIP); ok && n(2) == 0 {
			e.UID, e.Generation, e.CreationTimestamp = before.UID, before.Generation+1, before.CreationTimestamp
		}
		return fmt.Sprintf("EgressIP %v", e.Addresses), l.toggle(objects.Key{Kind: objects.EgressKind, Name: name}, e)
	case 8, 9:
		p := w.pod("default", fmt.Sprint("p", n(8)), nodeName)
		p.CreationTimestamp = l.now()
		at := objects.HostPort{Protocol: []objects.Protocol{"tcp", "udp"}[n(2)], IP: netip.Addr{},
			Port: []uint16{80, 8000, 30000}[n(3)], Into: 80}
		if n(2) == 0 {
			at.IP = l.outsideAddress()
		}
		p.HostPorts = []objects.HostPort{at}
		return fmt.Sprintf("pod with host port %v", at),
			l.toggle(objects.Key{Kind: objects.PodKind, Name: objects.FullName("default", p.Name)}, p)
	case 10, 11:
		name := fmt.Sprintf("%s-%d", serviceName, n(2))
		e := ready(fmt.Sprintf("10.244.%d.%d", n(4), 3+n(3)), nodeName)
		e.Ready, e.Zones, e.Nodes = n(3) > 0, []objects.Hints{"", "", "z1,"}[n(3)], []objects.Hints{"", "", "n1,"}[n(3)]
		if n(3) == 0 {
			e.Addr = l.outsideAddress()
		}
		ports := []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: []uint16{80, 8000}[n(2)]},
			{Name: "http", Protocol: "udp", Port: 80}}
		if n(10) == 0 {
			name, serviceName = "kubernetes", "kubernetes"
		}
		return "slice", l.toggle(objects.Key{Kind: objects.SliceKind, Name: objects.FullName("default", name)},
			w.slice(name, serviceName, ports, e))
	}
	return l.serviceEvent(serviceName)
}

// nodeEvent changes one thing of a node's.
func (l *addressLife) nodeEvent(number int) (what string, keys []part.Event) {
	n := l.random.IntN
	before, ok := l.w.objects[objects.Key{Kind: objects.NodeKind, Name: fmt.Sprint("n", number)}].(*objects.Node)
	if !ok {
		return "nothing", nil
	}
	after := *before
	switch what = []string{"gateway", "ready", "labels", "zone", "operating system", "address"}[n(6)]; what {
	case "gateway":
		after.Facts = ovntest.EditFacts(1+number, true, func(f *contract.NodeFacts) {
			f.Gateway.HostAddresses, f.Gateway.Routed = n(2) == 0, n(3) == 0
			if n(3) == 0 {
				f.Gateway, f.SharedGateway = nil, n(2) == 0
			}
		})
		after.Gateway = []string{"", "true", "false"}[n(3)]
	case "ready":
		after.Ready = !after.Ready
	case "labels":
		after.Labels = objects.NewLabelSet(labelMap([][]string{nil, {"weft.net/egress="},
			{corev1.LabelNodeExcludeBalancers + "="}}[n(3)]))
	case "zone":
		after.Zone = []string{"", "z1", "z2"}[n(3)]
	case "operating system":
		after.OS = []string{"", contract.Windows}[n(2)]
	case "address":
		after.Facts = ovntest.EditFacts(1+number, true, func(f *contract.NodeFacts) {
			f.Addresses = append(f.Addresses, l.outsideAddress())
		})
	}
	return what + " of node", l.w.put(&after)
}

// serviceEvent adds, changes or deletes one of several kinds.
func (l *addressLife) serviceEvent(name string) (what string, keys []part.Event) {
	n := l.random.IntN
	s := l.w.service(name, "10.96.0."+fmt.Sprint(10+name[1]-'0'))
	s.CreationTimestamp = l.now()
	s.Ports[0].Protocol, s.Ports[0].Port = []objects.Protocol{"tcp", "udp"}[n(2)], []uint16{80, 8000}[n(2)]
	s.ClientIP = n(4) == 0
	s.InternalLocal, s.ExternalLocal = n(4) == 0, n(3) == 0
	if n(2) == 0 {
		s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: uint16(30000 + n(2))}}
	}
	switch n(4) {
	case 0:
		s.ExternalIPs = []netip.Addr{l.outsideAddress()}
		what = fmt.Sprintf("Service with %v", s.ExternalIPs)
	default:
		s.Balancer = objects.LoadBalancer{Wanted: n(5) > 0, Families: []string{"4", "4", "4,6"}[n(3)], Local: s.ExternalLocal}
		if n(4) == 0 {
			s.Balancer.Addresses = l.outsideAddress().String()
		}
		what = fmt.Sprintf("load balancer wants %q", s.Balancer.Addresses)
	}
	k := objects.Key{Kind: objects.ServiceKind, Name: objects.FullName("default", name)}
	if before, ok := l.w.objects[k].(*objects.Service); ok && n(3) > 0 {
		s.UID, s.CreationTimestamp, s.Balancer.Ingress, s.Ingress = before.UID, before.CreationTimestamp,
			before.Balancer.Ingress, before.Ingress
	}
	return what, l.toggle(k, s)
}
