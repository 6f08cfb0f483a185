package egress

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// Priorities of the cluster router's policies for egress addresses. Services that nobody knows are
// dropped before.
const (
	policyEgressWithin = 60
	policyEgress       = 50
)

// AnswerMark is a packet's mark where it is an answer of a pod with an egress address: as ovn-kubernetes
// has it. Datapaths without marks, as that of Windows, need none: what sets it and what reads it is one
// pass of ovs-vswitchd.
const AnswerMark = 42

// change is an EgressIP's part of the network: the sets of its pods, the policies that lead them to
// its router, and the router, which is on all nodes and whose port to the outside is on one of its
// members at a time, like the shared gateway's. Without a member the policies drop: a pod that must
// have one address outside does not leave with another.
func (b *Part) change(name string) ovsdb.Change {
	r := topology.NewRows(northbound.EgressOwner(name))
	e := b.all[name]
	if e == nil || e.object.Wrong != "" {
		return r.Change
	}
	for _, addr := range e.object.Addresses {
		ip := northbound.IPWord(addr.Is4())
		r.Add(nb.AddressSetTable, ip, &nb.AddressSet{Name: setOf(name, addr.Is4())})
		policy := &nb.LogicalRouterPolicy{Priority: policyEgress, Match: ip + ".src == $" + setOf(name, addr.Is4()),
			Action: nb.LogicalRouterPolicyActionDrop}
		if len(e.plan.members) > 0 {
			policy.Action = nb.LogicalRouterPolicyActionReroute
			policy.Nexthops = []string{ipam.Family(b.settings.JoinAddresses(e.number), addr).Addr().String()}
		}
		r.Policy(northbound.ClusterRouterID, ip, policy)
	}
	if len(e.plan.members) > 0 {
		router(r, b.settings, e)
	}
	return r.Change
}

// router is the router that turns pods' addresses into an EgressIP's.
func router(r *topology.Rows, s *settings.Settings, e *state) {
	name, g := "egress@"+e.object.Name, &e.plan.gateway
	group := r.Add(nb.HAChassisGroupTable, "gateway", &nb.HAChassisGroup{Name: name})
	for i, m := range e.plan.members {
		r.Member(nb.HAChassisGroupTable, group, "ha_chassis", r.Add(nb.HAChassisTable, e.plan.names[i], &nb.HAChassis{
			ChassisName: m.Chassis, Priority: max(northbound.MaxPriority-i, 0)}))
	}
	id := r.LogicalRouter("gateway", name, nil)
	r.Link("join", id, northbound.JoinSwitchID, northbound.RouterPort("rtoj-"+name, s.JoinAddresses(e.number)),
		"jtor-"+name, nil)
	outside := r.External("-"+name, g.Network, g.Network)
	port := &nb.LogicalRouterPort{Name: "rtoe-" + name, MAC: g.MAC, Networks: ipam.Texts(g.Addresses),
		HaChassisGroup: &group}
	r.Link("external", id, outside, port, "etor-"+name, map[string]string{"nat-addresses": "router",
		"exclude-lb-vips-from-garp": "true"})
	r.GatewayRoutes(s, id, port.Name, g)
	for _, pods := range s.Pods {
		if address := ipam.Family(g.Addresses, pods.Addr()); address != nil {
			r.Snat(id, pods, address.Addr())
		}
	}
}

// commonChange is what all EgressIPs share: what stays within the cluster goes its ordinary way, so
// does what is for nodes, and so do answers: a client outside that came by a node's gateway with an address
// of its own (externalTrafficPolicy: Local) must not hear from another one.
func (b *Part) commonChange() ovsdb.Change {
	r := topology.NewRows(northbound.EgressNodesOwner)
	if len(b.all) == 0 {
		return r.Change
	}
	r.Policy(northbound.ClusterRouterID, "answers", &nb.LogicalRouterPolicy{Priority: policyEgressWithin,
		Match: fmt.Sprint("pkt.mark == ", AnswerMark), Action: nb.LogicalRouterPolicyActionAllow})
	for _, pods := range b.settings.Pods {
		ipv4 := pods.Addr().Is4()
		all := "weft_egress_pods_" + northbound.IPWord(ipv4)
		r.Add(nb.AddressSetTable, "pods/"+northbound.IPWord(ipv4), &nb.AddressSet{Name: all})
		ip, set := northbound.IPWord(ipv4), "egress_nodes_"+northbound.IPWord(ipv4)
		answer := "ct.trk && ct.rpl && " + ip + ".src == $" + all
		within := fmt.Sprintf("%s.dst == {%s, %s, $weft_%s}", ip, pods, ipam.Family(b.settings.Joins, pods.Addr()), set)
		for key, qos := range map[string]*nb.QoS{
			ip: {Priority: 1000, Match: answer, Action: map[string]int{nb.QoSActionMark: AnswerMark}},
			// A mark would be looked for in the route of the tunnel, too (ovs_router_lookup of ovs-router.c).
			"within/" + ip: {Priority: 1001, Match: answer + " && " + within, Action: map[string]int{nb.QoSActionMark: 0}},
		} {
			qos.Direction = nb.QoSDirectionFromLport
			id := r.Add(nb.QoSTable, key, qos)
			for n := range b.nodes.Placed() {
				r.Member(nb.LogicalSwitchTable, northbound.SwitchID(n.Name), "qos_rules", id)
			}
		}
		id := r.Add(nb.AddressSetTable, ip, &nb.AddressSet{Name: "weft_" + set})
		var addresses []string
		for n := range b.nodes.Placed() {
			for _, addr := range n.Facts.Addresses {
				if addr.Is4() == ipv4 {
					addresses = append(addresses, addr.String())
				}
			}
		}
		slices.Sort(addresses)
		if addresses = slices.Compact(addresses); len(addresses) > 0 {
			r.Member(nb.AddressSetTable, id, "addresses", addresses...)
		}
		for key, match := range map[string]string{
			"pods/":  ip + ".dst == " + pods.String(),
			"join/":  ip + ".dst == " + ipam.Family(b.settings.Joins, pods.Addr()).String(),
			"nodes/": ip + ".dst == $weft_" + set,
		} {
			r.Policy(northbound.ClusterRouterID, key+ip, &nb.LogicalRouterPolicy{Priority: policyEgressWithin, Match: match,
				Action: nb.LogicalRouterPolicyActionAllow})
		}
	}
	return r.Change
}
