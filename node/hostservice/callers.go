package hostservice

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
)

// callers tells clients of the host's sockets apart by their addresses.
type callers struct {
	own  []netip.Addr   // the host's, those of its management port too
	pods []netip.Prefix // of pods, and of nobody else
}

// linkLocal are addresses that every interface has beside its own, a pod's too.
var linkLocal = netip.MustParsePrefix("fe80::/10")

// callers are those of a node. Pods come to it with their addresses or with link-local ones, unless a gateway
// has given them another.
func (h Host) callers() *callers {
	c := &callers{own: slices.Clone(h.Addresses), pods: append(slices.Clone(h.Network.ClusterCIDRs), linkLocal)}
	for _, subnet := range h.Network.PodCIDRs {
		c.own = append(c.own, contract.ManagementAddress(subnet))
	}
	return c
}

func (c *callers) equal(o *callers) bool {
	if c == nil || o == nil {
		return c == o
	}
	return slices.Equal(c.own, o.own) && slices.Equal(c.pods, o.pods)
}

// host says whether a client is the host itself.
func (c *callers) host(client netip.Addr) bool {
	return client.IsLoopback() || c != nil && slices.Contains(c.own, client)
}

// pod says whether a client is a pod.
func (c *callers) pod(client netip.Addr) bool {
	return c != nil && !c.host(client) && contain(c.pods, client)
}

// refuses says why a client may not ask an address of the host's; "" if it may, as the host itself always does.
// No pod may: its endpoint would see the host, which no policy refuses. Pods are served by their node's switch, at
// the addresses that it knows.
func (t target) refuses(client, asked netip.Addr) (reason string) {
	switch {
	case !isRemote(client, asked):
		return ""
	case t.callers.pod(client):
		return failedPod
	case t.restricted && !contain(t.ranges, client):
		return failedRange
	}
	return ""
}

func contain(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}
