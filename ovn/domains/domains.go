package domains

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

// Instant says that time has passed.
var Instant = part.NewSignal("instant", part.Patience)

// Services are what the part sees of Services.
type Services interface {
	// SlicesOf are the EndpointSlices of a Service, by key.
	SlicesOf(key string) []*objects.EndpointSlice
}

// Part is what is known of the domain names that policies name, in normal form.
type Part struct {
	*part.Outbox
	settings *settings.Settings
	clock    *part.Clock
	services Services

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

// New is a part that no policy has told a name yet.
func New(o *part.Outbox, s *settings.Settings, clock *part.Clock, services Services) *Part {
	return &Part{
		Outbox: o, settings: s, clock: clock, services: services,
		used: map[string]int{}, seen: map[string]*objects.ResolvedNames{}, servers: map[string]struct{}{},
		pods: map[types.UID]*objects.Pod{}, podUID: map[string]types.UID{}, taken: map[string]*objects.ResolvedNames{},
		addresses: map[string]map[netip.Addr]struct{}{}, stale: map[string]struct{}{}, dirty: map[string]struct{}{},
		moved: true,
	}
}

// SetName is the name of the address set with a domain's addresses, which exists while somebody uses the
// domain. It reads like the domain as far as OVN's names allow.
func SetName(name string, ipv4 bool) string {
	name = contract.DomainName(name)
	return "domain_" + northbound.Distinct(name, name) + "_" + northbound.IPWord(ipv4)
}

// Use is told of a policy that begins (1) or ceases (-1) to name a domain.
func (d *Part) Use(name string, by int) {
	name = contract.DomainName(name)
	before := d.used[name]
	d.used[name] += by
	switch {
	case before == 0:
		d.dirty[name] = struct{}{}
		d.resolve(name)
	case d.used[name] == 0:
		delete(d.used, name)
		delete(d.addresses, name)
		d.dirty[name] = struct{}{}
	}
}

// Take is part of [part.Part].
func (d *Part) Take(batch *part.Batch) {
	if batch.Asks(Instant) {
		d.waiting = false
	}
	for _, name := range batch.Again("DomainName") {
		d.dirty[name] = struct{}{}
	}
	d.update(batch.Names(objects.ResolvedKind), batch)
}

// Reconcile is part of [part.Part]: it works out addresses anew where something has changed, or their time is over.
func (d *Part) Reconcile() {
	d.followServers()
	if d.next > 0 && d.clock.Now() >= d.next {
		d.next = 0
		for name := range d.used {
			d.stale[name] = struct{}{}
		}
	}
	for name := range d.stale {
		if d.used[name] > 0 {
			d.resolve(name)
		}
	}
	part.Empty(&d.stale)
	if d.next > 0 && !d.waiting {
		d.waiting = true
		d.Expect(part.Signal{What: Instant})
	}
}

// Dirty is part of [part.Part].
func (d *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, d.used, d.dirty, part.Sets, northbound.DomainOwner)
}

// Clean is part of [part.Part].
func (d *Part) Clean() { part.Empty(&d.dirty) }

// update takes in what nodes' agents have seen.
func (d *Part) update(nodes []string, batch *part.Batch) {
	for _, node := range nodes {
		object := part.Object[objects.ResolvedNames](batch, objects.ResolvedKind, node)
		if object != nil {
			object = object.Bounded(d.clock.Now())
		}
		d.seen[node] = object
		_, server := d.servers[node]
		switch {
		case object == nil:
			delete(d.seen, node)
			d.take(node, nil)
		case server:
			d.take(node, object)
		}
	}
}

// take lets a node's word count, and notes for which names that makes a difference.
func (d *Part) take(node string, object *objects.ResolvedNames) {
	before := d.taken[node]
	if object == nil {
		delete(d.taken, node)
	} else {
		d.taken[node] = object
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
				if d.used[pattern] > 0 {
					d.stale[pattern] = struct{}{}
				}
			}
		}
	}
	differs(before, object)
	differs(object, before)
}

// Addresses are those that a name or a pattern has now, sorted.
func (d *Part) Addresses(name string) []netip.Addr {
	return slices.SortedFunc(maps.Keys(d.addresses[name]), netip.Addr.Compare)
}

// resolve finds the addresses that a name or a pattern has now.
func (d *Part) resolve(pattern string) {
	now := map[netip.Addr]struct{}{}
	collect := func(list []objects.ResolvedAddress) {
		for _, a := range list {
			if a.Until <= d.clock.Now() {
				continue
			}
			now[a.Addr] = struct{}{}
			if d.next == 0 || a.Until < d.next {
				d.next = a.Until
			}
		}
	}
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	for _, object := range d.taken {
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
	if !maps.Equal(d.addresses[pattern], now) {
		d.addresses[pattern] = now
		d.dirty[pattern] = struct{}{}
	}
}

// Change is part of [part.Part]: a domain's pair of address sets.
func (d *Part) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	r := northbound.NewBuilder(owner)
	if d.used[name] == 0 {
		return part.Rows(r.Change)
	}
	for _, ipv4 := range []bool{true, false} {
		set := r.Add(nb.AddressSetTable, northbound.IPWord(ipv4), &nb.AddressSet{Name: SetName(name, ipv4)})
		var members []string
		for addr := range d.addresses[name] {
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
