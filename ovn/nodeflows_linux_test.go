package ovn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestANodesFlowsAreItsOwn: what a further node of the cluster costs this node does not depend on how many Services
// there are. A node's Services are on the switch of its pods, and no other node needs flows of that switch.
func TestANodesFlowsAreItsOwn(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	flows := func() int {
		return strings.Count(d.ovn.Run("ovs-ofctl", "-O", "OpenFlow15", "dump-flows", "br-int"), "cookie=")
	}
	next := 2
	cost := func() int {
		before := flows()
		n := d.node(fmt.Sprint("n", next), fmt.Sprintf("10.244.%d.0/24", next), fmt.Sprintf("fd00:10:244:%d::/64", next))
		n.Facts = ovntest.Facts(next, true)
		d.do(n)
		next++
		return flows() - before
	}
	cost() // the first one brings what all others share
	without := cost()
	const services = 40
	var all []any
	for i := range services {
		name := fmt.Sprint("s", i)
		all = append(all, d.service(name, fmt.Sprintf("10.96.1.%d", i+1)), d.slice(name, name, []objects.ServicePort{
			{Name: "http", Protocol: "tcp", Port: 80}}, ready("10.244.0.9", "n1"), ready("10.244.1.9", "n2")))
	}
	d.do(all...)
	with := cost()
	t.Logf("a further node is %d flows of this one without Services, and %d with %d of them", without, with, services)
	if with > without {
		t.Errorf("%d Services are %d flows of this node for each further node", services, with-without)
	}
}

// TestFlowsOfOtherNodesGoByARecompute: an ovn-controller that ran while the router's ports were bound to no node keeps
// the flows of other nodes' switches, and a recompute takes them away. So the playbooks ask for one with new programs.
func TestFlowsOfOtherNodesGoByARecompute(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	flows := func() int {
		d.ovn.NB("--timeout=60", "--wait=hv", "sync")
		return strings.Count(d.ovn.Run("ovs-ofctl", "-O", "OpenFlow15", "dump-flows", "br-int"), "cookie=")
	}
	recompute := func() int {
		d.ovn.Run("ovn-appctl", "-t", d.ovn.Control("ovn-controller"), "inc-engine/recompute")
		return flows()
	}
	var ports []string
	for i := range 5 {
		n := d.node(fmt.Sprint("n", i+2), fmt.Sprintf("10.244.%d.0/24", i+2), fmt.Sprintf("fd00:10:244:%d::/64", i+2))
		n.Facts = ovntest.Facts(i+2, true)
		d.do(n)
		ports = append(ports, northbound.ClusterRouterPort(n.Name))
	}
	bound := recompute()
	groups := map[string]string{}
	for _, port := range ports {
		groups[port] = strings.TrimSpace(d.ovn.NB("get", "Logical_Router_Port", port, "ha_chassis_group"))
		d.ovn.NB("clear", "Logical_Router_Port", port, "ha_chassis_group")
	}
	unbound := recompute()
	for port, group := range groups {
		d.ovn.NB("set", "Logical_Router_Port", port, "ha_chassis_group="+group)
	}
	kept, after := flows(), recompute()
	t.Logf("flows: bound %d, unbound %d, bound again %d, after a recompute %d", bound, unbound, kept, after)
	if unbound <= bound {
		t.Errorf("%d flows with unbound ports, and %d with bound ones", unbound, bound)
	}
	if after != bound {
		t.Errorf("%d flows after the recompute, want %d", after, bound)
	}
}
