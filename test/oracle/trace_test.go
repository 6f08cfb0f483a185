package oracle

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// traced is how many scenes go through OVN, and tracedPackets how many packets of each.
const traced, tracedPackets = 6, 8

// TestOVNJudgesAsRows has ovn-northd make logical flows of some scenes' rows, and ovn-trace say what becomes of
// packets.
func TestOVNJudgesAsRows(t *testing.T) {
	t.Logf("-seed %d -first %d", *seed, *first)
	d := ovsdbtest.Northbound(t)
	server, southbound := ovsdbtest.Server(t, d), ovsdbtest.Server(t, ovsdbtest.Southbound(t))
	ovsdbtest.Northd(t, server, southbound)
	engine := ovsdb.NewEngine(ovsdbtest.Connect(t, d, server.Endpoint, northbound.Tables...))
	asked, refused := 0, 0
	for number := range uint64(traced) {
		number += *first
		g := newGenerator(*seed, number)
		c, err := newCourt(g.scene(number%2 == 1), newKubeNetworkPolicies())
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Replace(context.Background(), c.offline.Changes); err != nil {
			t.Fatal(err)
		}
		ovsdbtest.Run(t, "ovn-nbctl", "--timeout=60", "--db="+server.Endpoint, "--wait=sb", "sync")
		for range tracedPackets {
			p := c.packet(g.connection(c.scene))
			for p == nil || !c.traceable(p) {
				p = c.packet(g.connection(c.scene))
			}
			v := c.tables.Judge(c.entering(p))
			if asked++; !v.Allowed {
				refused++
			}
			text := ovsdbtest.Run(t, "ovn-trace", "--no-friendly-names", "--db="+southbound.Endpoint, "--ct=new", "--ct=new",
				"--ct=new", "--ct=new", "--ct=new", c.microflow(p))
			if passes := slices.ContainsFunc(c.exits(p), func(port string) bool {
				return strings.Contains(text, fmt.Sprintf("output to %q", port))
			}); passes != v.Allowed {
				t.Fatalf("%s to %s, %s/%d: the rows allow: %t, by\n%sbut OVN lets it through: %t\n%s\n%s", p.from.address,
					p.to.address, p.protocol, p.port, v.Allowed, steps(v), passes, c.scene, text)
			}
		}
	}
	t.Logf("%d packets, %d of them refused", asked, refused)
}

// exits are the ports by which a packet may leave OVN: the destination's, or the way out of the source's node,
// which some of what is for the host there takes, too.
func (c *court) exits(p *packet) []string {
	port := c.entering(p).Outport
	if p.to.pod != nil {
		return []string{port}
	}
	return []string{port, "localnet-" + c.subnet(p.from)}
}

// traceable packets are those that OVN would bring somewhere, were it not for policies: what nobody answers for
// within the cluster is lost in any case.
func (c *court) traceable(p *packet) bool {
	if p.from.pod == nil && c.scene.node(p.from.address) == nil {
		return false // it would have to come by a gateway, which a chassis has
	}
	within := false
	for _, cidr := range config(c.scene.families).PodCIDRs {
		within = within || netip.MustParsePrefix(cidr).Contains(p.to.address)
	}
	// A range that is nobody's and an IPv4 address that is reserved lead nowhere.
	return p.to.pod != nil || c.scene.node(p.to.address) != nil || !within && p.to.address.String() != "255.0.0.1"
}

// microflow is a packet as it leaves its source for the router.
func (c *court) microflow(p *packet) string {
	k := c.entering(p)
	subnet := c.subnet(p.from)
	source := contract.MAC(c.addresses(p.from)...)
	next := contract.MAC(c.gateways(subnet)...)
	if p.to.pod != nil && c.subnet(p.to) == subnet {
		next = contract.MAC(c.addresses(p.to)...)
	} else if n := c.scene.node(p.to.address); n != nil && n.Name == subnet && slices.Contains(managementAddresses(n),
		p.to.address) {
		next = contract.MAC(managementAddresses(n)...)
	}
	family := "ip4"
	if p.from.address.Is6() {
		family = "ip6"
	}
	l4 := ""
	switch p.protocol {
	case icmp:
		l4 = fmt.Sprintf("icmp%c.type == %d && icmp%c.code == 0", family[2], k.ICMPType, family[2])
	default:
		word := map[corev1.Protocol]string{corev1.ProtocolTCP: "tcp", corev1.ProtocolUDP: "udp",
			corev1.ProtocolSCTP: "sctp"}[p.protocol]
		l4 = fmt.Sprintf("%s.src == %d && %s.dst == %d", word, k.SrcPort, word, k.DstPort)
	}
	return fmt.Sprintf("inport == %q && eth.src == %s && eth.dst == %s && ip.ttl == 64 && %s.src == %s && %s.dst == "+
		"%s && %s",
		k.Inport, source, next, family, p.from.address, family, p.to.address, l4)
}

// subnet is the node on whose switch an end is.
func (c *court) subnet(e *end) string {
	if e.pod != nil {
		return e.pod.Spec.NodeName
	}
	return c.scene.node(e.address).Name
}

// addresses are all that an end's port has.
func (c *court) addresses(e *end) []netip.Addr {
	if e.pod == nil {
		return managementAddresses(c.scene.node(e.address))
	}
	return c.offline.Pods[e.pod.Namespace+"/"+e.pod.Name].Addresses
}

// gateways are the router's addresses on a node's switch.
func (c *court) gateways(node string) (list []netip.Addr) {
	for _, n := range c.scene.nodes {
		if n.Name == node {
			for _, cidr := range n.Spec.PodCIDRs {
				list = append(list, contract.GatewayAddress(netip.MustParsePrefix(cidr)))
			}
		}
	}
	return list
}
