package extbridge

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/weftnet/weft/models/contract"
)

// Priorities of [tableClassify], by where a packet comes from. Those of the host are highest, since the
// gateway router's packets have its MAC.
const (
	fromLoop    = 400
	fromHost    = 300
	fromGateway = 200
	fromOutside = 100
)

// Types of ICMPv6 that are no part of a connection: neighbour discovery and group membership.
const (
	neighbourSolicitation  = 135
	neighbourAdvertisement = 136
)

var linkTypes = []uint8{130, 131, 132, 133, 134, neighbourSolicitation, neighbourAdvertisement, 137, 143}

// shared divides the traffic where host and gateway router have one MAC and one address.
func (w *flows) shared() {
	if w.Uplink != 0 { // a frame of ours that comes back, or somebody who would pass for the router
		w.add(tableClassify, fromLoop, ovs.Drop()).port(int(w.Uplink)).from(w.MAC)
	}
	w.hostLink()
	w.gatewayLink()
	w.outsideLink()
	w.keepFromHelpers(ovs.Local(), tableHost, tableGateway, tableOutside, tableAlias)
	for _, f := range families {
		host, ok := w.host(f)
		w.fromHost(f)
		w.fromGateway(f)
		w.fromOutside(f)
		if ok {
			w.hostAlias(f, host)
		}
	}
	w.add(tableHost, 0, ovs.Normal())
	w.add(tableHost, 20, ovs.Drop()).proto(ovs.ProtocolTCPv4).state(isTracked, isInvalid).with(ovs.TCPFlags("+rst"))
	w.add(tableHost, 20, ovs.Drop()).proto(ovs.ProtocolTCPv6).state(isTracked, isInvalid).with(ovs.TCPFlags("+rst"))
	w.add(tableGateway, 0, asHost()...)
	w.known(tableOutside, 50, markGateway, w.toPatch()...)
	w.add(tableOutside, 0, ovs.Local())
}

// hostLink: what the host says to its neighbours. The gateway router does not hear it (the ports are
// protected from each other), or it would answer for the host's own address, as when the host
// examines whether that is free. The host asks nobody for [contract.HostClients]: see [Neighbours].
func (w *flows) hostLink() {
	w.add(tableClassify, fromHost, ovs.Normal()).port(ovs.PortLOCAL)
	for _, kind := range linkTypes {
		w.add(tableClassify, fromHost+80, ovs.Normal()).port(ovs.PortLOCAL).proto(ovs.ProtocolICMPv6).icmp(kind)
	}
}

// gatewayLink: the router asks for its neighbours in the host's name. Of the host itself it would hear
// nothing, since that does not answer its own address: a Static_MAC_Binding tells it where the host is.
func (w *flows) gatewayLink() {
	w.add(tableClassify, fromGateway, asHost()...).from(w.MAC)
	for _, kind := range linkTypes {
		w.add(tableClassify, fromGateway+80, asHost()...).from(w.MAC).proto(ovs.ProtocolICMPv6).icmp(kind)
	}
	for _, f := range families {
		for _, addr := range w.hosts(f) {
			w.silence(f, addr)
		}
	}
}

// silence drops the router's answers to those who look for an address of the host's, which answers by itself: or
// else, while it examines whether the address is free, not at all.
func (w *flows) silence(f family, addr netip.Addr) {
	if f.four {
		w.add(tableClassify, fromGateway+90, ovs.Drop()).from(w.MAC).proto(ovs.ProtocolARP).
			with(ovs.ARPOperation(2), ovs.ARPSourceProtocolAddress(addr.String()))
		return
	}
	w.add(tableClassify, fromGateway+90, ovs.Drop()).from(w.MAC).proto(ovs.ProtocolICMPv6).icmp(neighbourAdvertisement).
		with(ovs.NeighborDiscoveryTarget(addr.String()))
}

// outsideLink: answers are for both; of the rest the host's stack makes what it wants.
func (w *flows) outsideLink() {
	both := w.toBoth()
	w.add(tableClassify, fromOutside, ovs.Local()).to(w.MAC)
	w.add(tableClassify, fromOutside+90, both...).proto(ovs.ProtocolARP).to(w.MAC)
	for _, kind := range linkTypes {
		actions := []ovs.Action{ovs.Local()}
		if kind == neighbourSolicitation || kind == neighbourAdvertisement {
			actions = both
		}
		w.add(tableClassify, fromOutside+90, actions...).proto(ovs.ProtocolICMPv6).icmp(kind).to(w.MAC)
	}
}

// fromHost: the host's connections are tracked, and keep address and port unless a pod's has the same.
func (w *flows) fromHost(f family) {
	for _, addr := range w.hosts(f) {
		w.add(tableClassify, fromHost+60, ovs.Normal()).port(ovs.PortLOCAL).proto(f.udp).srcAddr(addr).
			// many packets, and always the host's
			with(ovs.IPFrag(ovs.IPFragFlagNo), ovs.TransportDestinationPort(contract.TunnelPort))
		w.trackHost(f, fromHost+50, tableHost, func(r rule) { r.port(ovs.PortLOCAL).srcAddr(addr) })
		w.add(tableHost, 10, commit(markHost, natSource(addr)), ovs.Normal()).proto(f.ip).srcAddr(addr).state(isTracked,
			isNew)
	}
}

// trackHost looks up what may be the host's, and goes on in a table.
func (w *flows) trackHost(f family, priority, table int, match func(rule)) {
	for _, proto := range w.tracked(f) {
		match(w.add(tableClassify, priority, track(zone, table)).proto(proto))
	}
	if !f.four && !w.HyperV { // the later fragments of all other protocols, too: then so are the first ones
		match(w.add(tableClassify, priority, track(zone, table)).proto(f.ip).fragment())
	}
}

// fromGateway: addresses of the cluster's are translated here, or dropped; replies go as their
// connections came. Others, as the virtual addresses in replies, stay.
func (w *flows) fromGateway(f family) {
	w.keepFromTunnels(f)
	for _, proto := range w.tracked(f) {
		w.add(tableClassify, fromGateway+50, ovs.Resubmit(0, tableTrack)).from(w.MAC).proto(proto)
	}
	w.add(tableTrack, 10, track(zone, tableGateway)).proto(f.ip)
	host, ok := w.host(f)
	for _, hidden := range w.Cluster {
		if hidden.Addr().Is4() != f.four {
			continue
		}
		w.add(tableClassify, fromGateway+20, ovs.Drop()).from(w.MAC).proto(f.ip).src(hidden)
		w.add(tableGateway, 20, ovs.Drop()).proto(f.ip).src(hidden)
		if ok {
			w.hide(f, hidden, host, w.HyperV)
			w.sign(f, hidden, host)
		}
	}
	// what the router itself gave the address, as clients of node ports whose endpoint is outside
	for _, addr := range w.hosts(f) {
		w.hide(f, netip.PrefixFrom(addr, addr.BitLen()), addr, true)
	}
	for _, pods := range w.routed(f) {
		w.add(tableClassify, fromGateway+30, asHost()...).from(w.MAC).proto(f.ip).src(pods)
		w.add(tableGateway, 70, asHost(commit(markGateway))...).proto(f.ip).src(pods).state(isTracked, isNew)
		w.add(tableGateway, 65, asHost()...).proto(f.ip).src(pods)
	}
	for _, flag := range []string{isOld, isRelated} {
		w.add(tableGateway, 50, asHost()...).proto(f.ip).state(isTracked, flag)
	}
	for _, e := range w.entries {
		if e.family == f {
			w.answers(e)
		}
	}
	w.add(tableGateway, 10, asHost(commit(markGateway))...).proto(f.ip).state(isTracked, isNew)
}

// keepFromTunnels: what comes from the router would have the address here that other hosts' tunnels believe. OVN drops
// it before, except fragments on the userspace datapath, which hides ports of fragments from all flows.
// Tracking knows them.
func (w *flows) keepFromTunnels(f family) {
	const port = contract.TunnelPort
	w.add(tableClassify, fromGateway+95, ovs.Drop()).from(w.MAC).proto(f.udp).with(ovs.TransportDestinationPort(port))
	drop := func(field string, state ...string) {
		w.add(tableGateway, 80, ovs.Drop()).proto(f.ip).state(append(state, isTracked)...).
			with(ovs.FieldMatch("ct_nw_proto", "17"), ovs.FieldMatch(field, strconv.Itoa(port)))
	}
	drop("ct_tp_dst", isNew)
	drop("ct_tp_dst", isOld, notReply)
	drop("ct_tp_src", isReply)
}

// hide translates new connections, to ports that are no entry's. Those that have such a port keep it, if they must:
// Linux' kernel sees to that by itself, Hyper-V's begins at one number for all; the price is that it may be any other
// port if the host has this one. Of an ICMPv6 message Hyper-V's remembers a port of the range for its identifier, and
// leaves the message as it is (Conntrack-nat.c, OvsNatTranslateCtEntry): no answer would be the connection's.
func (w *flows) hide(f family, from netip.Prefix, as netip.Addr, keep bool) {
	w.add(tableGateway, 30, asHost(commit(markGateway, natPorts(as)))...).proto(f.ip).src(from).state(isTracked, isNew)
	if w.HyperV && !f.four {
		w.add(tableGateway, 35, asHost(commit(markGateway, natSource(as)))...).proto(f.icmp).src(from).state(isTracked, isNew)
	}
	if !keep {
		return
	}
	for _, proto := range []ovs.Protocol{f.tcp, f.udp} {
		w.add(tableGateway, 35, asHost(commit(markGateway, natSource(as)))...).proto(proto).src(from).state(isTracked, isNew).
			with(ovs.TransportSourceMaskedPort(firstPort, firstPort))
	}
}

// sign gives errors of a router in the cluster a source that means something outside. They belong to
// connections that began outside, and are not translated with them: they come from neither end.
func (w *flows) sign(f family, hidden netip.Prefix, host netip.Addr) {
	field := "ip_src"
	if !f.four {
		field = "ipv6_src"
		if w.HyperV {
			return
		}
	}
	for _, kind := range f.errors() {
		w.add(tableGateway, 60, asHost(ovs.SetField(host.String(), field))...).proto(f.icmp).icmp(kind).src(hidden)
	}
}

// answers lead replies of an entry's connections out: they are as the client expects them.
func (w *flows) answers(e destination) {
	f, port := e.family, ovs.TransportSourcePort(e.port)
	if w.unique(e) {
		w.add(tableClassify, fromGateway+55, asHost()...).from(w.MAC).proto(e.proto).whole().srcAddr(e.addr).with(port)
	}
	w.add(tableGateway, 40, asHost(commit(markGateway))...).proto(e.proto).srcAddr(e.addr).with(port).state(isTracked,
		isNew)
	if e.proto == f.udp {
		w.later(tableGateway, e, "ct_tp_src", asHost(commit(markGateway))...).srcAddr(e.addr)
	}
}

// later matches fragments except the first one: the userspace datapath puts a datagram together only to track it.
func (w *flows) later(table int, e destination, port string, actions ...ovs.Action) rule {
	return w.add(table, 40, actions...).proto(e.family.ip).state(isTracked, isNew).
		with(ovs.IPFrag(ovs.IPFragFlagLater), ovs.FieldMatch("ct_nw_proto", "17"),
			ovs.FieldMatch(port, strconv.Itoa(int(e.port))))
}

// fromOutside: what was begun by the gateway router, or is an entry, is for it.
func (w *flows) fromOutside(f family) {
	for _, addr := range w.hosts(f) {
		w.add(tableClassify, fromOutside+60, ovs.Local()).proto(f.udp).to(w.MAC).dstAddr(addr).whole().
			with(ovs.TransportDestinationPort(contract.TunnelPort))
	}
	for _, addr := range w.addresses(f) {
		w.trackHost(f, fromOutside+50, tableOutside, func(r rule) { r.to(w.MAC).dst(addr) })
	}
	for _, e := range w.entries {
		if e.family == f && w.Patch != 0 { // the host may serve it meanwhile
			w.questions(e)
		}
	}
	for _, kind := range f.errors() { // about a connection of the host's or of an entry: both know their own
		w.add(tableOutside, 45, w.toBoth()...).proto(f.icmp).icmp(kind).state(isTracked, notOld, notRelated)
	}
	for _, pods := range w.routed(f) {
		w.add(tableClassify, fromOutside+20, w.toPatch()...).proto(f.ip).to(w.MAC).dst(pods)
		w.add(tableOutside, 65, w.toPatch(commit(markGateway))...).proto(f.ip).dst(pods).state(isTracked, isNew)
		w.add(tableOutside, 60, w.toPatch()...).proto(f.ip).dst(pods)
	}
	w.add(tableOutside, 10, commit(markHost), ovs.Local()).proto(f.ip).state(isTracked, isNew)
}

// questions lead an entry's connections to the gateway router.
func (w *flows) questions(e destination) {
	port := ovs.TransportDestinationPort(e.port)
	if w.unique(e) {
		w.add(tableClassify, fromOutside+55, w.toPatch()...).proto(e.proto).to(w.MAC).whole().dstAddr(e.addr).with(port)
	}
	w.add(tableOutside, 40, w.toPatch(commit(markGateway))...).proto(e.proto).dstAddr(e.addr).with(port).state(isTracked,
		isNew)
	if e.proto == e.family.udp {
		w.later(tableOutside, e, "ct_tp_dst", w.toPatch(commit(markGateway))...).dstAddr(e.addr)
	}
}

// routed are the node's pod subnets where pods keep their addresses outside.
func (w *flows) routed(f family) []netip.Prefix {
	if !w.Routed {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.PodSubnets), func(p netip.Prefix) bool { return p.Addr().Is4() != f.four })
}

// addresses are those of packets from outside that may be the gateway router's.
func (w *flows) addresses(f family) []netip.Prefix {
	var found []netip.Prefix
	for _, addr := range w.hosts(f) {
		found = append(found, netip.PrefixFrom(addr, addr.BitLen()))
	}
	for _, e := range w.entries {
		if e.family == f {
			found = append(found, netip.PrefixFrom(e.addr, e.addr.BitLen()))
		}
	}
	return append(found, w.routed(f)...)
}

// hostAlias: the way from the gateway router to the host, whose main address is the router's own. The host
// answers to this bridge only if the client's address is not one that it reaches otherwise. Both addresses are
// translated in one pass: the userspace datapath drops what has had too many (MAX_RECIRC_DEPTH of
// dpif-netdev.c), and a load balancer takes most of them.
func (w *flows) hostAlias(f family, host netip.Addr) {
	alias, client := contract.OfFamily(contract.HostAliases, host), contract.OfFamily(contract.HostClients, host)
	for _, addr := range w.hosts(f) {
		w.toAlias(f, addr, client, commit(markAlias))
	}
	w.toAlias(f, alias, client, commit(markAlias, natDestination(host)))
	back := w.toPatch(across(ovs.ModDataLinkSource(contract.HostAliasMAC()), ovs.ModDataLinkDestination(w.MAC))...)
	for _, addr := range w.hosts(f) {
		for _, proto := range w.tracked(f) { // the router reads addresses: it needs a pass of its own
			w.add(tableClassify, fromHost+55, translate(zone), track(zoneClient, tableFromHost)).port(ovs.PortLOCAL).proto(
				proto).srcAddr(addr).dstAddr(client)
		}
	}
	for _, flag := range []string{isOld, isRelated} {
		w.add(tableHost, 50, back...).proto(f.ip).state(isTracked, flag, isReply).mark(markAlias)
		w.add(tableFromHost, 10, back...).proto(f.ip).state(isTracked, flag, isReply)
	}
}

// toAlias are the flows for an address that the router has for the host.
func (w *flows) toAlias(f family, addr, client netip.Addr, remember ovs.Action) {
	seen := ovs.ConnectionTracking("commit,zone=" + strconv.Itoa(zoneClient) + "," + natSource(client))
	onward := append([]ovs.Action{remember}, across(ovs.ModDataLinkSource(clientMAC()), ovs.ModDataLinkDestination(w.MAC),
		ovs.Local())...)
	w.add(tableClassify, fromGateway+60, ovs.Resubmit(0, tableAlias)).from(w.MAC).proto(f.ip).dstAddr(addr)
	if w.HyperV { // what it commits below has not been looked up
		w.add(tableAlias, 110, together(tableAlias)...).proto(f.ip).fragment().untracked()
	}
	hidden := slices.Clone(w.Cluster)
	for _, own := range w.hosts(f) {
		hidden = append(hidden, netip.PrefixFrom(own, own.BitLen()))
	}
	for _, proto := range w.tracked(f) {
		for _, from := range hidden {
			if from.Addr().Is4() == f.four {
				w.add(tableAlias, 20, append([]ovs.Action{seen}, onward...)...).proto(proto).src(from).dstAddr(addr)
			}
		}
		w.add(tableAlias, 10, onward...).proto(proto).dstAddr(addr)
	}
}
