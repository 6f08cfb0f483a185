package oracle

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/settings"
)

// court is all that judges a scene.
type court struct {
	scene   *scene
	offline *ovn.Offline
	tables  *acl.Tables
	ends    map[string][]*end // by pod; of those without an address of their own, what they have instead
	oracles *oracles
}

func config(f families) settings.Config {
	c := settings.DefaultConfig()
	c.Northbound = []string{"unix:/run/ovn/ovnnb_db.sock"}
	if f.ipv4 {
		c.PodCIDRs, c.ServiceCIDRs = append(c.PodCIDRs, "10.244.0.0/16"), append(c.ServiceCIDRs, "10.96.0.0/16")
	}
	if f.ipv6 {
		c.PodCIDRs, c.ServiceCIDRs = append(c.PodCIDRs, "fd00:10:244::/48"), append(c.ServiceCIDRs, "fd00:10:96::/112")
	}
	return c
}

// newCourt translates a scene. Every policy that is made up is one that the API allows: Weft has nothing to
// complain of but equal priorities.
func newCourt(s *scene, knp *kubeNetworkPolicies) (*court, error) {
	c := &court{scene: s, ends: map[string][]*end{}}
	var err error
	if c.offline, err = ovn.Translate(config(s.families), s.objects()); err != nil {
		return nil, err
	}
	for _, p := range c.offline.Problems {
		if p.Reason != "SamePriority" {
			return nil, fmt.Errorf("a problem: %s", p)
		}
	}
	rows, err := acl.FromChanges(c.offline.Changes)
	if err != nil {
		return nil, err
	}
	if c.tables, err = acl.New(rows); err != nil {
		return nil, err
	}
	for _, p := range s.pods {
		name := p.Namespace + "/" + p.Name
		own, ok := c.offline.Pods[name]
		if apart := p.Spec.HostNetwork || completed(p); ok == apart {
			return nil, fmt.Errorf("pod %s has an address: %t", name, ok)
		}
		for _, a := range own.Addresses {
			c.ends[name] = append(c.ends[name], &end{a, p, s.namespace(p.Namespace), own.Port})
		}
		if !ok {
			for _, ip := range p.Status.PodIPs {
				c.ends[name] = append(c.ends[name], &end{address: netip.MustParseAddr(ip.IP)})
			}
		}
	}
	c.oracles, err = newOracles(s, c.ends, knp)
	return c, err
}

// packet finds a connection's ends; nil where no packet goes between them, or none that policies are about:
// neither end is a pod, or both are the same.
func (c *court) packet(k connection) *packet {
	var found []*packet
	for _, from := range c.endsOf(k.from) {
		for _, to := range c.endsOf(k.to) {
			if from.address.Is4() == to.address.Is4() && (from.pod != nil || to.pod != nil) && from.pod != to.pod {
				found = append(found, &packet{from, to, k.protocol, k.port})
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[k.family%len(found)]
}

func (c *court) endsOf(text string) []*end {
	if addr, err := netip.ParseAddr(text); err == nil {
		return []*end{{address: addr}}
	}
	return c.ends[text]
}

// judge asks everybody.
func (c *court) judge(t testing.TB, p *packet) (rows acl.Verdict, others []opinion) {
	rows = c.tables.Judge(c.entering(p))
	if n := c.scene.node(p.from.address); n != nil && p.to.pod != nil && p.to.pod.Spec.NodeName == n.Name {
		// The oracles leave it to their callers that a node reaches the pods on it.
		return rows, []opinion{{"the API, of a node and its own pods,", true}}
	}
	others, err := c.oracles.ask(p)
	if err != nil {
		t.Fatal(err)
	}
	return rows, others
}

var protocolNumbers = map[corev1.Protocol]uint8{corev1.ProtocolTCP: acl.TCP, corev1.ProtocolUDP: acl.UDP,
	corev1.ProtocolSCTP: acl.SCTP}

// entering is where a packet starts and ends in OVN. A node's host has its management port: for its own pods,
// and for whom it asks for; others come and go by a router.
func (c *court) entering(p *packet) acl.Connection {
	k := acl.Connection{Packet: acl.Packet{Inport: p.from.port, Outport: p.to.port, Src: p.from.address, Dst: p.to.address,
		SrcPort: 40000, DstPort: p.port, Proto: protocolNumbers[p.protocol]}}
	if p.protocol == icmp {
		k.Proto, k.ICMPType, k.SrcPort = acl.ICMP, 8, 0
		if k.Src.Is6() {
			k.Proto, k.ICMPType = acl.ICMPv6, 128
		}
	}
	if n := c.scene.node(p.from.address); n != nil {
		k.Inport = contract.ManagementPort(n.Name)
	}
	if n := c.scene.node(p.to.address); n != nil && (p.from.pod.Spec.NodeName == n.Name ||
		slices.Contains(managementAddresses(n), p.to.address)) {
		k.Outport = contract.ManagementPort(n.Name)
	}
	return k
}

// steps are a verdict's, a line each.
func steps(v acl.Verdict) string {
	var lines []string
	for _, s := range v.Steps {
		lines = append(lines, fmt.Sprintf("  %s on %s: tier %d, %d: %s: %s (%s)", s.Stage, s.Switch, s.Rule.Tier,
			s.Rule.Priority, s.Rule.Action, s.Rule.Text, s.Rule.Name))
	}
	return strings.Join(append(lines, ""), "\n")
}
