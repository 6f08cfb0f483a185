package loadbalancer

import (
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// evenBackends are as many as Open vSwitch spreads connections over evenly by itself: it gives each
// endpoint its part of at most 256 slots (MAX_SELECT_GROUP_HASH_VALUES of ofproto-dpif.c). Of 200 endpoints
// some get one and others two, and of more than 256 every client address gets but one.
const evenBackends = 64

// byConnection has a hash of addresses and ports choose. It is even for any number of endpoints, but
// ovs-vswitchd sees the first packet of every connection.
var byConnection = []nb.LoadBalancerSelectionFields{
	nb.LoadBalancerSelectionFieldsIPSrc, nb.LoadBalancerSelectionFieldsIPDst,
	nb.LoadBalancerSelectionFieldsIpv6Src, nb.LoadBalancerSelectionFieldsIpv6Dst,
	nb.LoadBalancerSelectionFieldsTpSrc, nb.LoadBalancerSelectionFieldsTpDst,
}

// class are the nodes whose datapaths track a protocol.
type class struct {
	groups  [2]string // by place: that of all these nodes
	windows bool      // Windows nodes are among them
}

var (
	everyNode  = class{[2]string{OnSwitches: northbound.ClusterGroupID, OnRouters: northbound.GatewaysGroupID}, true}
	linuxNodes = class{[2]string{OnSwitches: northbound.LinuxGroupID, OnRouters: northbound.LinuxGatewaysGroupID}, false}
)

func classOf(kind objects.Protocol) class {
	if kind == "sctp" { // see capability.TrackedProtocols
		return linuxNodes
	}
	return everyNode
}

// has says whether nodes with the Windows datapath, or those without, are of the class.
func (c class) has(windows bool) bool { return c.windows || !windows }

// systems are the nodes' operating systems.
func (c class) systems() []string {
	if c.windows {
		return []string{contract.Linux, contract.Windows}
	}
	return []string{contract.Linux}
}

// Groups are the groups of load balancers that a node has at a point, by its zone and operating system.
func Groups(at AttachPoint, zone, os string) []string {
	var groups []string
	for _, c := range []class{everyNode, linuxNodes} {
		if c.has(os == contract.Windows) {
			groups = append(groups, c.groups[at])
		}
	}
	if os != contract.Windows {
		os = contract.Linux
	}
	return append(groups, ZoneGroupID(zone, os, at))
}

// serve puts a frontend's load balancers where its clients come by.
func (r *rows) serve(s *objects.Service, f *frontend, nodes *Nodes) {
	for _, at := range f.places {
		r.attach(s, f, at, nodes)
	}
}

// attach puts a frontend's load balancers in a place: one in the group of all nodes if nothing depends on the node,
// otherwise each node's own to the node. Two that know the same VIP must not meet.
func (r *rows) attach(s *objects.Service, f *frontend, at AttachPoint, nodes *Nodes) {
	c := classOf(f.protocol)
	switch to := f.reaches(s); {
	case f.varies(at):
		for _, node := range nodes.at(at) {
			if r.tooLarge() {
				return
			}
			if c.has(nodes.isWindows(node)) && (f.owner == "" || f.owner == node) {
				r.Member(attachment(at), attachmentID(at, node), "load_balancer",
					r.balancers(s, f, f.view(s, at, node, to, nodes))...)
			}
		}
	case to != nil:
		r.attachNear(s, f, at, nodes, to)
	default:
		r.Member(nb.LoadBalancerGroupTable, c.groups[at], "load_balancer",
			r.balancers(s, f, f.view(s, at, "", nil, nodes))...)
	}
}

// attachment is the table whose rows have load balancers in a place.
func attachment(at AttachPoint) string {
	if at == OnRouters {
		return nb.LogicalRouterTable
	}
	return nb.LogicalSwitchTable
}

func attachmentID(at AttachPoint, node string) string {
	if at == OnRouters {
		return northbound.GatewayID(node)
	}
	return northbound.SwitchID(node)
}

// balancers are the rows of a view.
func (r *rows) balancers(s *objects.Service, f *frontend, v view) (uuids []string) {
	for _, part := range f.parts(v) {
		uuids = append(uuids, r.balancer(s, f, part))
	}
	return uuids
}

// balancer is the row of a view's part; it is there once, however often it is asked for.
func (r *rows) balancer(s *objects.Service, f *frontend, v view) (uuid string) {
	key, where := string(f.protocol), "cluster"
	if f.sort != "" {
		key, where = key+"/"+f.sort, f.sort
	}
	scope := ""
	if v.scope != "" {
		scope = "@" + v.scope
	}
	key, where = key+v.part+scope, where+v.part+scope
	id := ovsdb.ID(nb.LoadBalancerTable, r.Owner, key)
	if slices.ContainsFunc(r.Rows, func(row ovsdb.Row) bool { return row.Key == key }) {
		return id
	}
	protocol := string(f.protocol) // a copy: a pointer to the frontend's keeps all of it in memory as long as the row
	row := &nb.LoadBalancer{
		Name:     northbound.LoadBalancerName(s.Namespace, s.Name, where, f.protocol),
		Options:  f.options(v),
		Protocol: &protocol,
		Vips:     make(map[string]string, len(v.vips)),
	}
	if s.ClientIP {
		row.Options["affinity_timeout"] = s.AffinityTimeout()
	}
	for _, vip := range v.vips {
		if r.endpoints += max(1, len(vip.backends)); r.tooLarge() {
			break
		}
		row.Vips[vip.at] = addresses(vip.backends)
		if len(vip.backends) > evenBackends {
			row.SelectionFields = byConnection
		}
	}
	return r.Add(nb.LoadBalancerTable, key, row)
}

func (f *frontend) options(v view) map[string]string {
	options := map[string]string{
		"reject":             "true", // no endpoint: the client is told, and does not wait
		"hairpin_snat_ip":    strings.Join(northbound.HairpinAddresses[:], " "),
		"neighbor_responder": "none", // the addresses are on no link, or somebody else answers for them
	}
	if f.owner != "" {
		options["neighbor_responder"] = "reachable"
	}
	switch {
	case v.direct:
		options["skip_snat"] = "true"
		delete(options, "reject")
	case slices.Contains(f.places, OnRouters) && v.refuses():
		options["skip_snat"] = "true" // or the refusal itself would come from the router's address
	}
	if f.template != "" {
		options["template"], options["address-family"] = "true", f.template
	}
	// A datagram socket never ends: without a flush its connection tracking entry would send to an endpoint that is gone
	// for as long as the client goes on. A connection may end in peace on an endpoint that gets no new ones.
	if f.protocol == "udp" && !strings.HasSuffix(v.scope, elsewhere) { // no endpoint goes from there
		options["ct_flush"] = "true"
	}
	return options
}
