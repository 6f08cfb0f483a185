package extbridge

import (
	"slices"

	"github.com/digitalocean/go-openvswitch/ovs"
)

// own leads connections to the entries at the host's MAC to a gateway router that has a MAC of its own,
// and its replies back by the host's. All else is plain switching. Only what may be a connection of the host's
// as well, or does not tell its port, is tracked.
func (w *flows) own() {
	for _, e := range w.entries {
		w.ownEntry(e)
	}
	w.add(tableClassify, fromGateway, ovs.Normal()).from(w.GatewayMAC) // to the host, by whatever port
	// The host's MAC at another port is a loop, or a router that has not given it up yet.
	w.add(tableClassify, fromGateway, ovs.Drop()).from(w.MAC)
	w.add(tableClassify, fromHost, ovs.Normal()).port(ovs.PortLOCAL)
	w.keepFromHelpers(ovs.Normal(), tableHost, tableOutside)
	w.known(tableOutside, 50, markGateway, w.toPatch(ovs.ModDataLinkDestination(w.GatewayMAC))...)
	w.add(tableOutside, 0, ovs.Normal())
	for _, f := range families {
		w.add(tableHost, 10, commit(markHost), ovs.Normal()).proto(f.ip).state(isTracked, isNew)
	}
	w.add(tableHost, 0, ovs.Normal())
}

func (w *flows) ownEntry(e destination) {
	f, port := e.family, ovs.TransportDestinationPort(e.port)
	direct := w.toPatch(ovs.ModDataLinkDestination(w.GatewayMAC))
	first := w.toPatch(commit(markGateway), ovs.ModDataLinkDestination(w.GatewayMAC))
	w.add(tableOutside, 40, first...).proto(e.proto).dstAddr(e.addr).with(port).state(isTracked, isNew)
	if w.unique(e) {
		w.add(tableClassify, fromOutside+50, direct...).proto(e.proto).whole().to(w.MAC).dstAddr(e.addr).with(port)
	} else {
		w.add(tableClassify, fromOutside+50, track(zone, tableOutside)).proto(e.proto).whole().to(w.MAC).dstAddr(e.addr).with(
			port)
		w.add(tableClassify, fromHost+50, track(zone, tableHost)).port(ovs.PortLOCAL).proto(e.proto).srcAddr(e.addr).with(
			ovs.TransportSourcePort(e.port))
	}
	if e.proto == f.udp {
		w.later(tableOutside, e, "ct_tp_dst", first...).dstAddr(e.addr)
		for _, proto := range w.fragmented(f) {
			w.add(tableClassify, fromOutside+50, track(zone, tableOutside)).proto(proto).fragment().to(w.MAC).dstAddr(e.addr)
		}
	}
	// The host's address is the router's only in replies of such connections, and in errors about them.
	w.add(tableClassify, fromGateway+50, asHost(ovs.ModDataLinkSource(w.MAC))...).from(w.GatewayMAC).proto(f.ip).srcAddr(
		e.addr)
	for _, kind := range f.errors() { // about whose connection does one not tell; both know their own
		w.add(tableClassify, fromOutside+50, slices.Concat([]ovs.Action{ovs.Local()}, direct)...).proto(f.icmp).icmp(kind).to(
			w.MAC).dstAddr(e.addr)
	}
}
