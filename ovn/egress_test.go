package ovn

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// egressNode is a Linux node number n that may carry egress addresses.
func (w *world) egressNode(n int) *objects.Node {
	e := w.node(fmt.Sprint("e", n), fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("fd00:10:244:%d::/64", n))
	e.Facts, e.Ready, e.Labels = ovntest.Facts(n, true), true,
		objects.NewLabelSet(map[string]string{v1alpha1.EgressLabel: ""})
	return e
}

func (w *world) labelled(p *objects.Pod, pairs ...string) *objects.Pod {
	after := *p
	after.Labels = objects.NewLabelSet(labelMap(pairs))
	return &after
}

// state is an EgressIP's status as "Ready=True Carried" and the rest.
func (s *scene) egressStatus(name string) v1alpha1.EgressIPStatus {
	s.t.Helper()
	var status v1alpha1.EgressIPStatus
	o, _ := s.objects[objects.Key{Kind: objects.EgressKind, Name: name}].(*objects.EgressIP)
	if o == nil {
		s.t.Fatalf("there is no EgressIP %s", name)
	}
	if err := json.Unmarshal([]byte(o.Status), &status); err != nil {
		s.t.Fatalf("status %q: %v", o.Status, err)
	}
	return status
}

func (s *scene) wantEgress(name, ready, reason string, words ...string) {
	s.t.Helper()
	status := s.egressStatus(name)
	if len(status.Conditions) != 1 {
		s.t.Fatalf("conditions %v", status.Conditions)
	}
	c := status.Conditions[0]
	if string(c.Status) != ready || c.Reason != reason || c.LastTransitionTime.IsZero() {
		s.t.Errorf("EgressIP %s is Ready=%s %s: %s; want %s %s", name, c.Status, c.Reason, c.Message, ready, reason)
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			s.t.Errorf("the message %q lacks %q", c.Message, word)
		}
	}
}

// leaving are the pods in an EgressIP's sets.
func (s *scene) leaving(name string) string {
	var list []string
	for pod, p := range s.c.pods.All() {
		for _, m := range s.c.changeOf(northbound.PodOwner(pod)).Memberships {
			if m.UUID == ovsdb.ID(nb.AddressSetTable, northbound.EgressOwner(name), northbound.IPWord(true)) ||
				m.UUID == ovsdb.ID(nb.AddressSetTable, northbound.EgressOwner(name), northbound.IPWord(false)) {
				list = append(list, strings.TrimPrefix(pod, p.Object().Namespace+"/")+"="+strings.Join(m.Values, ","))
			}
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// way is what the policies of an EgressIP do with its pods' packets.
func (s *scene) way(name string) string {
	var list []string
	for _, r := range s.c.changeOf(northbound.EgressOwner(name)).Rows {
		if p, ok := r.Model.(*nb.LogicalRouterPolicy); ok {
			list = append(list, strings.TrimSpace(p.Action+" "+strings.Join(p.Nexthops, ",")))
		}
	}
	return strings.Join(list, " ")
}

// egressNumber is that of an EgressIP's router on the join switch, 0 for none.
func (s *scene) egressNumber(name string) int {
	for _, r := range s.c.changeOf(northbound.EgressOwner(name)).Rows {
		if port, ok := r.Model.(*nb.LogicalRouterPort); ok && r.Key == "join" {
			return records.Node{Joins: records.Networks(port)}.ID(s.c.settings)
		}
	}
	return 0
}

// standingBy are the nodes that stand by for an EgressIP, the first one preferred.
func (s *scene) standingBy(name string) (nodes []string) {
	for _, r := range s.c.changeOf(northbound.EgressOwner(name)).Rows {
		if _, ok := r.Model.(*nb.HAChassis); ok {
			nodes = append(nodes, r.Key)
		}
	}
	return nodes
}

// TestEgressStory: pods, labels, nodes and EgressIPs come and go in any order.
func TestEgressStory(t *testing.T) {
	s := newScene(t, ovntest.Dual)
	s.do(s.namespace("default", "team=a"), s.egressNode(1), s.pod("default", "web", "e1"))
	s.want("pods before", s.leaving("a"), "")

	a := s.egressIP("a", "team=a", "203.0.113.20", "2001:db8::20")
	s.do(a)
	s.wantEgress("a", "True", "Carried", "network external")
	s.want("pods", s.leaving("a"), "web=10.244.1.3 web=fd00:10:244:1::3")
	s.want("number of pods", fmt.Sprint(s.egressStatus("a").Pods), "1")
	s.want("members", members(s.c.changeOf(northbound.EgressOwner("a"))), "chassis-1=32767")
	hops := s.c.settings.JoinAddresses(s.egressNumber("a"))
	s.want("way", s.way("a"), fmt.Sprintf("reroute %s reroute %s", hops[0].Addr(), hops[1].Addr()))

	s.do(s.labelled(s.pod("default", "db", "e1"), "app=db"))
	s.want("a new pod", s.leaving("a"), "db=10.244.1.4 db=fd00:10:244:1::4 web=10.244.1.3 web=fd00:10:244:1::3")
	s.touch(s.c.TakeExpected())
	s.want("number of pods after a while", fmt.Sprint(s.egressStatus("a").Pods), "2")

	b := s.egressIP("b", "", "203.0.113.21")
	b.Pods = must(parseSelector("app=web"))
	s.do(b)
	s.wantEgress("b", "True", "Carried")
	web := s.labelled(s.objects[objects.Key{Kind: objects.PodKind, Name: "default/web"}].(*objects.Pod), "app=web")
	s.do(web)
	s.want("the younger one gets no pod", s.leaving("b"), "")
	s.remove(objects.EgressKind, "a")
	s.want("until the older goes", s.leaving("b"), "web=10.244.1.3")
	s.want("rows of what is gone", fmt.Sprint(len(s.c.changeOf(northbound.EgressOwner("a")).Rows)), "0")
	s.do(s.labelled(web, "app=api"))
	s.want("without the label", s.leaving("b"), "")
	s.do(web)

	s.remove(objects.NodeKind, "e1")
	s.wantEgress("b", "False", "NoNode", "spec.nodeSelector", "weft.net/egress=", "is dropped")
	s.want("way without a node", s.way("b"), "drop")
	s.remove(objects.EgressKind, "b")
	s.want("what all share", fmt.Sprint(len(s.c.changeOf(northbound.EgressNodesOwner).Rows)), "0")
	s.want("what remains", fmt.Sprint(s.c.nodes.Numbers().Size-s.c.nodes.Numbers().Free), "0")
}

// TestNamespacesLabels: a label of a namespace moves its pods.
func TestNamespacesLabels(t *testing.T) {
	s := newScene(t, nil)
	n := s.egressNode(1)
	n.PodCIDRs = n.PodCIDRs[:1]
	s.do(n, s.pod("default", "web", "e1"), s.egressIP("a", "team=a", "203.0.113.20"))
	s.want("an unknown namespace", s.leaving("a"), "")
	s.do(s.namespace("default"))
	s.want("without the label", s.leaving("a"), "")
	s.do(s.namespace("default", "team=a"))
	s.want("with it", s.leaving("a"), "web=10.244.1.3")
	s.c.update(s.put(s.namespace("default", "team=a", "more=1")), s.Get)
	if changes := s.c.takeChanges(); len(changes) > 0 {
		t.Errorf("another label touches %v", changes)
	}
	s.do(s.namespace("default", "team=b"))
	s.want("with another", s.leaving("a"), "")
	s.do(s.namespace("default", "team=a"))
	s.remove(objects.NamespaceKind, "default")
	s.want("without the namespace", s.leaving("a"), "")
}

// TestEgressRefused: what is wrong, where, and what to do about it. Pods do not leave with another address.
func TestEgressRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*scene, *objects.EgressIP)
		reason string
		words  []string
		way    string
	}{
		{"in the pods' range", func(_ *scene, e *objects.EgressIP) { e.Addresses = objects.ParseAddrs("10.244.9.9") },
			"AddressInCluster", []string{"spec.addresses: 10.244.9.9 is in pod-cidrs 10.244.0.0/16"}, "drop"},
		{"a node's", func(_ *scene, e *objects.EgressIP) { e.Addresses = objects.ParseAddrs("203.0.113.1") }, "AddressTaken",
			[]string{"203.0.113.1", "Node e1"}, "drop"},
		{"the next hop's", func(_ *scene, e *objects.EgressIP) { e.Addresses = objects.ParseAddrs("203.0.113.254") },
			"AddressTaken", []string{"next hop"}, "drop"},
		{"another EgressIP's", func(s *scene, e *objects.EgressIP) {
			s.do(s.egressIP("0", "team=z", "203.0.113.20"))
			e.UID = "younger"
		}, "AddressTaken", []string{"EgressIP 0"}, "drop"},
		{"of a family that pods lack", func(_ *scene, e *objects.EgressIP) {
			e.Addresses = objects.ParseAddrs("2001:db8::20")
		}, "NoSuchFamily", []string{"2001:db8::20"}, "drop"},
		{"in no node's network", func(_ *scene, e *objects.EgressIP) { e.Addresses = objects.ParseAddrs("198.51.100.9") },
			"AddressNotInNetwork", []string{"198.51.100.9", "203.0.113.0/24"}, "drop"},
		{"no node", func(_ *scene, e *objects.EgressIP) { e.Nodes = must(parseSelector("rack=9")) }, "NoNode",
			[]string{"no node matches", "rack=9"}, "drop"},
		{"a network that no node has", func(_ *scene, e *objects.EgressIP) { e.Network = "storage" }, "NoNode",
			[]string{"Node e1", `"external"`, `"storage"`}, "drop"},
		{"Windows", func(s *scene, e *objects.EgressIP) {
			n := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "e1"}].(*objects.Node)
			n.OS = contract.Windows
			s.do(&n)
		}, "NoNode", []string{"runs Windows", "select Linux nodes"}, "drop"},
		{"no gateway", func(s *scene, e *objects.EgressIP) {
			n := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "e1"}].(*objects.Node)
			n.Facts = ovntest.EditFacts(1, false, func(f *contract.NodeFacts) { f.Gateway = nil })
			s.do(&n)
		}, "NoNode", []string{"no gateway of its own", "gateway: local"}, "drop"},
		{"it cannot be read", func(_ *scene, e *objects.EgressIP) { e.Wrong = "spec.addresses: \"x\" is not an IP address" },
			"BadSpec", []string{"selects no pod"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, nil)
			n := s.egressNode(1)
			n.PodCIDRs, n.Facts = n.PodCIDRs[:1], ovntest.Facts(1, false)
			s.do(n, s.namespace("default", "team=a"), s.pod("default", "web", "e1"))
			e := s.egressIP("a", "team=a", "203.0.113.20")
			c.edit(s, e)
			s.do(e)
			s.wantEgress("a", "False", c.reason, c.words...)
			s.want("way", s.way("a"), c.way)
			for _, r := range s.c.changeOf(northbound.EgressOwner("a")).Rows {
				if _, ok := r.Model.(*nb.LogicalRouter); ok {
					t.Error("it has a router")
				}
			}
		})
	}
}

// TestEgressIPsHaveTheirOwnMACs: switches outside find each router, also if addresses have the same end.
func TestEgressIPsHaveTheirOwnMACs(t *testing.T) {
	s := newScene(t, ovntest.Dual)
	s.do(s.egressNode(1))
	macs := map[string]string{}
	for name, addresses := range map[string][]string{
		"near": {"2001:db8::20"}, "far": {"2001:db8::1:0:20"}, "as-the-other-in-ipv4": {"2001:db8::cb00:7114"},
		"both": {"203.0.113.20", "2001:db8::2:0:20"},
	} {
		s.do(s.egressIP(name, "team="+name, addresses...))
		s.wantEgress(name, "True", "Carried")
		for _, r := range s.c.changeOf(northbound.EgressOwner(name)).Rows {
			if port, ok := r.Model.(*nb.LogicalRouterPort); ok && port.Name == "rtoe-egress@"+name {
				if other := macs[port.MAC]; other != "" {
					t.Errorf("%s and %s have the MAC address %s", name, other, port.MAC)
				}
				macs[port.MAC] = name
			}
		}
	}
	if len(macs) != 4 || macs["0a:58:cb:00:71:14"] != "both" {
		t.Errorf("the MAC addresses are %v", macs)
	}
}

// TestEgressSpreads: several objects have several first nodes, five nodes at most stand by, and a node
// that is not ready only for want of others.
func TestEgressSpreads(t *testing.T) {
	s := newScene(t, ovntest.Dual)
	for n := range 8 {
		s.do(s.egressNode(1 + n))
	}
	first := map[string]int{}
	for i := range 40 {
		name := fmt.Sprint("a", i)
		s.do(s.egressIP(name, "team=a", fmt.Sprintf("203.0.113.%d", 100+i)))
		list := strings.Fields(members(s.c.changeOf(northbound.EgressOwner(name))))
		if len(list) != egress.MaxHosting {
			t.Fatalf("%d nodes stand by: %v", len(list), list)
		}
		first[list[0]]++
	}
	if len(first) < 6 {
		t.Errorf("40 objects prefer %v", first)
	}
	before := s.standingBy("a0")
	n := *s.objects[objects.Key{Kind: objects.NodeKind, Name: before[0]}].(*objects.Node)
	n.Ready = false
	s.do(&n)
	if after := s.standingBy("a0"); slices.Contains(after, before[0]) || !slices.Equal(after[:4],
		before[1:]) {
		t.Errorf("without %s the nodes are %v, before %v", before[0], after, before)
	}
	numbers := map[int]bool{}
	for i := range 40 {
		numbers[s.egressNumber(fmt.Sprint("a", i))] = true
	}
	for n := range s.c.nodes.Placed() {
		numbers[n.ID] = true
	}
	if len(numbers) != 48 {
		t.Errorf("%d numbers of 48 routers on the join switch", len(numbers))
	}
}

// TestEgressNumbersSurvive a restart, whatever nodes and objects come with it.
func TestEgressNumbersSurvive(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { c.JoinCIDRs = []string{"100.64.0.0/28"} }) // 12 numbers
	for n := range 4 {
		node := s.egressNode(1 + n)
		node.PodCIDRs, node.Facts = node.PodCIDRs[:1], ovntest.Facts(1+n, false)
		s.do(node)
	}
	before := map[string]int{}
	for i := range 8 {
		name := fmt.Sprint("a", i)
		s.do(s.egressIP(name, "", fmt.Sprintf("203.0.113.%d", 100+i)))
		before[name] = s.egressNumber(name)
	}
	s.do(s.egressIP("late", "", "203.0.113.120"))
	s.wantEgress("late", "False", "NoNumber", "join-cidrs")
	r := records.Records{Egress: map[string]int{}, Nodes: map[string]records.Node{}}
	for name, number := range before {
		r.Egress[name] = number
	}
	delete(s.objects, objects.Key{Kind: objects.EgressKind, Name: "a3"})
	s.put(s.node("new", "10.244.9.0/24"))
	s.c = newCluster(s.c.settings)
	s.c.begin(r, s.Keys(), s.Get)
	for name, number := range before {
		if now := s.egressNumber(name); name != "a3" && now != number {
			t.Errorf("%s has number %d, had %d", name, now, number)
		}
	}
	seen := map[netip.Addr]string{}
	for n := range s.c.nodes.Placed() {
		seen[s.c.settings.JoinAddresses(n.ID)[0].Addr()] = n.Name
	}
	for k := range s.objects {
		name := k.(objects.Key).Name
		number := s.egressNumber(name)
		if k.(objects.Key).Kind != objects.EgressKind || number == 0 {
			continue
		}
		a := s.c.settings.JoinAddresses(number)[0].Addr()
		if other, ok := seen[a]; ok {
			t.Errorf("%s and %s both have %s", name, other, a)
		}
		seen[a] = name
	}
}

// TestCarrierIsTold: the status names the node whose chassis carries the addresses.
func TestCarrierIsTold(t *testing.T) {
	s := newScene(t, ovntest.Dual)
	s.do(s.egressNode(1), s.egressNode(2), s.egressIP("a", "", "203.0.113.20"))
	s.want("node", s.egressStatus("a").Node, "")
	move := func(chassis string) {
		s.objects[part.Signal{What: egress.Hosting, Name: "a"}] = chassis
		s.touch([]part.Event{part.Signal{What: egress.Hosting, Name: "a"}})
	}
	move("chassis-2")
	s.want("node", s.egressStatus("a").Node, "e2")
	move("chassis-1")
	s.want("node after it moved", s.egressStatus("a").Node, "e1")
	s.remove(objects.EgressKind, "a")
	s.do(s.egressIP("a", "", "203.0.113.20")) // before OVN has moved the port, or anybody has looked
	s.want("node when it is made again", s.egressStatus("a").Node, "e1")
	s.restart(nil)
	s.want("node after a restart", s.egressStatus("a").Node, "e1")
	for _, chassis := range []string{"chassis-2", "chassis-1"} { // faster than a status is written
		s.objects[part.Signal{What: egress.Hosting, Name: "a"}] = chassis
		s.c.update([]part.Event{part.Signal{What: egress.Hosting, Name: "a"}}, s.Get)
	}
	notes := s.c.TakeNotes()
	if last := ovntest.Written(notes[len(notes)-1]); !strings.Contains(last, `"node":"e1"`) {
		t.Errorf("the last status to be written is %s", last)
	}
	move("")
	s.want("node when none carries it", s.egressStatus("a").Node, "")
	delete(s.objects, part.Signal{What: egress.Hosting, Name: "a"})
	s.touch([]part.Event{part.Signal{What: egress.Hosting, Name: "nobody"}, part.Signal{What: egress.Count,
		Name: "nobody"}})
}
