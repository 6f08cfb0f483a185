package ovn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovsdb"
)

// TestWholeCluster shows all of the Northbound as text: what an operator sees.
func TestWholeCluster(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Config)
		fill func(*world)
		told []string
	}{
		{"ipv4", nil, func(w *world) {
			l1, l2 := w.node("l1", "10.244.0.0/24"), w.node("l2", "10.244.1.0/24")
			l1.facts = facts(1, false)
			w.put(l1, l2, w.pod("default", "web-1", "l1"), w.pod("default", "web-2", "l2"), w.pod("kube-system", "dns", "l2"))
			w.put(w.service("web", "10.96.0.10"),
				w.slice("web-a", "web", []servicePort{{"http", "tcp", 8080}}, ready("10.244.0.3", "l1"), ready("10.244.1.3", "l2")))
		}, nil},
		{"dual", dual, func(w *world) {
			l1, l2 := w.node("l1", "10.244.0.0/24", "fd00:10:244::/64"), w.node("l2", "fd00:10:244:1::/64", "10.244.1.0/24")
			l1.facts, l2.facts = facts(1, true), facts(2, true)
			w.put(l1, l2, w.pod("default", "web-1", "l1"), w.pod("default", "web-2", "l2"))
			dns := w.service("dns", "10.96.0.10", "fd00:10:96::a")
			dns.ports = []servicePort{{"dns", "udp", 53}, {"dns-tcp", "tcp", 53}, {"sigtran", "sctp", 2905}}
			ports := []servicePort{{"dns", "udp", 5353}, {"dns-tcp", "tcp", 5353}, {"sigtran", "sctp", 2905}}
			w.put(dns, w.slice("dns-4", "dns", ports, ready("10.244.1.3", "l2")), w.slice("dns-6", "dns", ports, ready("fd00:10:244:1::3", "l2")))
			local := w.service("local", "10.96.0.11")
			local.internalLocal = true
			w.put(local, w.slice("local-a", "local", []servicePort{{"http", "tcp", 80}}, ready("10.244.0.3", "l1")))
		}, nil},
		{"mixed", func(c *Config) { dual(c); withShared(c) }, mixedWorld, []string{"Node w1 WindowsDatapath", "Node w2 WindowsDatapath", "Service default/dns NoSCTPOnWindows"}},
		{"ipv6", func(c *Config) {
			c.PodCIDRs, c.ServiceCIDRs, c.AllocateNodeCIDRs = []string{"fd00:10:244::/48"}, []string{"fd00:10:96::/112"}, true
		}, func(w *world) {
			w.put(w.node("l1"), w.node("l2"), w.pod("default", "web-1", "l1"))
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.fill(w)
			cluster, engine := cold(t, testSettings(t, c.edit), w)
			golden(t, c.name+".txt", ovsdb.Dump(engine.Client()))
			w.absorb(cluster)
			if r := w.reasons(); !slices.Equal(r, c.told) {
				t.Errorf("problems %q, want %q", r, c.told)
			}
		})
	}
}

// TestEventsComeToTheSameAsAColdStart plays random lives of clusters, event by event in batches, and
// compares with a controller that starts at the end and sees only what is left.
func TestEventsComeToTheSameAsAColdStart(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := testSettings(t, func(c *Config) {
				dual(c)
				withShared(c)
				c.AllocateNodeCIDRs, c.NodeCIDRMaskIPv4 = true, 28 // small: pools run full
			})
			l := newLife(t, s, seed)
			for range 60 {
				l.step()
				windowsIsSpared(t, l.c)
			}
			l.quiesce()
			for start, r := range map[string]records{"with the Northbound": engine{l.engine}.Records(), "without": {}} {
				again := newCluster(s)
				again.begin(r, l.w.keys(), l.w.get)
				if notes := again.takeNotes(); len(notes) > 0 {
					t.Errorf("a new controller %s would write annotations: %v", start, notes)
				}
				before := ovsdb.Dump(l.engine.Client())
				if err := l.engine.Replace(context.Background(), again.everything()); err != nil {
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
	s := testSettings(t, func(c *Config) { dual(c); withShared(c); c.AllocateNodeCIDRs, c.NodeCIDRMaskIPv4 = true, 28 })
	l := newLife(t, s, 1)
	for range 60 {
		l.step()
	}
	for _, kind := range []kind{serviceKind, nodeKind, podKind, sliceKind} {
		var keys []objectKey
		for k := range l.w.objects {
			if k.kind == kind {
				keys = append(keys, k)
				delete(l.w.objects, k)
			}
		}
		l.apply(keys)
	}
	c := l.c
	for what, n := range map[string]int{
		"nodes": len(c.nodes), "node names": len(c.nodeNames), "unsettled": len(c.unsettled), "pods": len(c.pods),
		"services": len(c.services), "slices": len(c.sliceOf), "local": len(c.local), "told": len(c.told),
		"Windows nodes": len(c.windows), "gateway nodes": len(c.members), "nodes that share": len(c.sharers),
		"Services by datapath": len(c.byDatapath["udp"]) + len(c.byDatapath["sctp"]),
		"dirty":                len(c.dirtyNodes) + len(c.dirtyPods) + len(c.dirtyServices),
		"records":              len(c.records.pods) + len(c.records.nodes),
		"ids":                  c.ids.size - c.ids.free, "subnets": c.cuts[0].pool.size - c.cuts[0].pool.free + c.cuts[1].pool.size - c.cuts[1].pool.free,
	} {
		if n != 0 {
			t.Errorf("%d %s remain", n, what)
		}
	}
}

// life is a cluster to which random things happen.
type life struct {
	t      *testing.T
	w      *world
	c      *cluster
	engine *ovsdb.Engine
	random *rand.Rand
}

func newLife(t *testing.T, s *settings, seed uint64) *life {
	l := &life{t: t, w: newWorld(), random: rand.New(rand.NewPCG(seed, 7))}
	l.c, l.engine = cold(t, s, l.w)
	return l
}

func (l *life) step() {
	var keys []objectKey
	for range 1 + l.random.IntN(6) {
		keys = append(keys, l.event()...)
	}
	l.apply(keys)
	if l.random.IntN(3) > 0 { // the annotations' own events come, late
		l.apply(l.w.absorb(l.c))
	}
}

func (l *life) apply(keys []objectKey) {
	l.t.Helper()
	l.c.update(keys, l.w.get)
	if err := l.engine.Apply(context.Background(), l.c.changes()); err != nil {
		l.t.Fatal(err)
	}
}

// quiesce lets all annotations be written, as they are before a controller ends in peace.
func (l *life) quiesce() {
	for range 10 {
		touched := l.w.absorb(l.c)
		if len(touched) == 0 {
			return
		}
		l.apply(touched)
	}
	l.t.Fatal("annotations do not come to rest")
}

func (l *life) event() []objectKey {
	w, n := l.w, l.random.IntN
	number := n(4)
	nodeName := fmt.Sprintf("n%d", number)
	podName, serviceName := fmt.Sprintf("p%d", n(40)), fmt.Sprintf("s%d", n(5))
	switch n(12) {
	case 0:
		return l.toggle(objectKey{nodeKind, nodeName}, w.node(nodeName))
	case 1:
		if before, ok := w.objects[objectKey{nodeKind, nodeName}].(*node); ok {
			after := *before
			after.facts = l.facts(1 + number)
			after.os = []string{"", contract.Linux, contract.Windows}[n(3)]
			after.gateway = []string{"", "true", "true", "false", "no"}[n(5)]
			return w.put(&after)
		}
	case 2, 3, 4, 5:
		return l.toggle(objectKey{podKind, "default/" + podName}, w.pod("default", podName, nodeName))
	case 6: // the same name, a new pod
		return w.put(w.pod("default", podName, nodeName))
	case 7:
		if before, ok := w.objects[objectKey{podKind, "default/" + podName}].(*pod); ok {
			after := *before
			switch n(3) {
			case 0:
				after.completed = true
			case 1:
				after.network = ""
			case 2:
				after.network = `{"mac":"","addresses":["10.244.0.5/28"],"gateways":[]}`
			}
			return w.put(&after)
		}
	case 8:
		s := w.service(serviceName, fmt.Sprintf("10.96.0.%d", 10+n(5)))
		s.internalLocal = n(2) == 0
		s.ports[0].protocol = []protocol{"tcp", "udp", "sctp"}[n(3)]
		return l.toggle(objectKey{serviceKind, "default/" + serviceName}, s)
	default:
		name := fmt.Sprintf("%s-%d", serviceName, n(2))
		var endpoints []endpoint
		for range n(4) {
			e := ready(fmt.Sprintf("10.244.%d.%d", n(2), 3+n(5)), nodeName)
			e.ready, e.terminating = n(3) > 0, n(2) == 0
			endpoints = append(endpoints, e)
		}
		return l.toggle(objectKey{sliceKind, "default/" + name}, w.slice(name, serviceName, []servicePort{{"http", "tcp", 8080}, {"http", "udp", 8080}, {"http", "sctp", 8080}}, endpoints...))
	}
	return nil
}

// facts are some of node number n's.
func (l *life) facts(number int) string {
	return editFacts(number, l.random.IntN(2) == 0, func(f *contract.NodeFacts) {
		f.OS = []string{"", contract.Linux, contract.Windows}[l.random.IntN(3)]
		if l.random.IntN(3) == 0 {
			f.Gateway, f.SharedGateway = nil, true
		}
	})
}

// toggle deletes an object that is there, mostly, and creates one that is not.
func (l *life) toggle(k objectKey, o any) []objectKey {
	if _, ok := l.w.objects[k]; ok && l.random.IntN(3) > 0 {
		delete(l.w.objects, k)
		return []objectKey{k}
	}
	return l.w.put(o)
}

func (l *life) noAddressTwice() {
	l.t.Helper()
	holders := map[netip.Addr]string{}
	for name, p := range l.c.pods {
		for _, a := range contract.Addrs(p.addresses) {
			if other, ok := holders[a]; ok {
				l.t.Errorf("%s and %s both have %s", name, other, a)
			}
			holders[a] = name
		}
	}
	for name, p := range l.c.pods {
		if len(p.addresses) == 0 && p.node.placed && p.node.pools[0].pool.free > 0 && p.node.pools[1].pool.free > 0 {
			l.t.Errorf("%s waits while its node has free addresses", name)
		}
	}
	if !slices.IsSorted(l.c.nodeNames) {
		l.t.Errorf("node names out of order: %s", l.c.nodeNames)
	}
}
