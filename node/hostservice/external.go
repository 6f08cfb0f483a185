package hostservice

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/node/hostservice/proxy"
)

// external serves a Service at addresses of a field of its. Where one is wanted by two Services for the same
// port, the controller says so.
func (b *builder) external(s *service, vips []netip.Addr, field string, restricted bool) {
	for _, vip := range vips {
		clusterIP, ok := s.clusterIP(vip.Is4())
		if !ok || !b.servable(vip) || b.rules.Deny(vip, field != "spec.externalIPs") != outside.Nobody {
			continue
		}
		for _, port := range s.ports {
			if !b.mayHave(port.protocol, netip.AddrPortFrom(vip, port.port)) {
				continue
			}
			b.vips[vip] = struct{}{}
			if !b.isBusy(port.protocol, vip, port.port) && b.mayEnter(s, field) {
				b.entry(vip, port.protocol, port.port)
			}
			if slices.Contains(b.host.Addresses, vip) {
				to := proxy.Target{To: netip.AddrPortFrom(clusterIP, port.port), Returns: b.returns}
				if restricted {
					to.Restricted, to.Ranges = true, s.ranges
				}
				b.open(port.protocol, netip.AddrPortFrom(vip, port.port), request{
					holder: holder{object: s.object(), field: field, yields: true}, to: to,
					local: b.locality(s, port, to.To)})
			}
		}
	}
}

// mayHave says whether a Service may have a port of an external address that is the host's, or of another one.
func (b *builder) mayHave(protocol string, at netip.AddrPort) bool {
	if b.rules.KeepExternal(protocol, at) != outside.Nobody {
		return false
	}
	_, taken := b.hasEverywhere(protocol, at)
	return !taken || !slices.Contains(b.host.Addresses, at.Addr())
}

// mostOutside bounds the external addresses and ports that lead to OVN, of which one Service can have a thousand:
// when ovs-vswitchd restarts, the host has its own traffic divided from the router's as soon as all flows are there.
const mostOutside = 10_000

// mostOutsideOfOne bounds those of one namespace, so that none takes those of all others.
const mostOutsideOfOne = mostOutside / 4

// mayEnter counts entries of external addresses.
func (b *builder) mayEnter(s *service, field string) bool {
	switch {
	case b.outsideOf[s.Namespace] >= mostOutsideOfOne:
		b.report(s.object(), tooManyExternalAddresses, fmt.Sprintf(
			"%s: this node takes %d pairs of external address and port of one namespace from outside, and no more: "+
				"other Services of it come first, and not all of this one's are served here to clients outside; "+
				"use fewer addresses or ports",
			field, mostOutsideOfOne))
		return false
	case b.outside >= mostOutside:
		b.report(s.object(), tooManyExternalAddresses, fmt.Sprintf(
			"%s: this node takes %d pairs of external address and port from outside, and no more: other Services "+
				"come first, and not all of this one's are served here to clients outside; use fewer addresses or ports",
			field, mostOutside))
		return false
	}
	b.outside++
	b.outsideOf[s.Namespace]++
	return true
}

// servable leaves out what is no single host's address on a network, and the cluster's own: a pod's address may not
// lead its packets past the bridge's translation.
func (b *builder) servable(vip netip.Addr) bool {
	network := b.host.Network
	inside := slices.Concat(network.PodCIDRs, network.ClusterCIDRs, network.ServiceCIDRs, network.JoinCIDRs,
		contract.OwnRanges[:])
	return outside.Fit(vip) == "" && b.host.family(vip.Is4()) && !contain(inside, vip)
}

func contain(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
