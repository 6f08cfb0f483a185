package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// withShared gives the cluster a shared gateway in the network of facts.
func withShared(c *settings.Config) {
	c.SharedGatewayAddresses, c.SharedGatewayNextHops = []string{"203.0.113.50/24"}, []string{"203.0.113.254"}
	if len(c.PodCIDRs) > 1 {
		c.SharedGatewayAddresses = append(c.SharedGatewayAddresses, "2001:db8::50/64")
		c.SharedGatewayNextHops = append(c.SharedGatewayNextHops, "2001:db8::ffff")
	}
}

// sharing are those of a node that uses the shared gateway.
func sharing(n int, os string) string {
	return ovntest.EditFacts(n, true, func(f *contract.NodeFacts) { f.Gateway, f.SharedGateway, f.OS = nil, true, os })
}

// gatewayNode is a Linux node number n that carries the shared gateway.
func (w *world) gatewayNode(n int) *objects.Node {
	g := w.node(fmt.Sprint("g", n), fmt.Sprintf("10.244.%d.0/24", n))
	g.Facts, g.Gateway = ovntest.Facts(n, false), "true"
	return g
}

func (w *world) sharingNode(n int, os string) *objects.Node {
	s := w.node(fmt.Sprint("s", n), fmt.Sprintf("10.244.%d.0/24", n))
	s.Facts = sharing(n, os)
	return s
}

// members are the shared gateway's as "chassis=priority", the first first.
func members(change ovsdb.Change) string {
	var list []string
	for _, r := range change.Rows {
		if m, ok := r.Model.(*nb.HAChassis); ok {
			list = append(list, fmt.Sprintf("%s=%d", m.ChassisName, m.Priority))
		}
	}
	return strings.Join(list, " ")
}

func (s *scene) egress(name string) string {
	var hops []string
	for _, r := range s.c.changeOf(northbound.NodeOwner(name)).Rows {
		if route, ok := r.Model.(*nb.LogicalRouterStaticRoute); ok && route.RouteTable == name {
			hops = append(hops, route.Nexthop)
		}
	}
	return strings.Join(hops, " ")
}

// TestSharedGatewayStory: gateway nodes and nodes that share come and go in any order.
func TestSharedGatewayStory(t *testing.T) {
	const hop = "100.64.255.254"
	s := newScene(t, withShared)
	s.do(s.sharingNode(9, contract.Windows))
	s.wantReasons("Node s9 NoSharedGateway", "Node s9 WindowsDatapath")
	s.want("egress without a gateway", s.egress("s9"), "")
	s.want("rows without a gateway", fmt.Sprint(len(s.c.changeOf(northbound.GatewayOwner).Rows)), "0")
	network := must(objects.ParseAnnotation[contract.NodeNetwork](contract.NodeNetworkAnnotation,
		s.objects[objects.Key{Kind: objects.NodeKind, Name: "s9"}].(*objects.Node).Network))
	s.want("what the node knows of it", fmt.Sprint(network.SharedGateways), "[203.0.113.50]")

	g1 := s.gatewayNode(1)
	s.do(g1)
	s.wantReasons()
	s.want("members", members(s.c.changeOf(northbound.GatewayOwner)), "chassis-1=32767")
	s.want("egress", s.egress("s9"), hop)
	s.want("the gateway node's own egress", s.egress("g1"), "100.64.0.3")

	s.do(s.gatewayNode(2), s.sharingNode(8, ""))
	s.want("members", members(s.c.changeOf(northbound.GatewayOwner)), "chassis-1=32767 chassis-2=32766")
	s.want("egress of a Linux node", s.egress("s8"), hop)

	again := *g1
	again.Gateway = "false"
	s.do(&again)
	s.want("members without g1", members(s.c.changeOf(northbound.GatewayOwner)), "chassis-2=32767")
	s.remove(objects.NodeKind, "g2")
	s.want("egress when the last is gone", s.egress("s8")+s.egress("s9"), "")
	s.wantReasons("Node s8 NoSharedGateway", "Node s9 NoSharedGateway")

	again.Gateway = "true"
	s.do(&again)
	s.want("egress when there is one again", s.egress("s9"), hop)
	own := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "s9"}].(*objects.Node)
	own.Facts = ovntest.EditFacts(9, false, func(f *contract.NodeFacts) { f.OS = contract.Windows })
	s.do(&own)
	s.want("egress by its own gateway", s.egress("s9"), "100.64.0.2")
	s.remove(objects.NodeKind, "g1", "s8", "s9")
	s.want("what remains", fmt.Sprint(len(s.c.changeOf(northbound.GatewayOwner).Rows)), "0")
}

// TestGatewayNodes states who carries the shared gateway, and what the others are told.
func TestGatewayNodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(*settings.Config)
		node  func(*objects.Node)
		words []string // of the Event; none means that it carries the gateway
	}{
		{"a Linux node with a gateway", withShared, func(*objects.Node) {}, nil},
		{"the label says so", withShared, func(n *objects.Node) { n.Gateway = "no" }, []string{"NotAGatewayNode", `is "no"`,
			"leave it empty"}},
		{"nothing is configured", nil, func(*objects.Node) {}, []string{"NotAGatewayNode", "no shared-gateway-addresses"}},
		{"Windows by its agent", withShared, func(n *objects.Node) {
			n.Facts = ovntest.EditFacts(1, false, func(f *contract.NodeFacts) { f.OS = contract.Windows })
		}, []string{"NotAGatewayNode", "runs Windows", "clone", "label Linux nodes"}},
		{"Windows by its label", withShared, func(n *objects.Node) { n.OS = contract.Windows },
			[]string{"NotAGatewayNode", "runs Windows"}},
		{"no gateway", withShared, func(n *objects.Node) {
			n.Facts = ovntest.EditFacts(1, false, func(f *contract.NodeFacts) { f.Gateway = nil })
		}, []string{"NotAGatewayNode", "the agent's key gateway"}},
		{"another network", withShared, func(n *objects.Node) {
			n.Facts = ovntest.EditFacts(1, false, func(f *contract.NodeFacts) { f.Gateway.Network = "storage" })
		}, []string{"NotAGatewayNode", `"storage"`, `shared-gateway-network "external"`}},
		{"the shared address", withShared, func(n *objects.Node) {
			n.Facts = strings.Replace(ovntest.Facts(1, false), "203.0.113.1/24", "203.0.113.50/24", 1)
		}, []string{"BadNodeFacts", "203.0.113.50", "shared-gateway-addresses", "give the node another one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, c.edit)
			n := s.gatewayNode(1)
			c.node(n)
			s.do(n)
			carries := members(s.c.changeOf(northbound.GatewayOwner)) != ""
			if carries != (c.words == nil) {
				t.Errorf("carries the gateway: %v", carries)
			}
			var texts []string
			for _, p := range s.problems {
				texts = append(texts, p.String())
			}
			for _, word := range c.words {
				if !strings.Contains(strings.Join(texts, "\n"), word) {
					t.Errorf("%q lacks %q", texts, word)
				}
			}
			if c.words == nil && len(texts) > 0 {
				t.Errorf("problems %q", texts)
			}
		})
	}
}

// TestSharedGatewayHasAnOwnerOfItsOwn: a refused row of it holds up nobody else.
func TestSharedGatewayHasAnOwnerOfItsOwn(t *testing.T) {
	s := newScene(t, withShared)
	s.do(s.gatewayNode(1))
	for _, change := range s.c.takeEverything() {
		for _, r := range change.Rows {
			if g, ok := r.Model.(*nb.HAChassisGroup); ok && g.Name == "gw@shared" && change.Owner != northbound.GatewayOwner {
				t.Errorf("%s has the group", change.Owner)
			}
		}
	}
	if changes := s.c.again(northbound.GatewayOwner); len(changes) != 1 || changes[0].Owner != northbound.GatewayOwner {
		t.Errorf("changes %v", changes)
	}
}

// TestMemberIsReplaced: a Node created anew is younger than the others, and a chassis may get another name.
func TestMemberIsReplaced(t *testing.T) {
	s := newScene(t, withShared)
	s.do(s.gatewayNode(1), s.gatewayNode(2))
	anew := s.gatewayNode(1)
	s.wantMembers(anew, "chassis-2=32767 chassis-1=32766")
	renamed := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "g2"}].(*objects.Node)
	renamed.Facts = strings.ReplaceAll(renamed.Facts, "chassis-2", "chassis-7")
	s.wantMembers(&renamed, "chassis-7=32767 chassis-1=32766")
}

// TestTwoGatewaysWithTheSame: who was there first keeps it, by the Northbound's word also after a restart; of two that
// come together it is the older. The other one gets it as soon as it is free.
func TestTwoGatewaysWithTheSame(t *testing.T) {
	address := func(f *contract.NodeFacts) { f.Gateway.Addresses[0] = netip.MustParsePrefix("203.0.113.1/25") }
	ipv6 := func(f *contract.NodeFacts) { f.Gateway.Addresses[1] = netip.MustParsePrefix("2001:db8::1/64") }
	mac := func(f *contract.NodeFacts) { f.Gateway.MAC = "02:00:00:00:00:01" }
	for _, c := range []struct {
		name   string
		change func(*contract.NodeFacts)
		words  []string // nil: both are served
	}{
		{"IPv4 address", address, []string{"gateway.addresses 203.0.113.1 ", "gateway-addresses"}},
		{"IPv6 address", ipv6, []string{"gateway.addresses 2001:db8::1 ", "gateway-addresses"}},
		{"MAC", mac, []string{"gateway.mac 02:00:00:00:00:01 ", "copied machines"}},
		{"everything on another network", func(f *contract.NodeFacts) {
			mac(f)
			address(f)
			ipv6(f)
			f.Gateway.Network = "elsewhere"
		}, nil},
		{"a next hop", func(*contract.NodeFacts) {}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := func(s *scene, name string, number int, age int64, facts string) *objects.Node {
				n := s.node(name, fmt.Sprintf("10.244.%d.0/24", number), fmt.Sprintf("fd00:10:244:%d::/64", number))
				n.Facts, n.CreationTimestamp = facts, metav1.NewTime(time.Unix(100-age, 0))
				return n
			}
			s := newScene(t, ovntest.Dual)
			first := node(s, "x", 1, 1, ovntest.Facts(1, true))
			s.do(first)
			second := node(s, "a", 2, 9, ovntest.EditFacts(2, true, c.change)) // older, and of a name that goes first
			second.Labels = objects.NewLabelSet(map[string]string{
				topology.NetworkLabel: ovntest.ReadFacts(second.Facts).Gateway.Network})
			s.do(second)
			if c.words == nil {
				s.wantReasons()
				s.wantGateways("a x")
				return
			}
			s.wantMessage(append(c.words, "Node a:", "DuplicateGateway", contract.NodeFactsAnnotation, "Node x,",
				"gateway-network", "delete Node x if it is gone")...)
			s.wantGateways("x")

			engine := ovsdbtest.Engine(t, ovsdbtest.Northbound(t), northbound.Tables...)
			if err := engine.Replace(t.Context(), s.c.takeEverything()); err != nil {
				t.Fatal(err)
			}
			known := func() records.Records { return ovnRecords(t, engine) }
			unknown := func() records.Records { return records.Records{} }
			more := *first // which has got an address since, so that its gateway is not what the Northbound has either
			more.Facts = ovntest.EditFacts(1, true, func(f *contract.NodeFacts) {
				f.Gateway.Addresses = append(f.Gateway.Addresses, netip.MustParsePrefix("203.0.113.99/25"))
			})
			for _, restart := range []struct {
				first *objects.Node
				r     func() records.Records
				want  string
			}{{first, known, "x"}, {&more, known, "x"}, {first, unknown, "a"}} {
				s.put(restart.first)
				s.c = newCluster(s.c.settings)
				s.c.begin(restart.r(), s.Keys(), s.Get)
				s.touch(s.absorb(s.c))
				s.wantGateways(restart.want)
				if len(s.problems) != 1 || s.problems[0].Reason != "DuplicateGateway" {
					t.Errorf("after a restart: %v", s.problems)
				}
				s.problems = nil
			}

			s.remove(objects.NodeKind, "a")
			s.wantGateways("x")
			s.do(second)
			s.wantMessage("Node a:", "DuplicateGateway")
			mended := *second
			mended.Facts = ovntest.Facts(2, true)
			s.do(&mended)
			s.wantGateways("a x")
			s.wantReasons()
		})
	}
}

// wantGateways checks which nodes have a gateway router.
func (s *scene) wantGateways(want string) {
	s.t.Helper()
	var names []string
	for _, name := range s.c.nodes.Names() {
		for _, row := range s.c.changeOf(northbound.NodeOwner(name)).Rows {
			if router, ok := row.Model.(*nb.LogicalRouter); ok {
				names = append(names, strings.TrimPrefix(router.Name, "gw-"))
			}
		}
	}
	s.want("gateways", strings.Join(names, " "), want)
}

// wantMembers checks that what happens to a node changes the shared gateway's rows.
func (s *scene) wantMembers(n *objects.Node, want string) {
	s.t.Helper()
	s.c.update(s.put(n), s.Get)
	changes := s.c.takeChanges()
	if !slices.ContainsFunc(changes, func(c ovsdb.Change) bool {
		return c.Owner == northbound.GatewayOwner && members(c) == want
	}) {
		s.t.Errorf("changes %v, want members %s", changes, want)
	}
}
