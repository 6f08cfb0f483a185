package ovn

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// instant says that time has passed.
var instant = part.NewSignal("instant", part.Patience)

// domainBook is what is known of the domain names that policies name, in normal form.
type domainBook struct {
	*part.Outbox
	settings *settings.Settings
	clock    *clock
	services serviceView

	used    map[string]int                    // how many want a name or a pattern
	seen    map[string]*objects.ResolvedNames // by node
	servers map[string]struct{}               // the nodes that DNS servers run on
	pods    map[types.UID]*objects.Pod        // of the DNS Services' namespaces, those that a controller has made
	podUID  map[string]types.UID              // of the same, by NAMESPACE/NAME
	// taken is what counts of seen: what a node has said while it had a DNS server. Where the server moves
	// away, clients have its answers still, until their time is over.
	taken     map[string]*objects.ResolvedNames
	addresses map[string]map[netip.Addr]struct{} // of used names
	stale     map[string]struct{}                // used names whose addresses may be others
	dirty     map[string]struct{}
	moved     bool // servers may be others
	next      int64
	waiting   bool // for time to pass
}

func newDomainBook(o *part.Outbox, s *settings.Settings, t *clock, services serviceView) domainBook {
	return domainBook{
		Outbox: o, settings: s, clock: t, services: services,
		used: map[string]int{}, seen: map[string]*objects.ResolvedNames{}, servers: map[string]struct{}{},
		pods: map[types.UID]*objects.Pod{}, podUID: map[string]types.UID{}, taken: map[string]*objects.ResolvedNames{},
		addresses: map[string]map[netip.Addr]struct{}{}, stale: map[string]struct{}{}, dirty: map[string]struct{}{}, moved: true,
	}
}

// domainSet is the name of the address set with a domain's addresses, which exists while somebody uses the
// domain. It reads like the domain as far as OVN's names allow.
func domainSet(name string, ipv4 bool) string {
	name = contract.DomainName(name)
	return "domain_" + distinct(name, name) + "_" + northbound.IPWord(ipv4)
}

// use is told of a policy that begins (1) or ceases (-1) to name a domain.
func (b *domainBook) use(name string, by int) {
	name = contract.DomainName(name)
	before := b.used[name]
	b.used[name] += by
	switch {
	case before == 0:
		b.dirty[name] = struct{}{}
		b.resolve(name)
	case b.used[name] == 0:
		delete(b.used, name)
		delete(b.addresses, name)
		b.dirty[name] = struct{}{}
	}
}

// Take is part of [part.Part].
func (b *domainBook) Take(batch *part.Batch) {
	if batch.Asks(instant) {
		b.waiting = false
	}
	for _, name := range batch.Again("DomainName") {
		b.dirty[name] = struct{}{}
	}
	b.update(batch.Names(objects.ResolvedKind), batch)
}

// Settle is part of [part.Part]: it works out addresses anew where something has changed, or their time is over.
func (b *domainBook) Settle() {
	b.followServers()
	if b.next > 0 && b.clock.now() >= b.next {
		b.next = 0
		for name := range b.used {
			b.stale[name] = struct{}{}
		}
	}
	for name := range b.stale {
		if b.used[name] > 0 {
			b.resolve(name)
		}
	}
	part.Empty(&b.stale)
	if b.next > 0 && !b.waiting {
		b.waiting = true
		b.Expect(part.Signal{What: instant})
	}
}

// Dirty is part of [part.Part].
func (b *domainBook) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.used, b.dirty, part.Sets, northbound.DomainOwner)
}

// Clean is part of [part.Part].
func (b *domainBook) Clean() { part.Empty(&b.dirty) }

// update takes in what nodes' agents have seen.
func (b *domainBook) update(nodes []string, batch *part.Batch) {
	for _, node := range nodes {
		object := part.Object[objects.ResolvedNames](batch, objects.ResolvedKind, node)
		if object != nil {
			object = object.Bounded(b.clock.now())
		}
		b.seen[node] = object
		_, server := b.servers[node]
		switch {
		case object == nil:
			delete(b.seen, node)
			b.take(node, nil)
		case server:
			b.take(node, object)
		}
	}
}

// take lets a node's word count, and notes for which names that makes a difference.
func (b *domainBook) take(node string, object *objects.ResolvedNames) {
	before := b.taken[node]
	if object == nil {
		delete(b.taken, node)
	} else {
		b.taken[node] = object
	}
	differs := func(one, other *objects.ResolvedNames) {
		if one == nil {
			return
		}
		for name, list := range one.Names {
			if other != nil && slices.Equal(list, other.Names[name]) {
				continue
			}
			for pattern := range contract.DomainPatterns(name) {
				if b.used[pattern] > 0 {
					b.stale[pattern] = struct{}{}
				}
			}
		}
	}
	differs(before, object)
	differs(object, before)
}

// resolve finds the addresses that a name or a pattern has now.
func (b *domainBook) resolve(pattern string) {
	now := map[netip.Addr]struct{}{}
	collect := func(list []objects.ResolvedAddress) {
		for _, a := range list {
			if a.Until <= b.clock.now() {
				continue
			}
			now[a.Addr] = struct{}{}
			if b.next == 0 || a.Until < b.next {
				b.next = a.Until
			}
		}
	}
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	for _, object := range b.taken {
		if !wildcard {
			collect(object.Names[pattern])
			continue
		}
		for name, list := range object.Names {
			if strings.HasSuffix(name, suffix) {
				collect(list)
			}
		}
	}
	if !maps.Equal(b.addresses[pattern], now) {
		b.addresses[pattern] = now
		b.dirty[pattern] = struct{}{}
	}
}

// Change is part of [part.Part]: a domain's pair of address sets.
func (b *domainBook) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	r := newRows(owner)
	if b.used[name] == 0 {
		return part.Rows(r.Change)
	}
	for _, ipv4 := range []bool{true, false} {
		set := r.Add(nb.AddressSetTable, northbound.IPWord(ipv4), &nb.AddressSet{Name: domainSet(name, ipv4)})
		var members []string
		for addr := range b.addresses[name] {
			if addr.Is4() == ipv4 {
				members = append(members, addr.String())
			}
		}
		if len(members) > 0 {
			slices.Sort(members)
			r.Member(nb.AddressSetTable, set, "addresses", members...)
		}
	}
	return part.Rows(r.Change)
}
