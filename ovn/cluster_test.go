package ovn

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/cases"
)

// TestWholeCluster shows all of the Northbound as text: what an operator sees.
func TestWholeCluster(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*settings.Config)
		fill func(*world)
		told []string // problems
	}{
		{"policies", ovntest.Dual, func(w *world) { policiesWorld(t, w) }, []string{"NetworkPolicy prod/db BadPolicy",
			"ClusterNetworkPolicy guard SamePriority", "ClusterNetworkPolicy guests SamePriority"}},
		{"ipv4", nil, func(w *world) {
			l1, l2 := w.node("l1", "10.244.0.0/24"), w.node("l2", "10.244.1.0/24")
			l1.Facts = ovntest.Facts(1, false)
			w.put(l1, l2, w.pod("default", "web-1", "l1"), w.pod("default", "web-2", "l2"), w.pod("kube-system", "dns", "l2"))
			w.put(w.service("web", "10.96.0.10"),
				w.slice("web-a", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
					ready("10.244.0.3", "l1"), ready("10.244.1.3", "l2")))
		}, nil},
		{"dual", ovntest.Dual, func(w *world) {
			l1, l2 := w.node("l1", "10.244.0.0/24", "fd00:10:244::/64"), w.node("l2", "fd00:10:244:1::/64", "10.244.1.0/24")
			l1.Facts, l2.Facts = ovntest.Facts(1, true), ovntest.Facts(2, true)
			w.put(l1, l2, w.pod("default", "web-1", "l1"), w.pod("default", "web-2", "l2"))
			dns := w.service("dns", "10.96.0.10", "fd00:10:96::a")
			dns.Ports = []objects.ServicePort{{Name: "dns", Protocol: "udp", Port: 53}, {Name: "dns-tcp", Protocol: "tcp",
				Port: 53}, {Name: "sigtran", Protocol: "sctp", Port: 2905}}
			ports := []objects.ServicePort{{Name: "dns", Protocol: "udp", Port: 5353}, {Name: "dns-tcp", Protocol: "tcp",
				Port: 5353}, {Name: "sigtran", Protocol: "sctp", Port: 2905}}
			w.put(dns, w.slice("dns-4", "dns", ports, ready("10.244.1.3", "l2")), w.slice("dns-6", "dns", ports,
				ready("fd00:10:244:1::3", "l2")))
			local := w.service("local", "10.96.0.11")
			local.InternalLocal = true
			w.put(local, w.slice("local-a", "local", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 80}},
				ready("10.244.0.3", "l1")))
		}, nil},
		{"mixed", func(c *settings.Config) { ovntest.Dual(c); withShared(c) }, mixedWorld, []string{"Node w1 WindowsDatapath",
			"Node w2 WindowsDatapath", "Service default/dns NoSCTPOnWindows"}},
		{"ipv6", func(c *settings.Config) {
			c.PodCIDRs, c.ServiceCIDRs, c.AllocateNodeCIDRs = []string{"fd00:10:244::/48"}, []string{"fd00:10:96::/112"}, true
		}, func(w *world) {
			w.put(w.node("l1"), w.node("l2"), w.pod("default", "web-1", "l1"))
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.fill(w)
			cluster, engine := cold(t, ovntest.Settings(t, c.edit), w)
			golden(t, c.name+".txt", ovsdb.Dump(engine.Client()))
			w.absorb(cluster)
			if r := w.reasons(); !slices.Equal(r, c.told) {
				t.Errorf("problems %q, want %q", r, c.told)
			}
		})
	}
}

var lives = flag.Uint64("lives", 20, "how many random lives of clusters are played")

// TestEventsComeToTheSameAsAColdStart plays random lives of clusters, event by event in batches, and
// compares with a controller that starts at the end and sees only what is left.
func TestEventsComeToTheSameAsAColdStart(t *testing.T) {
	for seed := range cases.Of(*lives) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := ovntest.Settings(t, func(c *settings.Config) {
				ovntest.Dual(c)
				withShared(c)
				c.AllocateNodeCIDRs, c.NodeCIDRMaskIPv4 = true, 28 // small: pools run full
				c.AllocateLoadBalancerAddresses = true
			})
			l := newLife(t, s, seed)
			for range 60 {
				l.step()
				windowsIsSpared(t, l.c)
			}
			l.quiesce()
			l.sameAsEver()
			for start, r := range map[string]records.Records{"with the Northbound": engine{Engine: l.engine}.Records(s),
				"without": {}} {
				again := newCluster(s)
				again.begin(r, l.w.Keys(), l.w.Get)
				if notes := again.TakeNotes(); len(notes) > 0 {
					t.Errorf("a new controller %s would write annotations: %v", start, notes)
				}
				before := ovsdb.Dump(l.engine.Client())
				if err := l.engine.Replace(context.Background(), again.takeEverything()); err != nil {
					t.Fatal(err)
				}
				if after := ovsdb.Dump(l.engine.Client()); after != before {
					t.Errorf("events and cold start %s differ:\n%s", start, diff(after, before))
				}
			}
			l.noAddressTwice()
		})
	}
}

// TestNothingRemains of objects that are gone: a controller lives long.
func TestNothingRemains(t *testing.T) {
	s := ovntest.Settings(t, func(c *settings.Config) {
		ovntest.Dual(c)
		withShared(c)
		c.AllocateNodeCIDRs, c.NodeCIDRMaskIPv4, c.AllocateLoadBalancerAddresses = true, 28, true
	})
	l := newLife(t, s, 1)
	for range 60 {
		l.step()
	}
	for _, kind := range []*objects.Kind{objects.ServiceKind, objects.NodeKind, objects.EgressKind, objects.PodKind,
		objects.SliceKind, objects.PoolKind, objects.NamespaceKind, objects.ServiceCIDRKind} {
		var keys []part.Event
		for k := range l.w.objects {
			if of, ok := k.(objects.Key); ok && of.Kind == kind {
				keys = append(keys, k)
				delete(l.w.objects, k)
			}
		}
		l.apply(keys)
	}
	l.quiesce() // what lingers goes
	nobody, _ := cold(t, s, newWorld())
	want := sizesOf(nobody)
	for what, n := range sizesOf(l.c) {
		if n != want[what] && !strings.HasSuffix(what, ".reserved.outside") { // the shared gateway's are nobody's who is gone
			t.Errorf("%s is %d, and %d where there has been nothing", what, n, want[what])
		}
	}
	if want["parts[0].Part.all"] != 0 || len(want) < 100 { // by which it is known that it has looked
		t.Errorf("%d sizes were compared", len(want))
	}
}

// sizesOf are the sizes of all that is remembered, by where it is: of maps and lists, and what is free of numbers.
func sizesOf(c *cluster) map[string]int {
	sizes, seen := map[string]int{}, map[any]bool{}
	var follow func(at string, v reflect.Value)
	follow = func(at string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			follow(at, v.Elem())
		case reflect.Pointer:
			if where := [2]any{v.Type(), v.Pointer()}; !v.IsNil() && !seen[where] {
				seen[where] = true
				follow(at, v.Elem())
			}
		case reflect.Map:
			sizes[at] = v.Len()
		case reflect.Slice:
			if sizes[at] = v.Len(); v.Len() < 100 {
				for i := range v.Len() {
					follow(fmt.Sprintf("%s[%d]", at, i), v.Index(i))
				}
			}
		case reflect.Array:
			for i := range v.Len() {
				follow(fmt.Sprintf("%s[%d]", at, i), v.Index(i))
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[part.Outbox]() { // what it has to say is left to be taken
				follow(at+".Told", v.FieldByName("Told"))
				return
			}
			for i := range v.NumField() {
				follow(strings.TrimPrefix(at+"."+v.Type().Field(i).Name, "."), v.Field(i))
			}
		case reflect.Int:
			if strings.HasSuffix(at, ".Free") {
				sizes[at] = int(v.Int())
			}
		}
	}
	follow("", reflect.ValueOf(c))
	return sizes
}

// life is a cluster to which random things happen.
type life struct {
	t      *testing.T
	w      *world
	c      *cluster
	engine *ovsdb.Engine
	random *rand.Rand
}

func newLife(t *testing.T, s *settings.Settings, seed uint64) *life {
	l := &life{t: t, w: newWorld(), random: rand.New(rand.NewPCG(seed, 7))}
	l.c, l.engine = cold(t, s, l.w)
	return l
}

func (l *life) step() {
	var keys []part.Event
	for range 1 + l.random.IntN(6) {
		keys = append(keys, l.event()...)
	}
	l.apply(keys)
	if l.random.IntN(3) > 0 { // the annotations' own events come, late
		l.apply(l.w.absorb(l.c))
	}
}

func (l *life) apply(keys []part.Event) {
	l.t.Helper()
	l.c.update(keys, l.w.Get)
	if err := l.engine.Apply(context.Background(), l.c.takeChanges()); err != nil {
		l.t.Fatal(err)
	}
}

// quiesce lets all annotations be written, as they are before a controller ends in peace.
func (l *life) quiesce() {
	for range 10 {
		touched := append(l.w.absorb(l.c), l.c.TakeExpected()...)
		if len(touched) == 0 {
			return
		}
		l.apply(touched)
	}
	l.t.Fatal("annotations do not come to rest")
}

func (l *life) event() []part.Event {
	w, n := l.w, l.random.IntN
	number := n(4)
	nodeName := fmt.Sprintf("n%d", number)
	podName, serviceName := fmt.Sprintf("p%d", n(40)), fmt.Sprintf("s%d", n(5))
	switch n(16) {
	case 12:
		return l.toggle(objects.Key{Kind: objects.NamespaceKind, Name: "default"},
			w.namespace("default", fmt.Sprint("team=", n(2))))
	case 13:
		name := fmt.Sprint("e", n(4))
		e := w.egressIP(name, []string{"", "team=0", "team=1"}[n(3)], [][]string{{"203.0.113.20"}, {"2001:db8::20"},
			{"203.0.113.21", "2001:db8::21"}, {"198.51.100.1"}}[n(4)]...)
		if n(2) == 0 {
			e.Pods = must(parseSelector("app=web"))
		}
		if before, ok := w.objects[objects.Key{Kind: objects.EgressKind, Name: name}].(*objects.EgressIP); ok && n(2) == 0 {
			e.UID, e.Generation = before.UID, before.Generation+1
		}
		return l.toggle(objects.Key{Kind: objects.EgressKind, Name: name}, e)
	case 14:
		name := fmt.Sprint("a", n(3))
		return l.toggle(objects.Key{Kind: objects.PoolKind, Name: name},
			w.addressPool(name, [][]string{{"203.0.113.40/31"}, {"203.0.113.20-203.0.113.22", "2001:db8::40/126"},
				{"203.0.113.41-203.0.113.44", "10.244.0.0/24"}}[n(3)]...))
	case 15:
		s := w.service(fmt.Sprint("b", n(5)), fmt.Sprintf("10.96.1.%d", 10+n(5)))
		s.Balancer = objects.LoadBalancer{Wanted: n(4) > 0, Families: []string{"4", "6", "4,6"}[n(3)], Local: n(2) == 0}
		k := objects.Key{Kind: objects.ServiceKind, Name: "default/" + s.Name}
		if before, ok := w.objects[k].(*objects.Service); ok && n(2) == 0 {
			s.UID, s.Balancer.Ingress = before.UID, before.Balancer.Ingress
		}
		return l.toggle(objects.Key{Kind: objects.ServiceKind, Name: "default/" + s.Name}, s)
	case 0:
		return l.toggle(objects.Key{Kind: objects.NodeKind, Name: nodeName}, w.node(nodeName))
	case 1:
		if before, ok := w.objects[objects.Key{Kind: objects.NodeKind, Name: nodeName}].(*objects.Node); ok {
			after := *before
			after.Facts = l.facts(1 + number)
			after.OS = []string{"", contract.Linux, contract.Windows}[n(3)]
			after.Gateway = []string{"", "true", "true", "false", "no"}[n(5)]
			after.Ready = n(3) > 0
			after.Labels = objects.NewLabelSet(labelMap([][]string{nil, {"weft.net/egress=x"}, {"weft.net/egress="}}[n(3)]))
			after.Zone = []string{"", "z1", "z2"}[n(3)]
			return w.put(&after)
		}
	case 2, 3, 4, 5:
		p := w.pod("default", podName, nodeName)
		p.Labels = objects.NewLabelSet(labelMap([][]string{nil, {"app=web"}}[n(2)]))
		if n(2) == 0 {
			p.HostPorts = []objects.HostPort{{Protocol: []objects.Protocol{"tcp", "udp", "sctp"}[n(3)], IP: netip.Addr{},
				Port: []uint16{8000, 8001, 30000, 8080}[n(4)], Into: 80}}
		}
		return l.toggle(objects.Key{Kind: objects.PodKind, Name: "default/" + podName}, p)
	case 6: // the same name, a new pod
		return w.put(w.pod("default", podName, nodeName))
	case 7:
		if before, ok := w.objects[objects.Key{Kind: objects.PodKind, Name: "default/" + podName}].(*objects.Pod); ok {
			after := *before
			switch n(3) {
			case 0:
				after.Completed = true
			case 1:
				after.Network = ""
			case 2:
				after.Network = `{"mac":"","addresses":["10.244.0.5/28"],"gateways":[]}`
			}
			return w.put(&after)
		}
	case 9:
		name := fmt.Sprintf("c%d", number)
		ranges := []string{"10.96.0.0/16", "10.97.0.0/16", "10.97.4.0/24", "192.0.2.0/30", "203.0.113.0/29", "10.244.0.0/20",
			"100.64.1.0/24", "fd00:10:97::/112", "nonsense"}
		return l.toggle(objects.Key{Kind: objects.ServiceCIDRKind, Name: name}, w.serviceCIDR(name, ranges[n(len(ranges))],
			ranges[n(len(ranges))]))
	case 8:
		s := w.service(serviceName, fmt.Sprintf("10.96.0.%d", 10+n(5)))
		s.InternalLocal = n(2) == 0
		s.Ports[0].Protocol = []objects.Protocol{"tcp", "udp", "sctp"}[n(3)]
		s.ClientIP = n(4) == 0
		s.CreationTimestamp = metav1.NewTime(time.Unix(int64(n(3)), 0))
		s.ExternalLocal = n(2) == 0
		if n(2) == 0 {
			s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: uint16(30000 + n(3))}}
		}
		if n(2) == 0 {
			s.ExternalIPs = []netip.Addr{netip.MustParseAddr([]string{"192.0.2.200", "192.0.2.201", "192.0.2.1", "203.0.113.2",
				"203.0.113.20", "203.0.113.41"}[n(6)])}
			s.Ports[0].Port = []uint16{80, 8000, 6443}[n(3)]
			if n(2) == 0 {
				s.Ingress, s.SourceRanges = s.ExternalIPs, [][]string{nil, {"192.0.2.0/24"}, {"nonsense"}}[n(3)]
			}
		}
		return l.toggle(objects.Key{Kind: objects.ServiceKind, Name: "default/" + serviceName}, s)
	default:
		name, target := fmt.Sprintf("%s-%d", serviceName, n(2)), []uint16{8080, 80, 8000, 30000}[n(4)]
		if n(8) == 0 {
			name, serviceName, target = "kubernetes", "kubernetes", 6443
		}
		var endpoints []objects.Endpoint
		hint := []objects.Hints{"", "z1,", "z2,", "z1,z2,"}[n(4)]
		onNode := []objects.Hints{"", "", "n1,", "n2,"}[n(4)]
		for range n(4) {
			e := ready(fmt.Sprintf("10.244.%d.%d", n(2), 3+n(5)), nodeName)
			if n(4) == 0 { // a host's
				e.Addr = netip.MustParseAddr([]string{"172.18.0.10", "192.0.2.1", "203.0.113.2", "192.0.2.200", "10.96.0.11",
					"203.0.113.41"}[n(6)])
			}
			e.Ready, e.Terminating = n(3) > 0, n(2) == 0
			e.Zones, e.Nodes = hint, onNode
			endpoints = append(endpoints, e)
		}
		return l.toggle(objects.Key{Kind: objects.SliceKind, Name: "default/" + name},
			w.slice(name, serviceName, []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: target},
				{Name: "http", Protocol: "udp", Port: target}, {Name: "http", Protocol: "sctp", Port: target}}, endpoints...))
	}
	return nil
}

// facts are some of node number n's.
func (l *life) facts(number int) string {
	return ovntest.EditFacts(number, l.random.IntN(2) == 0, func(f *contract.NodeFacts) {
		f.OS = []string{"", contract.Linux, contract.Windows}[l.random.IntN(3)]
		f.Gateway.HostAddresses, f.Gateway.Routed = l.random.IntN(2) == 0, l.random.IntN(3) == 0
		if l.random.IntN(3) == 0 {
			f.Gateway, f.SharedGateway = nil, true
		}
	})
}

// toggle deletes an object that is there, mostly, and creates one that is not.
func (l *life) toggle(k objects.Key, o any) []part.Event {
	if _, ok := l.w.objects[k]; ok && l.random.IntN(3) > 0 {
		delete(l.w.objects, k)
		return []part.Event{k}
	}
	return l.w.put(o)
}

func (l *life) noAddressTwice() {
	l.t.Helper()
	holders := map[netip.Addr]string{}
	for name, p := range l.c.pods.All() {
		for _, a := range contract.Addrs(p.Addresses()) {
			if other, ok := holders[a]; ok {
				l.t.Errorf("%s and %s both have %s", name, other, a)
			}
			holders[a] = name
		}
	}
	for name, p := range l.c.pods.All() {
		pools := within(within(reflect.ValueOf(p), "node"), "pools").Interface().([]*ipam.SubnetPool)
		if len(p.Addresses()) == 0 && len(pools) > 0 && pools[0].Pool.Free > 0 && pools[1].Pool.Free > 0 {
			l.t.Errorf("%s waits while its node has free addresses", name)
		}
	}
	if !slices.IsSorted(l.c.nodes.Names()) {
		l.t.Errorf("node names out of order: %s", l.c.nodes.Names())
	}
}
