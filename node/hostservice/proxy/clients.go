package proxy

import (
	"net/netip"
	"slices"
)

// Clients tells the clients of the host's sockets apart by their addresses.
type Clients struct {
	// Host are the host's own addresses, those of its management port too.
	Host []netip.Addr
	// Pods are the addresses of pods, and of nobody else but the host.
	Pods []netip.Prefix
}

func (c *Clients) equal(o *Clients) bool {
	if c == nil || o == nil {
		return c == o
	}
	return slices.Equal(c.Host, o.Host) && slices.Equal(c.Pods, o.Pods)
}

// isHost says whether a client is the host itself.
func (c *Clients) isHost(client netip.Addr) bool {
	return client.IsLoopback() || c != nil && slices.Contains(c.Host, client)
}

// isPod says whether a client is a pod.
func (c *Clients) isPod(client netip.Addr) bool {
	return c != nil && !c.isHost(client) && contain(c.Pods, client)
}

func contain(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// isRemote says whether a client is not the host itself: the host asks an address of its own from that address.
func isRemote(client, asked netip.Addr) bool { return !asked.IsLoopback() && client != asked }
