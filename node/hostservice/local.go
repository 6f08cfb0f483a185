package hostservice

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/rendezvous"
)

// way leads to one endpoint of a Service with externalTrafficPolicy Local.
type way struct {
	endpoint netip.Addr
	to       netip.AddrPort
	near     bool // the endpoint is on this node, and to is itself
}

// locality is what a socket of such a Service goes by. What the host asks itself is not external: all
// endpoints are for it, as with policy Cluster, but they must see the node's address.
type locality struct {
	ways   []way // to all endpoints that serve, in their order; none: they are not known, or there are none
	sticky bool  // a client has one endpoint
	remote bool  // some of these are not on this node
	// own are those of the ways that lead to addresses of the host, which may be sockets of a plan.
	own []netip.AddrPort
	// uncircled is what it is without some of its own, which the last plan has that had any.
	uncircled *locality
	left      []netip.AddrPort
}

func (l *locality) equal(o *locality) bool {
	if l == nil || o == nil || l == o {
		return l == o
	}
	return l.sticky == o.sticky && slices.Equal(l.ways, o.ways)
}

// waysOf are where a client's connections may go; none, and nothing goes in circles, if it comes from the cluster
// itself: somebody has made a socket of the host's the endpoint of a Service, perhaps of that which the socket is for.
// With policy Local one that is not the host itself goes to the node's own endpoints, as in OVN. So nothing goes in
// circles between nodes either that differ on where endpoints are.
func (t target) waysOf(client netip.Addr) []way {
	switch {
	case slices.Contains(t.returns, client):
		return nil
	case t.local == nil:
		return []way{{to: t.to}}
	case !t.callers.host(client):
		return slices.DeleteFunc(slices.Clone(t.local.ways), func(w way) bool { return !w.near })
	case len(t.local.ways) == 0:
		return []way{{to: t.to}}
	}
	return t.local.ways
}

// choose takes one of several ways for a client, and leaves those that go elsewhere.
func (t target) choose(client netip.Addr, ways []way) (chosen way, rest []way) {
	if t.local != nil && t.local.sticky {
		chosen = slices.MaxFunc(ways, func(a, b way) int { return compareFor(client, a, b) })
	} else {
		chosen = ways[rand.IntN(len(ways))]
	}
	return chosen, without(ways, chosen.to)
}

func without(ways []way, to netip.AddrPort) []way {
	return slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return w.to == to })
}

// compareFor orders ways by how much their endpoints weigh for a client. The client's endpoint changes when that one
// goes, or when one that weighs more comes, and not for others.
func compareFor(client netip.Addr, a, b way) int {
	text := func(addr netip.Addr) string { return string(addr.AsSlice()) }
	return rendezvous.ForClients.Compare(text(client), text(a.endpoint), text(b.endpoint))
}

// leads says whether a client's datagrams may go on to where they go.
func (t target) leads(client netip.Addr, to netip.AddrPort) bool {
	return slices.ContainsFunc(t.waysOf(client), func(w way) bool { return w.to == to })
}

// uncircle takes ways that lead back to a socket of the plan: somebody has written an endpoint that is the
// host itself, at a port that the host passes on.
func (b *builder) uncircle() {
	looked := map[*locality]*locality{}
	for at, to := range b.sockets {
		if to.local == nil || len(to.local.own) == 0 {
			continue
		}
		if looked[to.local] == nil {
			back := slices.DeleteFunc(slices.Clone(to.local.own), func(own netip.AddrPort) bool {
				_, back := b.sockets[socket{at.protocol, own}]
				return !back
			})
			looked[to.local] = to.local.without(back)
		}
		to.local = looked[to.local]
		b.sockets[at] = to
	}
}

// without is the locality without some of its own ways.
func (l *locality) without(left []netip.AddrPort) *locality {
	switch {
	case len(left) == 0:
		return l
	case l.uncircled == nil || !slices.Equal(l.left, left):
		taken := map[netip.AddrPort]struct{}{}
		for _, at := range left {
			taken[at] = struct{}{}
		}
		l.left, l.uncircled = left, &locality{sticky: l.sticky, remote: l.remote}
		for _, w := range l.ways {
			if _, back := taken[w.to]; !back || !w.near {
				l.uncircled.ways = append(l.uncircled.ways, w)
			}
		}
	}
	return l.uncircled
}
