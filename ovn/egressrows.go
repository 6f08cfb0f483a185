package ovn

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// Priorities of the cluster router's policies for egress addresses. Services that nobody knows are
// dropped before.
const (
	policyEgressWithin = 60
	policyEgress       = 50
)

// answerMark is a packet's mark where it is an answer of a pod with an egress address: as ovn-kubernetes
// has it. Datapaths without marks, as that of Windows, need none: what sets it and what reads it is one
// pass of ovs-vswitchd.
const answerMark = 42

// change is an EgressIP's part of the network: the sets of its pods, the policies that lead them to
// its router, and the router, which is on all nodes and whose port to the outside is on one of its
// members at a time, like the shared gateway's. Without a member the policies drop: a pod that shall
// have one address outside does not leave with another.
func (b *egressBook) change(name string) ovsdb.Change {
	r := newRows(egressOwner(name))
	e := b.all[name]
	if e == nil || e.object.wrong != "" {
		return r.Change
	}
	for _, addr := range e.object.addresses {
		ip := ipWord(addr.Is4())
		r.add(nb.AddressSetTable, ip, &nb.AddressSet{Name: egressSet(name, addr.Is4())})
		policy := &nb.LogicalRouterPolicy{Priority: policyEgress, Match: ip + ".src == $" + egressSet(name, addr.Is4()),
			Action: nb.LogicalRouterPolicyActionDrop}
		if len(e.plan.members) > 0 {
			policy.Action = nb.LogicalRouterPolicyActionReroute
			policy.Nexthops = []string{family(b.settings.joinAddresses(e.number), addr).Addr().String()}
		}
		r.policy(clusterRouterID, ip, policy)
	}
	if len(e.plan.members) > 0 {
		r.egressRouter(b.settings, e)
	}
	return r.Change
}

// egressRouter is the router that turns pods' addresses into an EgressIP's.
func (r *rows) egressRouter(s *settings, e *egressState) {
	name, g := "egress@"+e.object.Name, &e.plan.gateway
	group := r.add(nb.HAChassisGroupTable, "gateway", &nb.HAChassisGroup{Name: name})
	for i, m := range e.plan.members {
		r.member(nb.HAChassisGroupTable, group, "ha_chassis", r.add(nb.HAChassisTable, e.plan.names[i], &nb.HAChassis{
			ChassisName: m.chassis, Priority: max(maxPriority-i, 0)}))
	}
	id := r.logicalRouter("gateway", name, nil)
	r.link("join", id, joinSwitchID, routerPort("rtoj-"+name, s.joinAddresses(e.number)), "jtor-"+name, nil)
	outside := r.external("-"+name, g.Network, g.Network)
	port := &nb.LogicalRouterPort{Name: "rtoe-" + name, MAC: g.MAC, Networks: texts(g.Addresses), HaChassisGroup: &group}
	r.link("external", id, outside, port, "etor-"+name, map[string]string{"nat-addresses": "router", "exclude-lb-vips-from-garp": "true"})
	r.gatewayRoutes(s, id, port.Name, g)
	for _, pods := range s.pods {
		if address := family(g.Addresses, pods.Addr()); address != nil {
			r.snat(id, pods, address.Addr())
		}
	}
}

// commonChange is what all EgressIPs share: what stays within the cluster goes its ordinary way, so
// does what is for nodes, and so do answers: a client outside that came by a node's gateway with an address
// of its own (externalTrafficPolicy: Local) shall not hear from another one.
func (b *egressBook) commonChange() ovsdb.Change {
	r := newRows(egressNodesOwner)
	if len(b.all) == 0 {
		return r.Change
	}
	r.policy(clusterRouterID, "answers", &nb.LogicalRouterPolicy{Priority: policyEgressWithin, Match: fmt.Sprint("pkt.mark == ", answerMark), Action: nb.LogicalRouterPolicyActionAllow})
	for _, pods := range b.settings.pods {
		ipv4 := pods.Addr().Is4()
		all := "weft_egress_pods_" + ipWord(ipv4)
		r.add(nb.AddressSetTable, "pods/"+ipWord(ipv4), &nb.AddressSet{Name: all})
		ip, set := ipWord(ipv4), "egress_nodes_"+ipWord(ipv4)
		answer := "ct.trk && ct.rpl && " + ip + ".src == $" + all
		within := fmt.Sprintf("%s.dst == {%s, %s, $weft_%s}", ip, pods, family(b.settings.joins, pods.Addr()), set)
		for key, qos := range map[string]*nb.QoS{
			ip: {Priority: 1000, Match: answer, Action: map[string]int{nb.QoSActionMark: answerMark}},
			// A mark would be looked for in the route of the tunnel, too (ovs_router_lookup of ovs-router.c).
			"within/" + ip: {Priority: 1001, Match: answer + " && " + within, Action: map[string]int{nb.QoSActionMark: 0}},
		} {
			qos.Direction = nb.QoSDirectionFromLport
			id := r.add(nb.QoSTable, key, qos)
			for n := range b.nodes.placed() {
				r.member(nb.LogicalSwitchTable, switchID(n.name), "qos_rules", id)
			}
		}
		id := r.add(nb.AddressSetTable, ip, &nb.AddressSet{Name: "weft_" + set})
		var addresses []string
		for n := range b.nodes.placed() {
			for _, addr := range n.facts.Addresses {
				if addr.Is4() == ipv4 {
					addresses = append(addresses, addr.String())
				}
			}
		}
		slices.Sort(addresses)
		if addresses = slices.Compact(addresses); len(addresses) > 0 {
			r.member(nb.AddressSetTable, id, "addresses", addresses...)
		}
		for key, match := range map[string]string{
			"pods/":  ip + ".dst == " + pods.String(),
			"join/":  ip + ".dst == " + family(b.settings.joins, pods.Addr()).String(),
			"nodes/": ip + ".dst == $weft_" + set,
		} {
			r.policy(clusterRouterID, key+ip, &nb.LogicalRouterPolicy{Priority: policyEgressWithin, Match: match, Action: nb.LogicalRouterPolicyActionAllow})
		}
	}
	return r.Change
}
