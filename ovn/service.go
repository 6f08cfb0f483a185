package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// hairpinAddresses stand in for a client that its Service has sent back to itself. They are fixed, so
// that a policy can admit them, and the same as ovn-kubernetes'.
const hairpinAddresses = "169.254.169.5 fd69::5"

// elsewhere is the scope of the nodes that have no endpoint of a Service with internalTrafficPolicy
// Local. No node has this name.
const elsewhere = "*"

var (
	balancerOptions = map[string]string{
		"reject":             "true", // no endpoint: the client is told, and does not wait
		"hairpin_snat_ip":    hairpinAddresses,
		"neighbor_responder": "none", // a ClusterIP is on no link
	}
	// A hash of the client's address chooses its endpoint. It holds for as long as the endpoints stay, not
	// for a time; OVN's own affinity_timeout would, but it loses each client's first packets.
	byClient = []nb.LoadBalancerSelectionFields{nb.LoadBalancerSelectionFieldsIPSrc, nb.LoadBalancerSelectionFieldsIpv6Src}
	// A datagram socket never ends: without a flush its conntrack entry would send to an endpoint
	// that is gone for as long as the client keeps on trying. A connection, on the other hand, may
	// end in peace on an endpoint that gets no new ones. On Windows the flush would cost the client
	// its connections, see hyperVLimits.
	datagramOptions = map[string]string{
		"reject": "true", "hairpin_snat_ip": hairpinAddresses, "neighbor_responder": "none", "ct_flush": "true",
	}
)

// nodeSet is what a Service's rows depend on of all nodes.
type nodeSet struct {
	names   []string            // that have a switch, sorted
	windows map[string]struct{} // with the Hyper-V datapath, see hyperVLimits
}

func (n nodeSet) isWindows(name string) bool {
	_, ok := n.windows[name]
	return ok
}

// serviceChange is a Service's load balancers, one a protocol, and of UDP another one for Windows nodes.
// With internalTrafficPolicy Local it is one a protocol and node that has endpoints, and one without
// endpoints for all other nodes.
func serviceChange(s *service, from []*slice, nodes nodeSet) ovsdb.Change {
	r := newRows(serviceOwner(key(s.Namespace, s.Name)))
	if s.ignored {
		return r.Change
	}
	for _, kind := range []protocol{"tcp", "udp", "sctp"} {
		vips := s.vips(kind, from)
		if len(vips) == 0 {
			continue
		}
		if kind == "sctp" {
			dropWindows(vips, nodes)
		}
		if s.internalLocal {
			r.localBalancers(s, kind, vips, nodes)
			continue
		}
		r.clusterBalancers(s, kind, vips, nodes)
	}
	return r.Change
}

// clusterBalancers puts load balancers into the groups of all switches that may have them.
func (r *rows) clusterBalancers(s *service, kind protocol, vips []vip, nodes nodeSet) {
	group := clusterGroupID
	if kind != "tcp" {
		group = linuxGroupID
	}
	r.member(nb.LoadBalancerGroupTable, group, "load_balancer", r.balancer(s, kind, "", vips, optionsOf(kind, false)))
	if kind == "udp" && len(nodes.windows) > 0 {
		r.member(nb.LoadBalancerGroupTable, windowsGroupID, "load_balancer", r.balancer(s, kind, contract.Windows, vips, optionsOf(kind, true)))
	}
}

// dropWindows takes the endpoints out that are on Windows nodes.
func dropWindows(vips []vip, nodes nodeSet) {
	for i := range vips {
		vips[i].backends = slices.DeleteFunc(vips[i].backends, func(b backend) bool { return nodes.isWindows(b.node) })
	}
}

// optionsOf are a load balancer's, which may be on switches of Windows nodes or not.
func optionsOf(kind protocol, windows bool) map[string]string {
	if kind == "udp" && !windows {
		return datagramOptions
	}
	return balancerOptions
}

// localBalancers puts a load balancer on each node's switch by itself: two that know the same VIP must
// not meet on a switch.
func (r *rows) localBalancers(s *service, kind protocol, vips []vip, nodes nodeSet) {
	var without []string
	for _, node := range nodes.names {
		if kind == "sctp" && nodes.isWindows(node) {
			continue
		}
		local := make([]vip, len(vips))
		found := false
		for i, v := range vips {
			local[i] = vip{at: v.at}
			for _, b := range v.backends {
				if b.node == node {
					local[i].backends = append(local[i].backends, b)
				}
			}
			found = found || len(choose(local[i].backends, s.publishNotReady)) > 0
		}
		if !found {
			without = append(without, node)
			continue
		}
		r.member(nb.LogicalSwitchTable, switchID(node), "load_balancer", r.balancer(s, kind, node, local, optionsOf(kind, nodes.isWindows(node))))
	}
	if len(without) == 0 {
		return
	}
	none := make([]vip, len(vips))
	for i, v := range vips {
		none[i].at = v.at
	}
	id := r.balancer(s, kind, elsewhere, none, balancerOptions) // no endpoint goes from it
	for _, node := range without {
		r.member(nb.LogicalSwitchTable, switchID(node), "load_balancer", id)
	}
}

func (r *rows) balancer(s *service, kind protocol, scope string, vips []vip, options map[string]string) (uuid string) {
	name := string(kind)
	if scope != "" {
		name += "@" + scope
	}
	row := &nb.LoadBalancer{
		Name:    s.Namespace + "/" + s.Name + "/" + name, // lb-list shows 16 characters: no word to waste
		Options: options,
		Vips:    make(map[string]string, len(vips)),
	}
	row.Protocol = (*string)(&kind)
	if s.clientIP {
		row.SelectionFields = byClient
	}
	for _, v := range vips {
		row.Vips[v.at.String()] = addresses(choose(v.backends, s.publishNotReady))
	}
	return r.add(nb.LoadBalancerTable, name, row)
}

// vip is a Service's address and port with all that its slices know to stand behind it.
type vip struct {
	at       netip.AddrPort
	backends []backend // sorted by address and port, each once
}

type backend struct {
	at                          netip.AddrPort
	node                        string
	ready, serving, terminating bool
}

// uses says whether a Service has a port of a protocol.
func (s *service) uses(kind protocol) bool {
	return slices.ContainsFunc(s.ports, func(p servicePort) bool { return p.protocol == kind })
}

// vips are a Service's of one protocol.
func (s *service) vips(kind protocol, from []*slice) []vip {
	var vips []vip
	for _, port := range s.ports {
		if port.protocol != kind {
			continue
		}
		for _, ip := range s.clusterIPs {
			vips = append(vips, vip{netip.AddrPortFrom(ip, port.port), backends(port, ip.Is6(), from)})
		}
	}
	return vips
}

// backends are the endpoints of a Service's port. The number of a named target port is the slice's:
// endpoints that differ in it are in different slices. An endpoint that moves from one slice to
// another is in both for a while.
func backends(port servicePort, ipv6 bool, from []*slice) []backend {
	var list []backend
	for _, s := range from {
		if s.ignored || s.ipv6 != ipv6 {
			continue
		}
		for _, p := range s.ports {
			if p.name != port.name || p.protocol != port.protocol {
				continue
			}
			list = slices.Grow(list, len(s.endpoints))
			for _, e := range s.endpoints {
				list = append(list, backend{netip.AddrPortFrom(e.addr, p.port), e.node, e.ready, e.serving, e.terminating})
			}
		}
	}
	slices.SortFunc(list, backend.compare)
	return slices.CompactFunc(list, func(a, b backend) bool { return a.at == b.at })
}

// compare orders by address and port; of those that say the same endpoint, the best comes first.
func (b backend) compare(o backend) int {
	if c := b.at.Compare(o.at); c != 0 {
		return c
	}
	if c := o.rank() - b.rank(); c != 0 {
		return c
	}
	return strings.Compare(b.node, o.node)
}

func (b backend) rank() int {
	switch {
	case b.ready:
		return 2
	case b.serving && b.terminating:
		return 1
	}
	return 0
}

// choose takes the endpoints that get traffic, as kube-proxy does: those that are ready; if there is
// none, those that still serve while they terminate. The list stays in order.
func choose(list []backend, publishNotReady bool) []backend {
	if publishNotReady {
		return list
	}
	best := 1
	for _, b := range list {
		best = max(best, b.rank())
	}
	if !slices.ContainsFunc(list, func(b backend) bool { return b.rank() != best }) {
		return list
	}
	var chosen []backend
	for _, b := range list {
		if b.rank() == best {
			chosen = append(chosen, b)
		}
	}
	return chosen
}

// addresses is the value of a VIP in a load balancer.
func addresses(list []backend) string {
	text := make([]byte, 0, 24*len(list))
	for i, b := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = b.at.AppendTo(text)
	}
	return string(text)
}

// sliceProblems are the slices with addresses that nobody can use: one a slice, which may have a
// thousand of them.
func sliceProblems(s *service, from []*slice) []problem {
	var found []problem
	for _, sl := range from {
		if len(sl.bad) > 0 {
			found = append(found, problemf("Service", &s.ObjectMeta, "BadEndpointAddress",
				"EndpointSlice %s: %d of %d addresses cannot be used, first %s; they are left out and the other endpoints are served; correct or remove them in the slice",
				sl.Name, len(sl.bad), len(sl.bad)+len(sl.endpoints), sl.bad[0]))
		}
	}
	return found
}

// datapathProblems are what a Service's owner is told was left out for Windows nodes.
func datapathProblems(s *service, nodes nodeSet) []problem {
	if len(nodes.windows) == 0 || !s.uses("sctp") {
		return nil
	}
	return []problem{limitf("Service", &s.ObjectMeta, "NoSCTPOnWindows",
		"its SCTP ports are not served on Windows nodes, and SCTP endpoints there are left out everywhere: Open vSwitch on Windows lacks %s; run clients and endpoints on Linux nodes (nodeSelector kubernetes.io/os: linux)",
		trackedProtocols.feature)}
}
