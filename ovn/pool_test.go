package ovn

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pools"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// balanced is a Service of type LoadBalancer.
func (w *world) balanced(name string, edits ...func(*objects.LoadBalancer)) *objects.Service {
	s := w.service(name, "10.96.1."+fmt.Sprint(10+len(w.objects)))
	s.Balancer = objects.LoadBalancer{Wanted: true, Families: "4"}
	for _, edit := range edits {
		edit(&s.Balancer)
	}
	return s
}

func withBalancers(c *settings.Config) { c.AllocateLoadBalancerAddresses = true }

func (s *scene) external(name string) string {
	if o, ok := s.objects[objects.Key{Kind: objects.ServiceKind, Name: "default/" + name}].(*objects.Service); ok {
		return o.Balancer.Ingress
	}
	return "none"
}

func (s *scene) poolStatus(name string) string {
	s.t.Helper()
	var status v1alpha1.AddressPoolStatus
	o := s.objects[objects.Key{Kind: objects.PoolKind, Name: name}].(*objects.AddressPool)
	if err := json.Unmarshal([]byte(o.Status), &status); err != nil || len(status.Conditions) != 1 {
		s.t.Fatalf("status %q: %v", o.Status, err)
	}
	c := status.Conditions[0]
	return fmt.Sprintf("%s %s used %d free %d", c.Status, c.Reason, status.Used, status.Free)
}

func (s *scene) poolMessage(name string) string {
	return s.objects[objects.Key{Kind: objects.PoolKind, Name: name}].(*objects.AddressPool).Conditions[0].Message
}

// edited is a Service of the scene, changed.
func (s *scene) edited(name string, edit func(*objects.LoadBalancer)) *objects.Service {
	after := *s.objects[objects.Key{Kind: objects.ServiceKind, Name: "default/" + name}].(*objects.Service)
	edit(&after.Balancer)
	return &after
}

// TestAllocationStory: an address is the Service's until it or its type goes.
func TestAllocationStory(t *testing.T) {
	s := newScene(t, withBalancers)
	s.do(s.balanced("web"))
	s.want("without a pool", s.external("web"), "")
	s.wantReasons("Service default/web NoLoadBalancerAddress")

	s.do(s.addressPool("p", "203.0.113.64-203.0.113.65"))
	s.wantReasons()
	s.want("its address", s.external("web"), "203.0.113.64")
	s.want("pool", s.poolStatus("p"), "True InUse used 1 free 1")

	s.do(s.balanced("api"), s.balanced("late"))
	s.want("the next ones", s.external("api")+" "+s.external("late"), "203.0.113.65 ")
	s.wantReasons("Service default/late NoLoadBalancerAddress")
	s.want("pool", s.poolStatus("p"), "True UsedUp used 2 free 0")

	s.restart(nil)
	s.want("after a restart", s.external("web")+" "+s.external("api"), "203.0.113.64 203.0.113.65")
	s.wantReasons("Service default/late NoLoadBalancerAddress")

	s.do(s.edited("web", func(b *objects.LoadBalancer) { *b = objects.LoadBalancer{Ingress: b.Ingress} }))
	s.want("another type", s.external("web"), "")
	s.want("who waited has it", s.external("late"), "203.0.113.64")
	s.wantReasons("Service default/web AddressConflict") // until its status is written
	s.remove(objects.ServiceKind, "default/api")
	s.want("pool", s.poolStatus("p"), "True InUse used 1 free 1")

	s.remove(objects.PoolKind, "p")
	s.want("without its pool it keeps the address", s.external("late"), "203.0.113.64")
	s.wantReasons("Service default/late AddressOfNoPool")
	s.do(s.addressPool("q", "203.0.113.60/30"), s.addressPool("r", "203.0.113.64/30"))
	s.wantReasons()
	s.want("the pool that has it", s.poolStatus("r"), "True InUse used 1 free 3")
}

// TestWhoAllocates: classes, and status that somebody else has written.
func TestWhoAllocates(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*settings.Config)
		of   func(*objects.LoadBalancer)
		want string
		ours bool
		told bool // after a while, that nobody gives it addresses
	}{
		{"off by default", nil, func(*objects.LoadBalancer) {}, "", false, true},
		{"asked for by its class", nil, func(b *objects.LoadBalancer) { b.Class = v1alpha1.PoolClass }, "203.0.113.64", true,
			false},
		{"on", withBalancers, func(*objects.LoadBalancer) {}, "203.0.113.64", true, false},
		{"another class", withBalancers, func(b *objects.LoadBalancer) { b.Class = "example.com/cloud" }, "", false, false},
		{"another class, off", nil, func(b *objects.LoadBalancer) { b.Class = "example.com/cloud" }, "", false, false},
		{"somebody else's status", nil, answered, "198.51.100.9", false, false},
		{"somebody else's name", nil, func(b *objects.LoadBalancer) { b.Answered = true }, "", false, false},
		{"no load balancer", withBalancers, func(b *objects.LoadBalancer) { b.Wanted = false }, "", false, false},
		{"no load balancer, off", nil, func(b *objects.LoadBalancer) { b.Wanted = false }, "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, c.edit)
			n := s.egressNode(1)
			n.PodCIDRs, n.Facts = n.PodCIDRs[:1], ovntest.Facts(1, false)
			s.do(n, s.addressPool("p", "203.0.113.64/30"), s.balanced("web", c.of))
			s.want("address", s.external("web"), c.want)
			s.wantReasons()
			addr, _ := netip.ParseAddr(c.want)
			node, ours := s.c.pools.Announcer(addr)
			if ours != c.ours || ours && node != "e1" {
				t.Errorf("announced by %q: %v", node, ours)
			}
			s.touch(s.c.TakeExpected())
			if c.told {
				s.wantMessage("Service default/web", "NobodyGivesAddresses", "1m0s", "allocate-load-balancer-addresses",
					v1alpha1.PoolClass, "AddressPool")
			} else {
				s.wantReasons()
			}
		})
	}
}

// answered is what a cloud's controller has done to a Service.
func answered(b *objects.LoadBalancer) { b.Ingress, b.Answered = "198.51.100.9", true }

// TestSomebodyGivesAddressesInTime: a Service is not told that nobody gives it addresses where a cloud's controller
// answers in time; where it goes on waiting it is told once.
func TestSomebodyGivesAddressesInTime(t *testing.T) {
	const told = "Service default/web NobodyGivesAddresses"
	s := newScene(t, nil)
	s.do(s.balanced("web"))
	due := s.c.TakeExpected()
	s.want("expected", part.Wait(due[0]).String(), "1m0s")
	s.do(s.edited("web", answered))
	s.touch(due)
	s.wantReasons()

	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Ingress, b.Answered = "", false }))
	due = s.c.TakeExpected()
	s.touch(due)
	s.wantReasons(told)
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Local = true })) // whatever else changes
	s.touch(append(due, s.c.TakeExpected()...))
	s.wantReasons()
	s.do(s.edited("web", answered))
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Ingress, b.Answered = "", false }))
	s.touch(s.c.TakeExpected())
	s.wantReasons(told) // again, since it was right in between

	s.remove(objects.ServiceKind, "default/web")
	s.do(s.balanced("web"))
	s.touch(due) // of the one that had the name before
	s.wantReasons()
	s.touch(s.c.TakeExpected())
	s.wantReasons(told)
	s.restart(nil)
	s.touch(s.c.TakeExpected())
	if len(s.problems) != 1 || !s.problems[0].Lasting { // its Event has a name that says so
		t.Errorf("the next controller tells %v", s.problems)
	}
	s.problems = nil
	s.remove(objects.ServiceKind, "default/web")
	its := func(owner ovsdb.Owner) bool { return strings.HasSuffix(string(owner), "Service/default/web") }
	if within(reflect.ValueOf(s.c.pending), "all").Len() > 0 ||
		slices.ContainsFunc(slices.Collect(maps.Keys(s.c.Told)), its) {
		t.Error("something is left of a Service that has gone")
	}
}

// TestWhichAddress: families, wishes and selectors.
func TestWhichAddress(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    func(*objects.LoadBalancer)
		want  string
		words []string // of the Event
	}{
		{"IPv6", func(b *objects.LoadBalancer) { b.Families = "6" }, "2001:db8::40", nil},
		{"both", func(b *objects.LoadBalancer) { b.Families = "6,4" }, "2001:db8::40,203.0.113.64", nil},
		{"a wish", func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.66" }, "203.0.113.66", nil},
		{"a wish of each family", func(b *objects.LoadBalancer) {
			b.Families, b.Addresses = "4,6", "2001:db8::42, 203.0.113.66"
		}, "203.0.113.66,2001:db8::42", nil},
		{"a wish for a pool that gives nothing away by itself", func(b *objects.LoadBalancer) {
			b.Addresses = "203.0.113.80"
		}, "203.0.113.80", nil},
		{"a wish in no pool", func(b *objects.LoadBalancer) { b.Addresses = "198.51.100.1" }, "",
			[]string{"annotation " + v1alpha1.AddressesAnnotation + ": ", "198.51.100.1", "in no AddressPool"}},
		{"a wish in no pool, by field", func(b *objects.LoadBalancer) { b.Addresses, b.ByField = "198.51.100.1", true }, "",
			[]string{"spec.loadBalancerIP: ", "198.51.100.1"}},
		{"a wish that is taken", func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.67" }, "",
			[]string{"203.0.113.67", "Service default/first"}},
		{"a wish for a node's address", func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.65" }, "",
			[]string{"203.0.113.65", "Node e65"}},
		{"a wish that is none", func(b *objects.LoadBalancer) { b.Addresses = "web" }, "203.0.113.64",
			[]string{v1alpha1.AddressesAnnotation, `"web"`}},
		{"one for others", func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.96" }, "",
			[]string{"203.0.113.96", "that the Service may use"}},
		{"one for it", func(b *objects.LoadBalancer) {
			b.Addresses, b.Labels = "203.0.113.96", objects.NewLabelSet(map[string]string{"tier": "gold"})
		}, "203.0.113.96", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c) })
			n := s.egressNode(65)
			quiet, gold := s.addressPool("b", "203.0.113.80/30"), s.addressPool("c", "203.0.113.96/30")
			quiet.Auto, gold.Services = false, must(parseSelector("tier=gold"))
			s.do(n, s.namespace("default"), s.addressPool("a", "203.0.113.64/30", "2001:db8::40/126"), quiet, gold,
				s.balanced("first", func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.67" }))
			s.wantReasons()
			s.want("the first", s.external("first"), "203.0.113.67")
			s.do(s.balanced("web", c.of))
			s.want("address", s.external("web"), c.want)
			if len(c.words) == 0 {
				s.wantReasons()
			} else {
				s.wantMessage(c.words...)
			}
		})
	}
}

// TestWishesChange: what is asked for now counts.
func TestWishesChange(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c) })
	s.do(s.addressPool("p", "203.0.113.64/29", "2001:db8::40/126"), s.balanced("web"))
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.70" }))
	s.want("asked for", s.external("web"), "203.0.113.70")
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Addresses = "198.51.100.1" }))
	s.want("asked for, and in no pool", s.external("web"), "203.0.113.70")
	s.wantMessage("NoLoadBalancerAddress", "198.51.100.1 is in no AddressPool", "keeps 203.0.113.70")
	s.do(s.addressPool("q", "198.51.100.0/30"))
	s.want("asked for, and now in a pool", s.external("web"), "198.51.100.1")
	s.wantReasons()
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.70" }))
	s.want("asked for again", s.external("web"), "203.0.113.70")
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Addresses, b.Families = "", "6,4" }))
	s.want("two families", s.external("web"), "2001:db8::40,203.0.113.70")
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Families = "6" }))
	s.want("one family", s.external("web"), "2001:db8::40")
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Ingress = "192.0.2.99" }))
	s.want("another hand's status", s.external("web"), "2001:db8::40")
	s.wantReasons()
}

// TestOneThatWaits gets an address that another one gives up and keeps its type; a Service that is created
// anew before the first one's status was written has a status, too.
func TestOneThatWaits(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c) })
	s.do(s.addressPool("p", "203.0.113.64/32", "2001:db8::40/126"), s.balanced("first"))
	s.do(s.balanced("waits"))
	s.want("waits", s.external("waits"), "")
	s.wantReasons("Service default/waits NoLoadBalancerAddress")
	s.do(s.edited("first", func(b *objects.LoadBalancer) { b.Families = "6" }))
	s.want("the first", s.external("first"), "2001:db8::40")
	s.want("the one that waited", s.external("waits"), "203.0.113.64")

	s.c.update(s.put(s.balanced("anew", func(b *objects.LoadBalancer) { b.Families = "6" })), s.Get)
	s.do(s.balanced("anew", func(b *objects.LoadBalancer) { b.Families = "6" }))
	s.want("created anew", s.external("anew"), "2001:db8::41")
}

// TestTheOldestThatWaitsIsFirst: an address that is freed is the oldest Service's of those that its pool serves, also
// before one that has just come. The others are not looked at, except for those that ask for it: they are told who has
// it now.
func TestTheOldestThatWaitsIsFirst(t *testing.T) {
	s := newScene(t, withBalancers)
	gold := s.addressPool("gold", "203.0.113.80/32")
	gold.Services = must(parseSelector("tier=gold"))
	aged := func(name string, age int, edits ...func(*objects.LoadBalancer)) *objects.Service {
		o := s.balanced(name, edits...)
		o.CreationTimestamp = metav1.NewTime(time.Unix(int64(1700000000-age), 0))
		return o
	}
	s.do(s.namespace("default"), s.addressPool("p", "203.0.113.64/31"), gold, aged("one", 90), aged("two", 80))
	golden := func(b *objects.LoadBalancer) { b.Labels = objects.NewLabelSet(map[string]string{"tier": "gold"}) }
	s.do(aged("gold", 70, golden), aged("old", 50), aged("young", 30), aged("asks", 60, func(b *objects.LoadBalancer) {
		b.Addresses = "203.0.113.64"
	}),
		aged("golden", 20, golden))
	s.want("gold", s.external("gold"), "203.0.113.80")
	s.problems = nil

	delete(s.objects, objects.Key{Kind: objects.ServiceKind, Name: "default/one"})
	s.c.Told[pools.Owner("default/young")] = nil // what is told again is seen
	s.touch(append(s.put(aged("newest", 0)), objects.Key{Kind: objects.ServiceKind, Name: "default/one"}))
	s.want("who asks for it is older", s.external("asks")+" "+s.external("old"), "203.0.113.64 ")
	s.wantReasons("Service default/newest NoLoadBalancerAddress")
	s.remove(objects.ServiceKind, "default/two")
	s.want("the oldest", s.external("old")+" "+s.external("young")+s.external("newest"), "203.0.113.65 ")
	s.wantReasons()
	s.do(aged("asks too", 10, func(b *objects.LoadBalancer) { b.Addresses = "203.0.113.65" }))
	s.wantMessage("203.0.113.65", "Service default/old")
	s.problems = nil
	s.remove(objects.ServiceKind, "default/old")
	s.want("the next", s.external("young"), "203.0.113.65")
	s.wantMessage("Service default/asks too", "203.0.113.65", "Service default/young")
	s.problems = nil
	s.remove(objects.ServiceKind, "default/gold")
	s.want("who may have it", s.external("golden")+s.external("newest"), "203.0.113.80")
	s.remove(objects.ServiceKind, "default/asks")
	s.want("the lowest is given again", s.external("newest"), "203.0.113.64")
	waiting := within(reflect.ValueOf(s.c.pools), "waiting").Addr()
	s.want("nobody waits but who asks", fmt.Sprint(within(waiting, "of").Len(), within(waiting, "line").Len()), "1 0")
}

// TestPoolsRefused: bad ranges are named, and the others are in use.
func TestPoolsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranges []string
		status string
		words  []string
	}{
		{"pods", []string{"10.244.8.0/24", "203.0.113.64/30"}, "False RangeOverlaps used 1 free 3",
			[]string{"spec.ranges[0]: 10.244.8.0/24", "pod-cidrs 10.244.0.0/16", "other addresses are in use"}},
		{"services", []string{"10.96.0.0-10.96.0.9", "203.0.113.64/30"}, "False RangeOverlaps used 1 free 3",
			[]string{"service-cidrs"}},
		{"join", []string{"100.64.0.0/10", "203.0.113.64/30"}, "False RangeOverlaps used 1 free 3", []string{"join-cidrs"}},
		{"another pool", []string{"203.0.113.64/30", "203.0.113.128/25"}, "False RangeOverlaps used 1 free 3",
			[]string{"spec.ranges[1]", "AddressPool old"}},
		{"itself", []string{"203.0.113.64/30", "203.0.113.66-203.0.113.70"}, "False RangeOverlaps used 1 free 3",
			[]string{"of the same pool"}},
		{"a node", []string{"203.0.113.0/29"}, "False AddressTaken used 1 free 5", []string{"203.0.113.1", "Node e1",
			"left out"}},
		{"a node without an agent", []string{"203.0.113.64/30", "203.0.113.40/31"}, "False AddressTaken used 1 free 4",
			[]string{"203.0.113.40", "Node bare", "left out"}},
		{"the status of a node", []string{"203.0.113.64/30", "203.0.113.42/31"}, "False AddressTaken used 1 free 4",
			[]string{"203.0.113.42", "Node e1", "left out"}},
		{"hosts that are no nodes", []string{"203.0.113.72/29"}, "False AddressTaken used 1 free 6", []string{"203.0.113.73",
			"a host (host-cidrs", "left out"}},
		{"a range of hosts", []string{"203.0.113.78-203.0.113.82", "203.0.113.64/32"}, "False RangeOverlaps used 1 free 0",
			[]string{"spec.ranges[0]", "203.0.113.80/28 of host-cidrs"}},
		{"hosts whose addresses Services may have", []string{"203.0.113.96/30"}, "True InUse used 1 free 3", nil},
		{"broadcast", []string{"198.18.0.252/30"}, "True InUse used 1 free 2", nil},
		{"no node's network", []string{"203.0.113.64/30", "198.51.100.64/30"}, "True InUse used 1 free 7",
			[]string{"all ranges are in use; of the nodes on a network outside", "label weft.net/gateway-network",
				"spec.ranges[1]: 198.51.100.64/30: nobody announces",
				"clients outside do not reach"}},
		{"none that is good", []string{"nonsense", "203.0.113.9-203.0.113.1"}, "False BadRange used 0 free 0",
			[]string{"spec.ranges[0]: nonsense", "ends before it begins"}},
		{"a large one", []string{"2001:db8:9::/64", "203.0.113.64/32"}, "True InUse used 1 free 9007199254740991", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, func(c *settings.Config) {
				withBalancers(c)
				c.HostCIDRs = []string{"203.0.113.73/32", "203.0.113.80/28", "203.0.113.96/31"}
				c.HostExternalIPCIDRs = []string{"203.0.113.96/30"}
			})
			n := s.egressNode(1)
			n.PodCIDRs = n.PodCIDRs[:1]
			n.Facts = strings.ReplaceAll(ovntest.Facts(1, false), "203.0.113.254", "203.0.113.129")
			n.Addresses = append(slices.Clone(n.Addresses), netip.MustParseAddr("203.0.113.42"))
			bare := s.bareNode("203.0.113.40")
			m := s.egressNode(2)
			m.PodCIDRs = m.PodCIDRs[:1]
			m.Facts = strings.ReplaceAll(strings.ReplaceAll(ovntest.Facts(2, false), "203.0.113.2/24", "198.18.0.2/24"),
				"203.0.113.254",
				"198.18.0.1")
			s.do(n, m, bare, s.addressPool("old", "203.0.113.200/32"))
			old := s.objects[objects.Key{Kind: objects.PoolKind, Name: "old"}].(*objects.AddressPool)
			old.Auto = false
			s.do(s.addressPool("p", c.ranges...), s.balanced("web"))
			s.want("status", s.poolStatus("p"), c.status)
			for _, word := range c.words {
				if !strings.Contains(s.poolMessage("p"), word) {
					t.Errorf("the message %q lacks %q", s.poolMessage("p"), word)
				}
			}
		})
	}
}

// bareNode is the Node bare, which has no pods and no agent.
func (s *scene) bareNode(address string) *objects.Node {
	n := s.egressNode(9)
	n.Name, n.PodCIDRs, n.Facts, n.Addresses = "bare", nil, "", []netip.Addr{netip.MustParseAddr(address)}
	return n
}

// garp is what a node's gateway router tells its network of.
func (s *scene) garp(node string) string {
	for _, r := range s.c.changeOf(northbound.NodeOwner(node)).Rows {
		if p, ok := r.Model.(*nb.LogicalSwitchPort); ok && p.Name == "etor-"+node {
			return p.Options["nat-addresses"]
		}
	}
	return ""
}

// TestHostsAddressesAreNotAnnounced: where hosts keep a range that Services may have as well, the host answers for the
// address, and no gateway router does.
func TestHostsAddressesAreNotAnnounced(t *testing.T) {
	s := newScene(t, func(c *settings.Config) {
		ovntest.Dual(c)
		withBalancers(c)
		c.HostCIDRs, c.HostExternalIPCIDRs = []string{"203.0.113.64/31"}, []string{"203.0.113.64/31"}
	})
	s.do(s.egressNode(1), s.addressPool("p", "203.0.113.64/30"), s.balanced("a"), s.balanced("b"), s.balanced("c"))
	s.want("addresses", s.external("a")+" "+s.external("b")+" "+s.external("c"),
		"203.0.113.64 203.0.113.65 203.0.113.66")
	s.want("announced", fmt.Sprint(s.c.pools.AnnouncedBy("e1")), "[203.0.113.66]")

	// A Node comes whose host has the address of a Service.
	s.do(s.bareNode("203.0.113.66"))
	s.want("announced beside the Node", fmt.Sprint(s.c.pools.AnnouncedBy("e1")), "[]")
	s.want("by the rows", s.garp("e1"), "")
	s.remove(objects.NodeKind, "bare")
	s.want("announced after it", fmt.Sprint(s.c.pools.AnnouncedBy("e1")), "[203.0.113.66]")
}

// TestTwoOfOneAddress: of two Services whose statuses say the same, the older is right.
func TestTwoOfOneAddress(t *testing.T) {
	s := newScene(t, withBalancers)
	same := func(b *objects.LoadBalancer) { b.Ingress = "203.0.113.64" }
	s.put(s.addressPool("p", "203.0.113.64/30"), s.balanced("z", same), s.balanced("a", same))
	s.restart(nil)
	s.want("addresses", s.external("z")+" "+s.external("a"), "203.0.113.64 203.0.113.65")
	s.wantReasons("Service default/a AddressLost")
}

// TestWhoAnnounces an address: one node, as long as it can.
func TestWhoAnnounces(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c) })
	for n := range 3 {
		s.do(s.egressNode(1 + n))
	}
	s.do(s.addressPool("p", "203.0.113.64/28"), s.balanced("web"))
	vip := netip.MustParseAddr("203.0.113.64")
	owner := func() string {
		t.Helper()
		node, ok := s.c.pools.Announcer(vip)
		if !ok {
			t.Fatal("nobody knows the address")
		}
		var all []string
		for _, name := range s.c.nodes.Names() {
			if slices.Contains(s.c.pools.AnnouncedBy(name), vip) {
				all = append(all, name)
			}
		}
		if got := strings.Join(all, " "); got != node {
			t.Errorf("%q announce what is %q's", got, node)
		}
		return node
	}
	s.want("who tells the network", s.garp(owner()), fmt.Sprintf("02:00:00:00:00:0%c 203.0.113.64", owner()[1]))
	for _, name := range s.c.nodes.Names() {
		if name != owner() {
			s.want("who tells the network of nothing else than itself", s.garp(name), "")
		}
	}
	change := func(name string, edit func(*objects.Node)) {
		after := *s.objects[objects.Key{Kind: objects.NodeKind, Name: name}].(*objects.Node)
		edit(&after)
		s.do(&after)
	}
	first := owner()
	change(first, func(n *objects.Node) { n.Ready = false })
	second := owner()
	if second == first || second == "" {
		t.Errorf("after %s %q announces", first, second)
	}
	change(second, func(n *objects.Node) {
		n.Labels = objects.NewLabelSet(map[string]string{corev1.LabelNodeExcludeBalancers: ""})
	})
	third := owner()
	alive := func(chassis string) {
		s.objects[part.Signal{What: pools.LivenessMoved, Name: third}] = chassis
		s.touch([]part.Event{part.Signal{What: pools.LivenessMoved, Name: third}})
	}
	alive("chassis-9")
	s.want("nobody but one that others have found dead", owner(), "")
	alive("chassis-" + third[1:])
	s.want("it lives", owner(), third)
	alive("")
	s.want("it is not known", owner(), third)
	s.remove(objects.NodeKind, third)
	s.want("nobody", owner(), "")
	change(first, func(n *objects.Node) { n.Ready = true })
	s.want("the first again", owner(), first)

	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Local = true }))
	s.want("without a local endpoint", owner(), "")
	s.do(s.slice("web-a", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
		ready("10.244.1.9", first)))
	s.want("with one", owner(), first)
	s.do(s.edited("web", func(b *objects.LoadBalancer) { b.Class = "example.com/other" }))
	if _, ok := s.c.pools.Announcer(vip); ok {
		t.Error("somebody else's address is announced")
	}
}

// TestAnAddressIsAServicesOrAnEgressIPs: whoever had it first, also after a restart, and also if no node carries the
// EgressIP.
func TestAnAddressIsAServicesOrAnEgressIPs(t *testing.T) {
	for _, c := range []struct {
		name    string
		nodes   string // label of those that may carry
		ready   string
		carried string // its reason
	}{{"carried", v1alpha1.EgressLabel, "True", "Carried"}, {"with no node to carry it", "other", "False", "NoNode"}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c) })
			for i := range 3 {
				n := s.egressNode(1 + i)
				n.Labels = objects.NewLabelSet(map[string]string{c.nodes: ""})
				s.do(n)
			}
			s.do(s.addressPool("p", "203.0.113.64-203.0.113.65"), s.balanced("web"))
			vip := netip.MustParseAddr("203.0.113.64")
			first, _ := s.c.pools.Announcer(vip)
			wantAnnounced := func(when string) {
				t.Helper()
				if node, ok := s.c.pools.Announcer(vip); !ok || node == "" || node != first {
					t.Errorf("%s: %q announces what was %q's", when, node, first)
				}
				s.wantEgress("e", "False", "AddressTaken", "203.0.113.64", "Service default/web")
				s.want(when+": way", s.way("e"), "drop")
				s.want(when+": address", s.external("web"), "203.0.113.64")
				s.wantReasons()
			}
			s.do(s.egressIP("e", "", "203.0.113.64"))
			wantAnnounced("a later EgressIP")
			s.restart(nil)
			wantAnnounced("after a restart")
			after := *s.objects[objects.Key{Kind: objects.EgressKind, Name: "e"}].(*objects.EgressIP)
			after.Addresses, after.Generation = []netip.Addr{netip.MustParseAddr("203.0.113.65")}, 2
			s.do(&after)
			s.wantEgress("e", c.ready, c.carried)
			s.do(s.balanced("late"))
			s.want("what an EgressIP has nobody is given", s.external("late"), "")
			s.wantReasons("Service default/late NoLoadBalancerAddress")
			again := after
			again.Addresses, again.Generation = []netip.Addr{vip}, 3
			s.do(&again)
			s.want("until it wants another", s.external("late"), "203.0.113.65")
			wantAnnounced("an older EgressIP that wants it later")
			s.remove(objects.ServiceKind, "default/web")
			s.wantEgress("e", c.ready, c.carried)
			s.do(s.balanced("web"))
			s.want("the next Service", s.external("web"), "")
		})
	}
}

func TestParseRange(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.64/27":                "203.0.113.64 203.0.113.95 32",
		"203.0.113.64-203.0.113.70":      "203.0.113.64 203.0.113.70 7",
		" 203.0.113.64 - 203.0.113.64 ":  "203.0.113.64 203.0.113.64 1",
		"2001:db8::/120":                 "2001:db8:: 2001:db8::ff 256",
		"2001:db8::-2001:db8::1:0":       "2001:db8:: 2001:db8::1:0 65537",
		"2001:db8::/32":                  "2001:db8:: 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 9007199254740991",
		"203.0.113.65/27":                "bits set",
		"203.0.113.70-203.0.113.64":      "ends before",
		"203.0.113.70-2001:db8::1":       "families",
		"fe80::1%eth0-fe80::2":           "neither",
		"::ffff:203.0.113.1-203.0.113.9": "neither",
		"224.0.0.0/24":                   "multicast",
		"203.0.113.1":                    "neither",
		"":                               "neither",
	} {
		r := objects.ParseRange(text)
		got := r.Wrong
		if got == "" {
			got = fmt.Sprint(r.First, " ", r.Last, " ", r.Size())
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{"203.0.113.64/27", "203.0.113.64-203.0.113.70", "2001:db8::/32", "-", "/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := objects.ParseRange(text)
		if r.Wrong != "" {
			return
		}
		if !r.Contains(r.First) || !r.Contains(r.Last) || r.Last.Less(r.First) || r.Size() < 1 ||
			r.First.Is4() != r.Last.Is4() {
			t.Errorf("%q is %+v of size %d", text, r, r.Size())
		}
	})
}
