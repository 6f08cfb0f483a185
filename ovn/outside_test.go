package ovn

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// TestNetworksAreGranted states which network outside a node is on, by what its agent says and what administrators do.
func TestNetworksAreGranted(t *testing.T) {
	const none = "(none)"
	for _, c := range []struct {
		name                         string
		said, label, byDefault, want string
		words                        []string // of the Event
		withoutGateway               bool
	}{
		{name: "the default one", said: "external", label: none, byDefault: "external", want: "external"},
		{name: "a default of another name", said: "office", label: none, byDefault: "office", want: "office"},
		{name: "another one than the default", said: "storage", label: none, byDefault: "external",
			words: []string{"GatewayNetworkNotGranted", `network "storage"`, "has no label weft.net/gateway-network",
				`default-gateway-network is "external"`,
				"kubectl label --overwrite node n1 weft.net/gateway-network=storage", "correct gateway-network of its agent",
				"its own pods leave by its gateway"}},
		{name: "by its label", said: "storage", label: "storage", byDefault: "external", want: "storage"},
		{name: "a label in place of the default", said: "external", label: "storage", byDefault: "external",
			words: []string{`its label weft.net/gateway-network is "storage"`, "weft.net/gateway-network=external"}},
		{name: "an empty label grants none", said: "external", label: "", byDefault: "external",
			words: []string{`its label weft.net/gateway-network is ""`}},
		{name: "no default", said: "external", label: none, byDefault: "", words: []string{`default-gateway-network is ""`}},
		{name: "no default, by its label", said: "external", label: "external", byDefault: "", want: "external"},
		{name: "a name that no label has", said: "x; reboot", label: none, byDefault: "external",
			words: []string{`network "x; reboot"`, "no label can have that name"}},
		{name: "no gateway", withoutGateway: true, label: "storage", byDefault: "external"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, func(config *settings.Config) { config.DefaultGatewayNetwork = c.byDefault })
			n := s.node("n1", "10.244.1.0/24")
			if c.label != none {
				n.Labels = objects.NewLabelSet(map[string]string{topology.NetworkLabel: c.label})
			}
			n.Facts = ovntest.EditFacts(1, false, func(f *contract.NodeFacts) {
				if f.Gateway.Network = c.said; c.withoutGateway {
					f.Gateway = nil
				}
			})
			s.do(n)
			s.want("network", s.c.nodes.At("n1").Outside, c.want)
			if len(c.words) > 0 {
				s.wantMessage(append(c.words, "Node n1")...)
			}
			for _, p := range s.problems {
				t.Errorf("problem %v", p)
			}
			if c.withoutGateway {
				return
			}
			s.want("what the Southbound is told", s.granted("n1"), c.want)
			s.want("its own pods leave", s.egress("n1"), "100.64.0.2")
		})
	}
}

// granted is the network that the port of a node's gateway to the outside says is granted.
func (s *scene) granted(node string) string {
	s.t.Helper()
	for _, r := range s.c.changeOf(northbound.NodeOwner(node)).Rows {
		if p, ok := r.Model.(*nb.LogicalSwitchPort); ok && p.Type == "localnet" {
			network, said := p.ExternalIDs[contract.GrantedNetworkKey]
			if !said { // what OVN had before would stay
				s.t.Errorf("the port of %s says nothing of a grant", node)
			}
			return network
		}
	}
	s.t.Errorf("node %s has no way outside", node)
	return ""
}

// thieves are what somebody says of himself who has taken node e9, which is on the network storage: all that could give
// him what belongs to the network external.
var thieves = map[string]func(*contract.NodeFacts){
	"is on the other network": func(f *contract.NodeFacts) { f.Gateway.Network = "external" },
	"has the other network's subnet": func(f *contract.NodeFacts) {
		f.Gateway.Addresses = []netip.Prefix{netip.MustParsePrefix("203.0.113.9/24")}
	},
	"has a subnet in it": func(f *contract.NodeFacts) {
		f.Gateway.Addresses = []netip.Prefix{netip.MustParsePrefix("203.0.113.65/30")}
	},
	"is on the other network, with the gateway of a node there": func(f *contract.NodeFacts) {
		f.Gateway = ovntest.ReadFacts(ovntest.Facts(1, false)).Gateway
	},
	"is on the other network, with a node's MAC": func(f *contract.NodeFacts) {
		f.Gateway.Network, f.Gateway.MAC = "external", ovntest.ReadFacts(ovntest.Facts(1, false)).Gateway.MAC
	},
}

// TestAStolenNodeJoinsNoNetwork: an administrator has let it carry egress addresses and the shared gateway of its own
// network. By what it says of itself it comes to nothing on another one, nor does it take anything from who is there.
func TestAStolenNodeJoinsNoNetwork(t *testing.T) {
	for name, lie := range thieves {
		for _, c := range []struct{ granted, byDefault, named string }{{"storage", "external", ""}, {"", "external", ""},
			{"storage", "", "external"}, {"storage", "storage", "external"}} {
			t.Run(fmt.Sprintf("%s/%+v", name, c), func(t *testing.T) {
				granted := c.granted
				s := newScene(t, func(config *settings.Config) {
					withBalancers(config)
					withShared(config)
					config.DefaultGatewayNetwork = c.byDefault
				})
				stolen := s.node("e9", "10.244.9.0/24")
				stolen.Ready, stolen.Gateway = true, "true"
				stolen.Labels = objects.NewLabelSet(map[string]string{v1alpha1.EgressLabel: "", topology.NetworkLabel: granted})
				honest := func(f *contract.NodeFacts) {
					f.Gateway.Network, f.Gateway.NextHops = "storage", nil
					f.Gateway.Addresses = []netip.Prefix{netip.MustParsePrefix("10.9.0.9/24")}
				}
				stolen.Facts = ovntest.EditFacts(9, false, honest)
				stolen.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
				s.do(stolen, s.namespace("default", "team=a"))
				pool, address := s.addressPool("p", "203.0.113.64/28"), s.egressIP("a", "team=a", "203.0.113.20")
				pool.Network, address.Network = c.named, c.named
				s.do(pool, address)
				lying := *stolen
				lying.Facts = ovntest.EditFacts(9, false, func(f *contract.NodeFacts) { honest(f); lie(f) })
				s.do(&lying) // before the others are there: who comes first has no right by that
				for n := range 4 {
					honest := s.gatewayNode(1 + n)
					honest.Ready, honest.Labels = true, objects.NewLabelSet(map[string]string{v1alpha1.EgressLabel: "",
						topology.NetworkLabel: "external"})
					s.do(honest)
				}
				for i := range 12 {
					s.do(s.balanced(fmt.Sprint("web", i)))
				}
				s.want("what it announces", fmt.Sprint(s.c.pools.AnnouncedBy("e9")), "[]")
				for i := range 12 {
					addr := netip.MustParseAddr(s.external(fmt.Sprint("web", i)))
					if node, ours := s.c.pools.Announcer(addr); !ours || node == "" {
						t.Errorf("nobody announces %s", addr)
					}
				}
				s.wantEgress("a", "True", "Carried", "4 nodes", "external")
				for _, members := range []string{members(s.c.changeOf(northbound.EgressOwner("a"))),
					members(s.c.changeOf(northbound.GatewayOwner))} {
					if strings.Contains(members, "chassis-9") || !strings.Contains(members, "chassis-1") {
						t.Errorf("members are %s", members)
					}
				}
				// Nodes of all networks watch each other, if they are granted one.
				if watched := fmt.Sprint(s.watched()); strings.Contains(watched, "chassis-9") && s.c.nodes.At("e9").Outside == "" {
					t.Errorf("a node on no network says who lives: %s", watched)
				}
				if said := s.granted("e9"); said != "" && said != granted {
					t.Errorf("it is granted %q", said)
				}
				for n := range 4 {
					s.want("who is there has a gateway", s.granted(fmt.Sprint("g", 1+n)), "external")
				}
			})
		}
	}
}

// TestAGrantComesAndGoes: by the label alone a node begins to take part, and ends.
func TestAGrantComesAndGoes(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c); c.DefaultGatewayNetwork = "" })
	n := s.egressNode(1)
	s.do(n, s.namespace("default", "team=a"), s.addressPool("p", "203.0.113.64/28"),
		s.egressIP("a", "team=a", "203.0.113.20"), s.balanced("web"))
	for range 2 {
		s.wantEgress("a", "False", "NoNode", "no administrator has granted Node e1 the network", topology.NetworkLabel)
		s.want("announces", fmt.Sprint(s.c.pools.AnnouncedBy("e1")), "[]")
		if message := s.poolMessage("p"); !strings.Contains(message, "nobody announces") {
			t.Errorf("the pool says %q", message)
		}
		s.wantReasons("Node e1 GatewayNetworkNotGranted")
		granted := *n
		granted.Labels = objects.NewLabelSet(map[string]string{v1alpha1.EgressLabel: "", topology.NetworkLabel: "external"})
		s.do(&granted)
		s.wantEgress("a", "True", "Carried")
		s.want("announces", fmt.Sprint(s.c.pools.AnnouncedBy("e1")), "[203.0.113.64]")
		s.problems = nil
		s.do(n)
	}
}
