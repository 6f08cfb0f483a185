package ovn

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/policies"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// mixedWorld has two Linux nodes that carry the shared gateway, a Windows node with a gateway of its own,
// one that shares, and Services of all kinds.
func mixedWorld(w *world) {
	subnets := func(n int) []string {
		return []string{fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("fd00:10:244:%d::/64", n)}
	}
	l1, l2 := w.node("l1", subnets(1)...), w.node("l2", subnets(2)...)
	w1, w2 := w.node("w1", subnets(3)...), w.node("w2", subnets(4)...)
	l1.Facts, l1.Gateway = ovntest.Facts(1, true), "true"
	l2.Facts, l2.Gateway = ovntest.Facts(2, true), "true"
	w1.Facts = ovntest.EditFacts(3, true, func(f *contract.NodeFacts) {
		f.OS, f.Hosted = contract.Windows, &contract.Hosted{Address: "192.0.2.3:16642"}
	})
	w2.Facts, w2.OS = sharing(4, ""), contract.Windows
	w.put(l1, l2, w1, w2)
	for _, n := range []string{"l1", "l2", "w1", "w2"} {
		w.put(w.pod("default", "web-"+n, n))
	}
	dns := w.service("dns", "10.96.0.10")
	dns.Ports = []objects.ServicePort{{Name: "dns", Protocol: "udp", Port: 53}, {Name: "dns-tcp", Protocol: "tcp",
		Port: 53}, {Name: "sigtran", Protocol: "sctp", Port: 2905}}
	w.put(dns, w.slice("dns-a", "dns", []objects.ServicePort{{Name: "dns", Protocol: "udp", Port: 5353},
		{Name: "dns-tcp", Protocol: "tcp", Port: 5353}, {Name: "sigtran", Protocol: "sctp", Port: 2905}},
		ready("10.244.1.3", "l1"), ready("10.244.3.3", "w1")))
	local := w.service("local", "10.96.0.11")
	local.Ports, local.InternalLocal = []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}}, true
	w.put(local, w.slice("local-a", "local", []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}},
		ready("10.244.1.3", "l1"), ready("10.244.3.3", "w1")))
}

// TestServicesBesideWindows: what differs with a Windows node n2.
func TestServicesBesideWindows(t *testing.T) {
	of := func(protocol corev1.Protocol, edits ...func(*corev1.Service)) []runtime.Object {
		return []runtime.Object{web(append(edits, of(protocol))...),
			edit(webSlice("a", at("10.244.0.3", "n1"), at("10.244.1.3", "n2")), func(s *discoveryv1.EndpointSlice) {
				s.Ports[0].Protocol = &protocol
			})}
	}
	for _, c := range []struct {
		name    string
		objects []runtime.Object
		want    []string
	}{
		{"TCP", of(corev1.ProtocolTCP), []string{"tcp [cluster] 10.96.0.10:80=10.244.0.3:8080,10.244.1.3:8080"}},
		{"UDP", of(corev1.ProtocolUDP), []string{"udp [cluster] flush 10.96.0.10:80=10.244.0.3:8080,10.244.1.3:8080"}},
		{"SCTP has no Windows node", of(corev1.ProtocolSCTP), []string{"sctp [linux] 10.96.0.10:80=10.244.0.3:8080"}},
		{"local UDP", of(corev1.ProtocolUDP, local), []string{
			"udp@* [n3] 10.96.0.10:80=",
			"udp@n1 [n1] flush 10.96.0.10:80=10.244.0.3:8080",
			"udp@n2 [n2] flush 10.96.0.10:80=10.244.1.3:8080"}},
		{"local SCTP", of(corev1.ProtocolSCTP, local), []string{
			"sctp@* [n3] 10.96.0.10:80=",
			"sctp@n1 [n1] 10.96.0.10:80=10.244.0.3:8080"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := balancers(t, c.objects, "n2"); !slices.Equal(got, c.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// TestNodeTurnsWindows and back: only what depends on that is looked at again, and users are told once.
func TestNodeTurnsWindows(t *testing.T) {
	s := newScene(t, nil)
	tcp, udp, sctp := s.service("tcp", "10.96.0.10"), s.service("udp", "10.96.0.11"), s.service("sctp", "10.96.0.12")
	udp.Ports[0].Protocol, sctp.Ports[0].Protocol = "udp", "sctp"
	near, nearUDP := s.service("near", "10.96.0.13"), s.service("near-udp", "10.96.0.14")
	near.InternalLocal, nearUDP.InternalLocal, nearUDP.Ports[0].Protocol = true, true, "udp"
	s.do(tcp, udp, sctp, near, nearUDP, s.node("n1", "10.244.1.0/24"), s.node("n2", "10.244.2.0/24"))
	s.wantReasons()
	turn := func(name, os string) (owners []string) {
		n := *s.objects[objects.Key{Kind: objects.NodeKind, Name: name}].(*objects.Node)
		n.OS = os
		s.c.update(s.put(&n), s.Get)
		for _, change := range s.c.takeChanges() {
			owners = append(owners, string(change.Owner))
		}
		s.absorb(s.c)
		return owners
	}
	all := []string{"Node/n1", "Policies/common", "Service/default/sctp"}
	if got := turn("n1", contract.Windows); !slices.Equal(got, all) {
		t.Errorf("the first Windows node touches %s", got)
	}
	s.wantReasons("Node n1 WindowsDatapath", "Service default/sctp NoSCTPOnWindows")
	if got := turn("n2", contract.Windows); !slices.Equal(got, []string{"Node/n2", "Service/default/sctp"}) {
		t.Errorf("another one touches %s", got)
	}
	s.wantReasons("Node n2 WindowsDatapath")
	turn("n2", contract.Linux)
	s.do(s.node("n3", "10.244.3.0/24"))
	if got := turn("n1", contract.Linux); !slices.Equal(got, all) {
		t.Errorf("the last one that leaves touches %s", got)
	}
	s.wantReasons()
	s.want("windows", fmt.Sprint(len(s.c.nodes.Windows())), "0")

	// The same name, another machine.
	turn("n1", contract.Windows)
	s.problems = nil
	anew := s.node("n1", "10.244.1.0/24")
	anew.OS = contract.Linux
	s.do(anew)
	s.wantReasons()
	s.want("the switch's groups", strings.Join(groupsOf(s.c.changeOf(northbound.NodeOwner("n1"))), " "),
		northbound.ClusterGroupID+" "+northbound.LinuxGroupID+" "+loadbalancer.ZoneGroupID("", contract.Linux,
			loadbalancer.OnSwitches))
}

func groupsOf(change ovsdb.Change) []string {
	for _, r := range change.Rows {
		if row, ok := r.Model.(*nb.LogicalSwitch); ok && r.Key == "switch" {
			return row.LoadBalancerGroup
		}
	}
	return nil
}

// TestWindowsNodesAreNotUnsettled: a lasting problem is no reason to look at a node at each change.
func TestWindowsNodesAreNotUnsettled(t *testing.T) {
	s := newScene(t, nil)
	n := s.node("w1", "10.244.1.0/24")
	n.OS = contract.Windows
	s.do(n)
	s.c.update(s.put(s.node("l1", "10.244.2.0/24")), s.Get)
	for _, change := range s.c.takeChanges() {
		if change.Owner == northbound.NodeOwner("w1") {
			t.Error("another node's start touches a Windows node")
		}
	}
}

// sparing is how rows are checked against a line of capability.Limits: by each row of the Northbound that a Windows
// chassis may come across, by the load balancers on a Windows node's switch, or not at all, and then why says why
// no row of weft's can ask for it.
type sparing struct {
	row      func(c *cluster, row any) (wrong string)
	balancer func(c *cluster, b carriedBalancer) (wrong string)
	why      string
}

// probed is a feature that ovs-vswitchd looks for at its start, and goes without.
const probed = "ovs-vswitchd probes for it and translates OVN's flows without: it depends on no row"

// tcpZones is cured by the agent, whichever rows there are.
const tcpZones = "the agent gives TCP zones of its own: TestTCPComesToNoOtherConnection of node"

// recorded is what OVN's own flows would have to do.
const recorded = "it is about OVN's own flows: a lab's record of what Windows nodes execute is held against it"

var spared = map[string]sparing{
	capability.TrackedProtocols.Feature: {balancer: func(_ *cluster, b carriedBalancer) string {
		if *b.Protocol == "sctp" {
			return "is of SCTP"
		}
		return ""
	}},
	"flush of a single connection": {why: "the agent lets no such message pass, whichever row ovn-controller sends " +
		"it for: TestNoSingleConnectionIsForgotten in node/ctlookup"},
	"FTP and TFTP": {why: "the agent keeps them from the driver, whichever rows there are: " +
		"TestFTPNeverReachesTheDriver in node"},
	capability.ClonedPackets.Feature:   {row: sparesClones},
	capability.InjectedPackets.Feature: {row: sparesLearning},
	"sample with actions of its own":   {why: probed}, "explicit drop": {why: probed},
	"dp_hash algorithm 1": {why: probed},
	"unknown actions":     {why: probed},
	"nd_ext": {why: "OVN's flows rewrite no options, it has ovn-controller answer; those " +
		"of the external bridge are the agent's, and TestHyperV in node/extbridge is about them"},
	"tracking in two zones": {why: "every row with connection tracking makes flows that the agent " +
		"rewrites: TestOVN and TestMessages in node/ctlookup are about that"},
	"ICMP errors":        {why: "OVN lets related packets pass wherever it tracks: they are no rows"},
	"IPv6 tracked flows": {why: "it is about what a policy or a Service is for"},
	"ct_orig_tuple6":     {why: probed},
	"IGMP":               {row: sparesMulticast},
	"trunc":              {row: sparesClones},
	"recirculation":      {why: "it is about the flows of a whole path, not about a row"},
	"first packet to a peer": {
		why: "tunnels are rows of the node's own database, which ovn-controller makes"},
	capability.HopLimit.Feature:           {why: "every router of OVN's decrements it: a cluster without routers is none"},
	"set of other fields":                 {why: recorded},
	"set of DSCP":                         {why: recorded},
	"headers in pieces":                   {why: "it is about how Windows hands packets over, whatever the rows"},
	"protocols of translations":           {why: tcpZones},
	"ICMPv6 errors of no connection":      {why: tcpZones},
	"length of ICMPv6":                    {why: "no row tells lengths"},
	"ICMP without a header":               {why: "no row tells lengths"},
	"translations of removed connections": {why: "it is about two connections, one after the other"},
	"ports of IPv6":                       {why: recorded},
	"congestion bits":                     {why: "it is about what routers between the nodes do"},
	"flow label":                          {why: recorded},
	"a second VLAN tag":                   {row: sparesTags},
	"MPLS":                                {why: "the Northbound has no labels"},
	"other fields of tunnels":             {why: recorded},
	"helpers of connection tracking":      {why: recorded},
	"events of connections":               {why: "ovs-vswitchd asks for them with each commit, whatever the row"},
	"choice of a translation's port":      {why: "each free port is as good"},
	"unknown keys":                        {why: probed},
	"nd_target":                           {why: "every switch of OVN's answers neighbour solicitations"},
	"translation to a port that is taken": {why: "every gateway router hides its clients: it is about two of them"},
	"check_pkt_len": {row: func(c *cluster, row any) string {
		port, ok := row.(*nb.LogicalRouterPort)
		if !ok || port.Options["gateway_mtu"] == "" {
			return ""
		}
		if node, ofNode := strings.CutPrefix(port.Name, "rtoj-gw-"); ofNode && !c.nodes.At(node).Windows() {
			return ""
		}
		return "has gateway_mtu"
	}},
	"ct_clear": {why: probed},
	capability.ConntrackTimeouts.Feature: {why: "the Northbound has none: they are rows CT_Timeout_Policy of a node's " +
		"own database, in which no code of weft's knows that table"},
	"SNAT to all zeros": {why: probed},
	"megaflows":         {why: "it is how the datapath caches flows, whatever they are"},
	"large tables":      {why: "it is about how many connections there are, not about rows"},
	"tcp_flags":         {why: "no row matches them: TestHyperV of node/extbridge is of the bridge"},
	"limits of zones":   {row: sparesZones},
	"QoS":               {row: sparesQueues},
	"meters":            {row: sparesMeters},
	"more than one datapath": {why: "bridges are rows of the node's own database: the agent makes them, and " +
		"TestUplinksSwitchIsAnotherOne and its neighbours in node are about that"},
}

// sparesClones: neither mirrors, nor a gateway for others, nor NAT on a distributed port.
func sparesClones(c *cluster, row any) string {
	switch row := row.(type) {
	case *nb.HAChassis:
		for name := range c.nodes.Windows() {
			if c.nodes.At(name).Placed && c.nodes.At(name).Chassis() == row.ChassisName {
				return "carries the shared gateway"
			}
		}
	case *nb.NAT:
		if row.LogicalPort != nil || row.ExternalMAC != nil {
			return "is distributed"
		}
	case *nb.LogicalSwitchPort:
		if len(row.MirrorRules) > 0 {
			return "is mirrored"
		}
	}
	return ""
}

// sparesLearning: a router that asks for the cluster's router, and cannot hear the answer, knows it without.
func sparesLearning(c *cluster, row any) string {
	router, ok := row.(*nb.LogicalRouter)
	if !ok || router.Options["dynamic_neigh_routers"] != "true" {
		return ""
	}
	node, ofNode := strings.CutPrefix(router.Name, "gw-")
	if n := c.nodes.At(node); !ofNode || n == nil || !n.Windows() {
		return ""
	}
	for _, join := range c.settings.JoinAddresses(0) {
		if !slices.ContainsFunc(c.changeOf(northbound.NodeOwner(node)).Rows, func(r ovsdb.Row) bool {
			known, ok := r.Model.(*nb.StaticMACBinding)
			return ok && known.LogicalPort == "rtoj-"+router.Name && known.IP == join.Addr().String()
		}) {
			return "cannot learn where " + join.Addr().String() + " is"
		}
	}
	return ""
}

// sparesTags: no port has a tag, and no switch takes tags of pods on.
func sparesTags(_ *cluster, row any) string {
	switch row := row.(type) {
	case *nb.LogicalSwitchPort:
		if row.Tag != nil || row.TagRequest != nil {
			return "has a tag"
		}
	case *nb.LogicalSwitch:
		if row.OtherConfig["vlan-passthru"] == "true" {
			return "takes tags on"
		}
	}
	return ""
}

// sparesMulticast: no switch looks at who listens.
func sparesMulticast(_ *cluster, row any) string {
	if s, ok := row.(*nb.LogicalSwitch); ok && s.OtherConfig["mcast_snoop"] != "" {
		return "snoops on multicast"
	}
	return ""
}

// sparesZones: nothing has 0 for no limit.
func sparesZones(_ *cluster, row any) string {
	limit := ""
	switch row := row.(type) {
	case *nb.LogicalSwitch:
		limit = row.OtherConfig[topology.ZoneLimit] // of all its ports
	case *nb.LogicalSwitchPort:
		limit = row.Options[topology.ZoneLimit]
	case *nb.LogicalRouter:
		limit = row.Options[topology.ZoneLimit]
	}
	if limit == "0" {
		return "lets no connection come about"
	}
	return ""
}

func sparesQueues(_ *cluster, row any) string {
	switch row := row.(type) {
	case *nb.LogicalSwitch:
		if len(row.QOSRules) > 0 {
			return "has QoS rules"
		}
	case *nb.LogicalSwitchPort:
		for option := range row.Options {
			if strings.HasPrefix(option, "qos_") {
				return "has " + option
			}
		}
	}
	return ""
}

// sparesMeters: there is one, of one band, and OVN makes no others of it.
func sparesMeters(c *cluster, row any) string {
	m, ok := row.(*nb.Meter)
	switch {
	case !ok || len(c.nodes.Windows()) == 0:
	case m.Name != policies.ACLMeter:
		return "is one more"
	case len(m.Bands) != 1:
		return fmt.Sprintf("has %d bands", len(m.Bands))
	case m.Fair == nil || *m.Fair:
		return "is fair: each ACL gets a meter"
	}
	return ""
}

// TestRowsAreCheckedAgainstEveryLimit: a line of the table is checked, or is told why it cannot be.
func TestRowsAreCheckedAgainstEveryLimit(t *testing.T) {
	for _, l := range capability.Limits {
		if s, ok := spared[l.Feature]; !ok || (s.row == nil && s.balancer == nil) == (s.why == "") {
			t.Errorf("%s: no rows are checked against it, and nothing says why not", l.Feature)
		}
	}
	if len(spared) != len(capability.Limits) {
		t.Errorf("%d checks of %d limits", len(spared), len(capability.Limits))
	}
}

// TestChecksOfLimitsFind what they are for.
func TestChecksOfLimitsFind(t *testing.T) {
	w := newWorld()
	mixedWorld(w)
	c := newCluster(ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); withShared(c) }))
	c.begin(records.Records{}, w.Keys(), w.Get)
	sctp, port, yes, tag := "sctp", "l", true, 7
	for feature, rows := range map[string][]any{
		capability.TrackedProtocols.Feature: {carriedBalancer{&nb.LoadBalancer{Protocol: &sctp}, "Service/default/dns"},
			carriedBalancer{&nb.LoadBalancer{Protocol: &sctp}, "Pod/default/a"}},
		capability.ClonedPackets.Feature: {&nb.HAChassis{ChassisName: c.nodes.At("w1").Chassis()},
			&nb.NAT{LogicalPort: &port},
			&nb.LogicalSwitchPort{MirrorRules: []string{"m"}}},
		"check_pkt_len": {&nb.LogicalRouterPort{Name: "rtoj-gw-w1", Options: map[string]string{"gateway_mtu": "1400"}},
			&nb.LogicalRouterPort{Name: "rtoj-cluster", Options: map[string]string{"gateway_mtu": "1400"}}},
		capability.InjectedPackets.Feature: {&nb.LogicalRouter{Name: "gw-w2",
			Options: map[string]string{"dynamic_neigh_routers": "true"}}},
		"IGMP": {&nb.LogicalSwitch{OtherConfig: map[string]string{"mcast_snoop": "true"}}},
		"a second VLAN tag": {&nb.LogicalSwitchPort{Tag: &tag}, &nb.LogicalSwitchPort{TagRequest: &tag},
			&nb.LogicalSwitch{OtherConfig: map[string]string{"vlan-passthru": "true"}}},
		"limits of zones": {&nb.LogicalSwitch{OtherConfig: map[string]string{topology.ZoneLimit: "0"}},
			&nb.LogicalRouter{Options: map[string]string{topology.ZoneLimit: "0"}},
			&nb.LogicalSwitchPort{Options: map[string]string{topology.ZoneLimit: "0"}}},
		"trunc": {&nb.LogicalSwitchPort{MirrorRules: []string{"m"}}},
		"QoS": {&nb.LogicalSwitch{QOSRules: []string{"q"}},
			&nb.LogicalSwitchPort{Options: map[string]string{"qos_max_rate": "1"}}},
		"meters": {&nb.Meter{Name: "another"}, &nb.Meter{Name: policies.ACLMeter, Bands: []string{"b"}, Fair: &yes},
			&nb.Meter{Name: policies.ACLMeter}},
	} {
		for _, row := range rows {
			wrong := ""
			if b, ok := row.(carriedBalancer); ok {
				wrong = spared[feature].balancer(c, b)
			} else {
				wrong = spared[feature].row(c, row)
			}
			if wrong == "" {
				t.Errorf("%s: nothing is wrong with %+v", feature, row)
			}
		}
	}
}

// windowsIsSpared checks that no row that a Windows chassis may come across uses what its datapath lacks.
func windowsIsSpared(t *testing.T, c *cluster) {
	t.Helper()
	all := []ovsdb.Change{c.changeOf(northbound.ClusterOwner), c.changeOf(northbound.GatewayOwner),
		c.changeOf(northbound.PoliciesOwner)}
	for _, name := range c.nodes.Names() {
		all = append(all, c.changeOf(northbound.NodeOwner(name)))
	}
	for _, owner := range c.services.Dirty(true) {
		all = append(all, c.changeOf(owner))
	}
	for key := range c.pods.All() {
		all = append(all, c.changeOf(northbound.PodOwner(key)))
	}
	for name := range c.nodes.Windows() {
		if c.nodes.At(name).Placed {
			checkBalancers(t, c, name, carried(all, name))
		}
	}
	for _, change := range all {
		for _, r := range change.Rows {
			// A node's own switch has its port on the node. Nothing is translated there, so nothing is copied.
			if _, member := r.Model.(*nb.HAChassis); member && strings.HasPrefix(string(change.Owner), "Node/") {
				continue
			}
			for feature, s := range spared {
				if s.row == nil {
					continue
				}
				if wrong := s.row(c, r.Model); wrong != "" {
					t.Errorf("%s of %s %s: %s", feature, change.Owner, r.Key, wrong)
				}
			}
		}
	}
}

// carriedBalancer is a load balancer with the object that it serves.
type carriedBalancer struct {
	*nb.LoadBalancer
	owner ovsdb.Owner
}

// carried are the load balancers of a node's switch.
func carried(all []ovsdb.Change, node string) (list []carriedBalancer) {
	rows := map[string]carriedBalancer{} // by UUID
	members := map[string][]string{}     // load balancers by what they are in
	var groups []string
	for _, change := range all {
		for _, r := range change.Rows {
			if b, ok := r.Model.(*nb.LoadBalancer); ok {
				rows[ovsdb.ID(nb.LoadBalancerTable, change.Owner, r.Key)] = carriedBalancer{b, change.Owner}
			}
		}
		for _, m := range change.Memberships {
			if m.Column == "load_balancer" {
				members[m.UUID] = append(members[m.UUID], m.Values...)
			}
		}
		if change.Owner == northbound.NodeOwner(node) {
			groups = groupsOf(change)
		}
	}
	for _, place := range append(groups, northbound.SwitchID(node)) {
		for _, id := range members[place] {
			list = append(list, rows[id])
		}
	}
	return list
}

// checkBalancers checks a Windows node's: also that none is there twice, for Linux and for Windows.
func checkBalancers(t *testing.T, c *cluster, node string, list []carriedBalancer) {
	t.Helper()
	seen := map[string]string{}
	for _, b := range list {
		for feature, check := range spared {
			if check.balancer == nil {
				continue
			}
			if wrong := check.balancer(c, b); wrong != "" {
				t.Errorf("%s: load balancer %s on the switch of %s %s", feature, b.Name, node, wrong)
			}
		}
		service, isService := strings.CutPrefix(string(b.owner), "Service/")
		if !isService { // a pod's hostPorts
			continue
		}
		for vip := range b.Vips {
			one := service + " " + *b.Protocol + " " + vip
			if other := seen[one]; other != "" {
				t.Errorf("the switch of %s has %s twice: %s, %s", node, one, other, b.Name)
			}
			seen[one] = b.Name
		}
	}
}

// TestMixedWorldIsSpared applies the property to the golden world.
func TestMixedWorldIsSpared(t *testing.T) {
	w := newWorld()
	mixedWorld(w)
	w.put(w.policies(t, `{kind: NetworkPolicy, metadata: {namespace: default, name: deny}, spec: {podSelector: {}}}`)...)
	ported := w.pod("default", "ported", "w1")
	ported.HostPorts = []objects.HostPort{{Protocol: "udp", Port: 8053, Into: 53}, {Protocol: "sctp", Port: 8054,
		Into: 54}}
	w.put(ported)
	c := newCluster(ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); withShared(c) }))
	c.begin(records.Records{}, w.Keys(), w.Get)
	windowsIsSpared(t, c)
}

// TestLimitsSayAll: each line is complete, and the documentation's table is this one.
func TestLimitsSayAll(t *testing.T) {
	var table strings.Builder
	table.WriteString("| what it lacks | what that means | what Weft does | read in |\n|---|---|---|---|\n")
	for _, l := range capability.Limits {
		for _, field := range []string{l.Feature, l.Effect, l.Answer, l.Source} {
			if field == "" || strings.ContainsAny(field, "|\n") {
				t.Errorf("%q: a field is %q", l.Feature, field)
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", l.Feature, l.Effect, l.Answer, l.Source)
	}
	text, err := os.ReadFile("../docs/windows-driver.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("docs/windows-driver.md has another table than the code's:\n%s", table.String())
	}
	var does strings.Builder
	does.WriteString("| what it does | names in the record | read in |\n|---|---|---|\n")
	for _, a := range capability.Abilities {
		fmt.Fprintf(&does, "| %s | `%s` | %s |\n", a.Feature, strings.Join(a.Does, "`, `"), a.Source)
	}
	if !strings.Contains(string(text), does.String()) {
		t.Errorf("docs/windows-driver.md has another table of what the driver does than the code's:\n%s", does.String())
	}
}

// What the cluster's router knows answers by is the one mark that a packet of a Windows node may be given.
func TestTheTableBearsTheMark(t *testing.T) {
	for mark, want := range map[int]string{0: "", egress.AnswerMark: "", egress.AnswerMark + 1: "set of other fields"} {
		if got := capability.Forbidden(fmt.Sprint("set skb_mark ", mark)); got != want {
			t.Errorf("mark %d is forbidden by %q, want %q", mark, got, want)
		}
	}
}
