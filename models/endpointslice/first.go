package endpointslice

import (
	"cmp"
	"container/heap"
	"iter"
	"net/netip"
	"slices"
)

// Behind is what slices say of a Service's endpoints, each slice put in order once for all ports: a Service of many
// ports and endpoints costs as much as its slices are long and its ports have endpoints, not one times the other. P is
// a port of the Service's, of one address family; E is an endpoint of a slice, in whatever type a program keeps it.
type Behind[P comparable, E any] struct {
	look  Look[E]
	parts map[P][]part[E]
	named map[netip.Addr][]naming[E] // made when it is first asked for
	all   []*order[E]
}

// Look is what there is to know of an endpoint.
type Look[E any] func(*E) (addr netip.Addr, node string, c Conditions)

// Endpoint is one at the port that a Service's port stands for.
type Endpoint[E any] struct {
	At   netip.AddrPort
	Node string // "": on none
	Of   *E
}

// part is a slice's endpoints at the number that it has for a port.
type part[E any] struct {
	*order[E]
	number uint16
}

// order is a slice's endpoints, the better ones first, then by address; each address once.
type order[E any] struct{ list []ordered[E] }

type ordered[E any] struct {
	addr  netip.Addr
	rank  int
	node  string
	of    *E
	named label // of those that say the same endpoint and its node, the first
}

// label is where an endpoint is, as one says that has a rank.
type label struct {
	rank int
	node string
}

// compare puts the label first that counts: a node's before none, then the better endpoint's.
func (l label) compare(o label) int {
	switch {
	case l.node == "" || o.node == "":
		return cmp.Compare(o.node, l.node)
	case l.rank != o.rank:
		return o.rank - l.rank
	}
	return cmp.Compare(l.node, o.node)
}

type naming[E any] struct {
	by    *order[E]
	label label
}

// NewBehind knows of no slice yet.
func NewBehind[P comparable, E any](look Look[E]) *Behind[P, E] {
	return &Behind[P, E]{look: look, parts: map[P][]part[E]{}}
}

// Add takes in endpoints of a slice, at the numbers that it has for ports.
func (b *Behind[P, E]) Add(endpoints []*E, ports iter.Seq2[P, uint16]) {
	o := newOrder(endpoints, b.look)
	b.all = append(b.all, o)
	for port, number := range ports {
		b.parts[port] = append(b.parts[port], part[E]{o, number})
	}
}

func newOrder[E any](endpoints []*E, look Look[E]) *order[E] {
	list := make([]ordered[E], 0, len(endpoints))
	for _, e := range endpoints {
		addr, node, c := look(e)
		list = append(list, ordered[E]{addr, c.rank(), node, e, label{c.rank(), node}})
	}
	slices.SortStableFunc(list, func(a, b ordered[E]) int {
		return cmp.Or(a.addr.Compare(b.addr), b.rank-a.rank, cmp.Compare(a.node, b.node))
	})
	kept := list[:0]
	for _, e := range list {
		if len(kept) > 0 {
			if last := &kept[len(kept)-1]; last.addr == e.addr {
				if e.named.compare(last.named) < 0 {
					last.named = e.named
				}
				continue
			}
		}
		kept = append(kept, e)
	}
	slices.SortFunc(kept, func(a, b ordered[E]) int { return cmp.Or(b.rank-a.rank, a.addr.Compare(b.addr)) })
	return &order[E]{kept}
}

// First takes so many of a port's endpoints, those that get traffic before all others, each once: one that moves from
// one slice to another is in both for a while. The best of those that say the same endpoint counts; its node is known
// if one of them says it. without says which are left out; nil: none. The list is in order.
func (b *Behind[P, E]) First(port P, most int, without func(Endpoint[E]) bool) []Endpoint[E] {
	parts, left := b.parts[port], 0
	rest := make(cursors[E], 0, len(parts))
	for i, p := range parts {
		if left += len(p.list); len(p.list) > 0 {
			rest = append(rest, cursor[E]{part: p, slice: i})
		}
	}
	heap.Init(&rest)
	list := make([]Endpoint[E], 0, min(most, left))
	taken := map[netip.AddrPort]struct{}{}
	for len(rest) > 0 && len(list) < most {
		e := rest[0].first()
		at := netip.AddrPortFrom(e.addr, rest[0].number)
		rest.next()
		if len(parts) > 1 {
			if _, twice := taken[at]; twice {
				continue
			}
			taken[at] = struct{}{}
		}
		one := Endpoint[E]{at, e.node, e.of}
		if one.Node == "" {
			one.Node = b.nodeOf(parts, at)
		}
		if without == nil || !without(one) {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b Endpoint[E]) int { return a.At.Compare(b.At) })
	return list
}

// nodeOf is where an endpoint is as any of a port's slices says; "" if none does.
func (b *Behind[P, E]) nodeOf(parts []part[E], at netip.AddrPort) string {
	if b.named == nil {
		b.named = map[netip.Addr][]naming[E]{}
		for _, o := range b.all {
			for _, e := range o.list {
				if e.named.node != "" {
					b.named[e.addr] = append(b.named[e.addr], naming[E]{o, e.named})
				}
			}
		}
	}
	var best label
	for _, said := range b.named[at.Addr()] {
		if said.label.compare(best) < 0 && slices.Contains(parts, part[E]{said.by, at.Port()}) {
			best = said.label
		}
	}
	return best.node
}

// cursor is how far a slice's endpoints have been taken.
type cursor[E any] struct {
	part[E]
	slice, done int
}

func (c *cursor[E]) first() *ordered[E] { return &c.list[c.done] }

// cursors are a heap: the slice with the next endpoint is the first.
type cursors[E any] []cursor[E]

func (c cursors[E]) Len() int      { return len(c) }
func (c cursors[E]) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

func (c cursors[E]) Less(i, j int) bool {
	a, b := c[i].first(), c[j].first()
	return cmp.Or(b.rank-a.rank, a.addr.Compare(b.addr), cmp.Compare(c[i].number, c[j].number),
		cmp.Compare(a.node, b.node), c[i].slice-c[j].slice) < 0
}

// Push is one of a heap's, which nobody needs here.
func (c *cursors[E]) Push(one any) { *c = append(*c, one.(cursor[E])) }

// Pop takes the last away.
func (c *cursors[E]) Pop() any {
	*c = (*c)[:len(*c)-1]
	return nil
}

// next goes on by the first endpoint of all.
func (c *cursors[E]) next() {
	if (*c)[0].done++; (*c)[0].done < len((*c)[0].list) {
		heap.Fix(c, 0)
		return
	}
	heap.Remove(c, 0)
}
