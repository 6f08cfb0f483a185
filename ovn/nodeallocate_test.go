package ovn

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func TestNodeSubnets(t *testing.T) {
	allocate := func(c *settings.Config) { c.AllocateNodeCIDRs = true }
	for _, c := range []struct {
		name  string
		edit  func(*settings.Config)
		play  func(s *scene)
		want  string // of node l1
		words []string
	}{
		{"Kubernetes'", nil, func(s *scene) { s.do(s.node("l1", "10.244.7.0/24")) }, "10.244.7.0/24", nil},
		{"Kubernetes' before weft's own", allocate, func(s *scene) { s.do(s.node("l1", "10.244.7.0/24")) }, "10.244.7.0/24",
			nil},
		{"IPv4 first", ovntest.Dual, func(s *scene) { s.do(s.node("l1", "fd00:10:244:7::/64", "10.244.7.0/24")) },
			"10.244.7.0/24 fd00:10:244:7::/64", nil},
		{"weft's own", allocate, func(s *scene) { s.do(s.node("l1"), s.node("l2")) }, "10.244.0.0/24", nil},
		{"weft's own avoids Kubernetes'", allocate, func(s *scene) { s.do(s.node("l0", "10.244.0.0/23"), s.node("l1")) },
			"10.244.2.0/24", nil},
		{"weft's own of what Kubernetes' has covered", func(c *settings.Config) { allocate(c); c.NodeCIDRMaskIPv4 = 18 },
			func(s *scene) {
				s.do(s.node("l0", "10.244.0.0/17")) // two of the four
				s.do(s.node("l2"), s.node("l3"))
				s.remove(objects.NodeKind, "l0")
				s.do(s.node("l1"), s.node("l4"))
				s.want("the second", s.c.nodes.At("l4").Subnets[0].String(), "10.244.64.0/18")
			}, "10.244.0.0/18", nil},
		{"weft's own is kept", allocate, func(s *scene) {
			n := s.node("l1")
			n.Network = contract.Format(contract.NodeNetwork{ID: 9,
				PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.200.0/24")}})
			s.do(n, s.node("l0"))
		}, "10.244.200.0/24", nil},
		{"none", nil, func(s *scene) {
			s.do(s.node("l1"))
			s.wantReasons() // they may be on their way
			s.touch(s.c.TakeExpected())
		}, "", []string{"Node l1", "NoPodSubnet", "spec.podCIDRs", "allocate-node-cidrs"}},
		{"malformed", nil, func(s *scene) { s.do(s.node("l1", "10.244.0.0")) }, "", []string{"NoPodSubnet", `"10.244.0.0"`}},
		{"outside", nil, func(s *scene) { s.do(s.node("l1", "10.9.0.0/24")) }, "", []string{"NoPodSubnet", "10.9.0.0/24",
			"pod-cidrs 10.244.0.0/16"}},
		{"too small", nil, func(s *scene) { s.do(s.node("l1", "10.244.0.0/30")) }, "",
			[]string{"NoPodSubnet", "no room for a pod"}},
		{"overlaps", nil, func(s *scene) { s.do(s.node("l0", "10.244.0.0/23")); s.do(s.node("l1", "10.244.1.0/24")) }, "",
			[]string{"Node l1", "NoPodSubnet", "10.244.1.0/24 overlaps with 10.244.0.0/23 of Node l0"}},
		{"overlapped until the other is gone", nil, func(s *scene) {
			s.do(s.node("l0", "10.244.0.0/23"))
			s.do(s.node("l1", "10.244.1.0/24"))
			s.problems = nil
			s.remove(objects.NodeKind, "l0")
		}, "10.244.1.0/24", nil},
		{"all are taken", func(c *settings.Config) { allocate(c); c.NodeCIDRMaskIPv4 = 16 }, func(s *scene) {
			s.do(s.node("l0"), s.node("l1"))
		}, "",
			[]string{"Node l1", "NoPodSubnet", "all 1 subnets", "make pod-cidrs larger"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, c.edit)
			c.play(s)
			got := ""
			if n := s.c.nodes.At("l1"); n.Placed {
				got = strings.Join(ipam.Texts(n.Subnets), " ")
			}
			s.want("subnets", got, c.want)
			if c.words == nil {
				s.wantReasons()
			} else {
				s.wantMessage(c.words...)
			}
		})
	}
}

// TestRefusedNodesWaitForWhatIsGivenUp: a node that something is wrong with is looked at again with the event of
// another one if a node, or an EgressIP, has given up what it may lack.
func TestRefusedNodesWaitForWhatIsGivenUp(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { c.JoinCIDRs = []string{"100.64.0.0/29"} }) // 4 numbers
	nodes := map[string]*objects.Node{}
	for i, name := range []string{"l1", "l2", "l3"} {
		nodes[name] = s.node(name, fmt.Sprintf("10.244.%d.0/24", i))
		nodes[name].Facts = ovntest.Facts(i, false)
		nodes[name].Labels = objects.NewLabelSet(map[string]string{v1alpha1.EgressLabel: ""})
		s.do(nodes[name])
	}
	nodes["copy"] = s.node("copy", "10.244.1.0/25")
	nodes["copy"].Facts = nodes["l1"].Facts
	s.do(nodes["copy"], s.egressIP("a", "", "203.0.113.20"))
	s.want("what is wrong", strings.Join(s.reasons(), ", "), "Node copy DuplicateChassis, Node copy NoPodSubnet")
	// touched are the nodes that are looked at with an event of one.
	touched := func(name string, edit func(*objects.Node)) string {
		t.Helper()
		after := *s.objects[objects.Key{Kind: objects.NodeKind, Name: name}].(*objects.Node)
		edit(&after)
		s.c.update(s.put(&after), s.Get)
		var list []string
		for _, owner := range s.c.nodes.Dirty(false) {
			_, name := part.Split(owner)
			list = append(list, name)
		}
		all := strings.Join(list, " ")
		s.write(s.c.takeChanges())
		s.touch(s.absorb(s.c))
		return all
	}
	ready := func(n *objects.Node) { n.Ready = !n.Ready }
	s.want("another one's readiness", touched("l3", ready), "l3")
	s.want("another chassis", touched("l1", func(n *objects.Node) { n.Facts = ovntest.Facts(8, false) }), "copy l1")
	s.want("its chassis", s.c.nodes.At("copy").Chassis(), "chassis-0")
	s.want("another one's readiness", touched("l3", ready), "l3")
	s.want("another subnet", touched("l2", func(n *objects.Node) { n.PodCIDRs = []string{"10.244.9.0/24"} }), "copy l2")
	s.wantReasons("Node copy NoNodeID")
	s.want("another one's readiness", touched("l3", ready), "l3")
	s.remove(objects.EgressKind, "a")
	s.want("after an EgressIP has gone", touched("l3", ready), "copy l3")
	s.want("its subnet", ipam.Join(s.c.nodes.At("copy").Subnets), "10.244.1.0/25")
	s.wantReasons()
}

func TestNodeNumbersAreKept(t *testing.T) {
	s := newScene(t, nil)
	for i := range 3 {
		s.do(s.node(fmt.Sprint("l", i), fmt.Sprintf("10.244.%d.0/24", i)))
	}
	s.remove(objects.NodeKind, "l1")
	s.do(s.node("l3", "10.244.3.0/24"))
	again := newCluster(s.c.settings)
	again.begin(records.Records{}, s.Keys(), s.Get)
	for name, want := range map[string]int{"l0": 1, "l2": 3, "l3": 4} {
		if first, second := s.c.nodes.At(name).ID, again.nodes.At(name).ID; first != want || second != want {
			t.Errorf("node %s has number %d, after a restart %d, want %d", name, first, second, want)
		}
	}
	thief := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "l3"}].(*objects.Node)
	thief.Network = s.objects[objects.Key{Kind: objects.NodeKind, Name: "l0"}].(*objects.Node).Network
	s.do(&thief)
	s.want("an edited annotation", s.objects[objects.Key{Kind: objects.NodeKind, Name: "l3"}].(*objects.Node).Network,
		contract.Format(contract.NodeNetwork{
			ID: 4, PodCIDRs: again.nodes.At("l3").Subnets, ClusterCIDRs: s.c.settings.Pods, ServiceCIDRs: s.c.settings.Services,
			JoinCIDRs: s.c.settings.Joins}))
}

// TestNodesAreNotTakenOver: a node that gives itself what is another's, by its annotations, is the wrong
// one, whatever its name: by the Northbound's word, or by its age where the Northbound is lost.
func TestNodesAreNotTakenOver(t *testing.T) {
	settings := ovntest.Settings(t, func(c *settings.Config) { c.AllocateNodeCIDRs = true })
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost: ", lost), func(t *testing.T) {
			w := newWorld()
			victim := w.node("victim")
			victim.Facts, victim.CreationTimestamp = ovntest.Facts(1, false), metav1.NewTime(time.Unix(30, 0))
			w.put(victim)
			s := &scene{t, w, newCluster(settings), map[ovsdb.Owner]ovsdb.Change{}}
			s.touch(w.Keys())
			thief := w.node("a")
			thief.Facts, thief.CreationTimestamp = ovntest.Facts(2, false), metav1.NewTime(time.Unix(60, 0))
			s.do(thief)
			s.wantReasons()
			engine := ovsdbtest.Engine(t, ovsdbtest.Northbound(t), northbound.Tables...)
			if err := engine.Replace(context.Background(), s.c.takeEverything()); err != nil {
				t.Fatal(err)
			}

			edited := *w.objects[objects.Key{Kind: objects.NodeKind, Name: "a"}].(*objects.Node)
			robbed := w.objects[objects.Key{Kind: objects.NodeKind, Name: "victim"}].(*objects.Node)
			edited.Facts, edited.Network = ovntest.Facts(1, false), robbed.Network
			if !lost { // its age would speak for it
				edited.CreationTimestamp = metav1.NewTime(time.Unix(-60, 0))
			}
			w.put(&edited)
			var r records.Records
			if !lost {
				r = ovnRecords(t, engine)
			}
			s.c = newCluster(settings)
			s.c.begin(r, w.Keys(), w.Get)
			s.c.takeEverything()
			s.touch(w.absorb(s.c))
			n := s.c.nodes.At("victim")
			s.want("chassis", n.Chassis(), "chassis-1")
			s.want("subnets", ipam.Join(n.Subnets), "10.244.0.0/24")
			s.want("number", fmt.Sprint(n.ID), "1")
			s.want("the thief's chassis", s.c.nodes.At("a").Chassis(), "a")
			s.want("the thief's subnets", ipam.Join(s.c.nodes.At("a").Subnets), "10.244.1.0/24")
			s.wantReasons("Node a DuplicateChassis")
		})
	}
}

func ovnRecords(t *testing.T, e *ovsdb.Engine) records.Records {
	return engine{Engine: e}.Records(ovntest.Settings(t, nil))
}

func TestNodeFacts(t *testing.T) {
	s := newScene(t, nil)
	l1 := s.node("l1", "10.244.0.0/24")
	s.do(l1, s.pod("default", "web", "l1"))
	rows := func(name string) int { return len(s.c.changeOf(northbound.NodeOwner(name)).Rows) }
	bare := rows("l1")

	good := *l1
	good.Facts = ovntest.Facts(1, false)
	s.do(&good)
	withGateway := rows("l1")
	if withGateway <= bare {
		t.Errorf("%d rows with a gateway, %d without", withGateway, bare)
	}
	s.want("chassis", s.c.nodes.At("l1").Chassis(), "chassis-1")

	broken := good
	broken.Facts = "{"
	s.do(&broken)
	s.wantMessage("Node l1", "BadNodeFacts", contract.NodeFactsAnnotation, "remove the annotation")
	if rows("l1") != withGateway {
		t.Error("unreadable facts changed the node")
	}
	broken.Facts = strings.Replace(ovntest.Facts(1, false), "02:00:00:00:00:01", "nonsense", 1)
	s.do(&broken)
	s.wantMessage("Node l1", "BadNodeFacts", "gateway.mac", `"nonsense"`)
	if rows("l1") != bare+2 { // the policy for the host's own address stays, and what NodePorts have there
		t.Errorf("%d rows without the gateway, want %d", rows("l1"), bare+2)
	}

	s.do(&good)
	copied := s.node("l2", "10.244.1.0/24")
	copied.Facts = ovntest.Facts(1, false)
	s.do(copied)
	s.wantMessage("Node l2", "DuplicateChassis", "chassis-1", "Node l1")
	s.want("the copy's chassis", s.c.nodes.At("l2").Chassis(), "l2")
	s.remove(objects.NodeKind, "l1")
	s.want("the copy's chassis when it is alone", s.c.nodes.At("l2").Chassis(), "chassis-1")
	s.wantReasons()
}

// TestLongFactsAreCut: what one node says of itself costs all nodes no more than so much.
func TestLongFactsAreCut(t *testing.T) {
	s := newScene(t, nil)
	l1 := s.node("l1", "10.244.1.0/24")
	l1.Facts = ovntest.EditFacts(1, false, func(f *contract.NodeFacts) {
		for i := range 1000 {
			addr := netip.AddrFrom4([4]byte{198, 18, byte(i / 256), byte(i % 256)})
			f.Addresses = append(f.Addresses, addr)
			f.Gateway.Addresses = append(f.Gateway.Addresses, netip.PrefixFrom(addr, 15))
			f.Gateway.NextHops = append(f.Gateway.NextHops, addr.Next())
			f.Listeners = append(f.Listeners, contract.Listener{Protocol: "tcp", Port: uint16(1 + i)})
		}
	})
	s.do(l1)
	told := fmt.Sprint(s.problems)
	for _, field := range []string{"addresses", "listeners", "gateway.addresses", "gateway.nextHops"} {
		if !strings.Contains(told, " "+field+" holds 10") {
			t.Errorf("nobody is told of %s: %.2000s", field, told)
		}
	}
	facts := &s.c.nodes.At("l1").Facts
	lengths := []int{len(facts.Addresses), len(facts.Listeners)}
	if facts.Gateway != nil {
		lengths = append(lengths, len(facts.Gateway.Addresses), len(facts.Gateway.NextHops))
	}
	if slices.Max(lengths) > contract.MostOfFacts {
		t.Errorf("the node has lists of %d", lengths)
	}
}

// TestBadFacts: each is told with the annotation's name and what becomes of the node; the rest of the
// facts is used, and other nodes notice nothing.
func TestBadFacts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*contract.NodeFacts)
		words  []string
		os     string
	}{
		{"operating system", func(f *contract.NodeFacts) { f.OS = "plan9" },
			[]string{`os "plan9"`, "taken for one of windows", "kubernetes.io/os"}, contract.Windows},
		{"hosted without an address", func(f *contract.NodeFacts) { f.Hosted = &contract.Hosted{} },
			[]string{`hosted.address ""`, "HOST:PORT"}, contract.Windows},
		{"hosted without a port", func(f *contract.NodeFacts) { f.Hosted = &contract.Hosted{Address: "192.0.2.1"} },
			[]string{`hosted.address "192.0.2.1"`, "no chassis host can connect"}, contract.Windows},
		{"hosted with a bad port", func(f *contract.NodeFacts) { f.Hosted = &contract.Hosted{Address: "192.0.2.1:99999"} },
			[]string{"hosted.address"}, contract.Windows},
		{"hosted nowhere", func(f *contract.NodeFacts) { f.Hosted = &contract.Hosted{Address: ":16642"} },
			[]string{"hosted.address"}, contract.Windows},
		{"a gateway and a shared one", func(f *contract.NodeFacts) { f.SharedGateway = true }, []string{"exclude each other",
			"its own gateway"}, contract.Windows},
		{"none", func(f *contract.NodeFacts) { f.Hosted = &contract.Hosted{Address: "[2001:db8::1]:16642"} }, nil,
			contract.Windows},
		{"the agent knows better than the label", func(f *contract.NodeFacts) { f.OS = contract.Linux }, nil, contract.Linux},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, nil)
			other := s.node("l1", "10.244.1.0/24")
			other.Facts = ovntest.Facts(1, false)
			bad := s.node("w1", "10.244.2.0/24")
			bad.OS, bad.Facts = contract.Windows, ovntest.EditFacts(2, false, c.change)
			s.do(other, bad)
			s.problems = slices.DeleteFunc(s.problems, func(p objects.Problem) bool { return p.Lasting })
			if c.words == nil {
				s.wantReasons()
			} else {
				s.wantMessage(append(c.words, "Node w1", "BadNodeFacts", contract.NodeFactsAnnotation)...)
			}
			n := s.c.nodes.At("w1")
			s.want("os", n.OS, c.os)
			s.want("chassis", n.Chassis(), "chassis-2")
			if n.Facts.Gateway == nil || !s.c.nodes.At("l1").Placed {
				t.Error("the rest is not used")
			}

			// From hosted to local, and without the mistake: no more of it.
			mended := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "w1"}].(*objects.Node)
			mended.Facts = ovntest.Facts(2, false)
			s.do(&mended)
			s.problems = slices.DeleteFunc(s.problems, func(p objects.Problem) bool { return p.Lasting })
			s.wantReasons()
			s.want("os by its label", n.OS, contract.Windows)
		})
	}
}
