package egress

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/rendezvous"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// Hosting says that another chassis than before has the addresses of an EgressIP.
var Hosting = part.NewSignal("hosting chassis of EgressIP", part.Patience)

// Count has the status of an EgressIP tell its number of pods.
var Count = part.NewSignal("pods of EgressIP", part.Patience)

// MaxHosting bounds the nodes that stand by for one EgressIP.
const MaxHosting = 5

// Part is what is known of EgressIPs, and of what they follow from.
type Part struct {
	*part.Outbox
	settings   *settings.Settings
	around     Surroundings
	nodes      Nodes
	pods       Pods
	namespaces Namespaces
	pools      Pools
	ids        *ipam.NumberPool // of all routers on the join switch: number n is its n-1
	recorded   map[string]int   // numbers of earlier terms, until they are claimed

	all    map[string]*state
	order  []*state              // the oldest first: of two that select a pod, it is right
	wanted map[netip.Addr]string // the first that wants an address
	// candidates are those of order that select a namespace, as far as somebody asked.
	candidates map[string][]*state
	replan     bool                // for all EgressIPs and AddressPools
	stale      map[*state]struct{} // to be planned anew, where all are not
	turned     []*topology.Node    // came to be ready, or not to be: another choice among the same nodes
	dirty      map[string]struct{}
	untold     map[string]struct{} // their statuses may be to say something else
	dirtyNodes bool                // what all EgressIPs have in common is to be written
}

// New knows of no EgressIP yet. It shares the numbers of routers on the join switch with nodes.
func New(
	o *part.Outbox, s *settings.Settings, ids *ipam.NumberPool, around Surroundings, nodes Nodes,
	pods Pods, namespaces Namespaces, pools Pools,
) Part {
	return Part{
		Outbox: o, settings: s, ids: ids, around: around, nodes: nodes, pods: pods, namespaces: namespaces, pools: pools,
		all: map[string]*state{}, candidates: map[string][]*state{},
		stale: map[*state]struct{}{}, dirty: map[string]struct{}{}, untold: map[string]struct{}{},
	}
}

// Take is part of [part.Part].
func (b *Part) Take(batch *part.Batch) {
	for _, name := range batch.Signals(Count) {
		b.countNow(name)
	}
	b.update(batch.Names(objects.EgressKind), batch)
	for _, name := range batch.Signals(Hosting) {
		b.hostedBy(name, batch.Text(Hosting, name))
	}
	for _, name := range batch.Again(objects.EgressKind.String()) {
		b.dirty[name] = struct{}{}
	}
	b.dirtyNodes = b.dirtyNodes || batch.AsksFor(northbound.EgressNodesOwner)
}

// Reconcile is part of [part.Part]: it plans anew what may have changed, and has the statuses say so.
func (b *Part) Reconcile() {
	for name, p := range b.pods.Touched() {
		b.reselect(name, p)
	}
	if b.replan || len(b.stale) > 0 {
		b.planAgain()
	}
	if !b.replan && len(b.turned) > 0 {
		b.chooseAgain(b.turned)
	}
	b.replan, b.turned = false, nil
	part.Empty(&b.stale)
	for _, name := range slices.Sorted(maps.Keys(b.untold)) {
		if e := b.all[name]; e != nil {
			b.noteStatusOf(e)
		}
	}
	part.Empty(&b.untold)
}

// Dirty is part of [part.Part].
func (b *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Join(part.Once(all || b.dirtyNodes, part.Common, northbound.EgressNodesOwner),
		part.Of(all, b.all, b.dirty, part.Common, northbound.EgressOwner))
}

// Change is part of [part.Part].
func (b *Part) Change(owner ovsdb.Owner) part.Outcome {
	if owner == northbound.EgressNodesOwner {
		return part.Rows(b.commonChange())
	}
	_, name := part.Split(owner)
	return part.Rows(b.change(name))
}

// Clean is part of [part.Part].
func (b *Part) Clean() {
	part.Empty(&b.dirty)
	b.dirtyNodes = false
}

// Changed says whether what all EgressIPs follow from is another thing since they were settled.
func (b *Part) Changed() bool { return b.replan }

// state is an EgressIP and what was decided for it.
type state struct {
	object *objects.EgressIP
	number int // its router's on the join switch, 0 without one
	plan   plan
	// standing are the nodes among which the plan chooses.
	standing []*topology.Node
	// pods is how many leave with its addresses; hosting is the chassis that has them now.
	pods     int
	counting bool // the status must have the number later
	hosting  string
	noted    part.Body // status that was asked for last
}

// plan is what an EgressIP's rows follow from, beside the object.
type plan struct {
	gateway contract.Gateway
	members []topology.Member // the first is preferred; none: packets are dropped
	names   []string          // of members' nodes
	reason  *reasons.Condition
	message string
}

// podsID is the row of the address set with the pods of all EgressIPs.
func podsID(ipv4 bool) string {
	return ovsdb.ID(nb.AddressSetTable, northbound.EgressNodesOwner, "pods/"+northbound.IPWord(ipv4))
}

// setOf is the name of the address set with an EgressIP's pods. OVN's names have no hyphens, an
// object's no underscores.
func setOf(name string, ipv4 bool) string {
	return "egress_" + strings.ReplaceAll(name, "-", "_") + "_" + northbound.IPWord(ipv4)
}

func setID(name string, ipv4 bool) string {
	return ovsdb.ID(nb.AddressSetTable, northbound.EgressOwner(name), northbound.IPWord(ipv4))
}

// wants says whether an EgressIP has an address of a family.
func (e *state) wants(ipv4 bool) bool {
	return slices.ContainsFunc(e.object.Addresses, func(a netip.Addr) bool { return a.Is4() == ipv4 })
}

// update takes in EgressIPs. The pods that they select are looked at again.
func (b *Part) update(names []string, batch *part.Batch) {
	reselect := false
	for _, name := range names {
		object := part.Object[objects.EgressIP](batch, objects.EgressKind, name)
		e := b.all[name]
		// Its status alone is another: what Weft has written, or another hand.
		if object != nil && e != nil && e.object.AsksTheSame(&object.Custom) {
			if e.object.Status != object.Status {
				e.noted = nil
			}
			e.object, b.untold[name] = object, struct{}{}
			continue
		}
		b.dirty[name] = struct{}{}
		b.replan, reselect = true, reselect || object != nil || e != nil
		switch {
		case object == nil:
			if e != nil {
				b.nodes.ReleaseNumber(e.number)
				delete(b.all, name)
			}
			continue
		case e == nil:
			e = &state{number: b.recorded[name], hosting: batch.Text(Hosting, name)}
			b.all[name] = e
		}
		if e.object == nil || e.object.UID != object.UID || e.object.Status != object.Status {
			e.noted = nil
		}
		e.object = object
	}
	if !reselect {
		return
	}
	b.order = slices.SortedFunc(maps.Values(b.all), func(a, b *state) int {
		return cmp.Or(objects.Older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.object.Name, b.object.Name))
	})
	b.wanted = map[netip.Addr]string{}
	for _, e := range slices.Backward(b.order) {
		for _, addr := range e.object.Addresses {
			b.wanted[addr] = e.object.Name
		}
	}
	b.dirtyNodes = true
	clear(b.candidates)
	for name, p := range b.pods.All() {
		b.reselect(name, p)
	}
}

// Claim takes the numbers that EgressIPs had in earlier terms, before a new node takes one.
func (b *Part) Claim(recorded map[string]int) {
	b.recorded = recorded
	for name, number := range b.recorded {
		if number > 0 && !b.ids.Reserve(number-1) {
			delete(b.recorded, name)
		}
	}
}

// Forget gives back the numbers of what is gone.
func (b *Part) Forget() {
	for name, number := range b.recorded {
		if e := b.all[name]; e == nil || e.number != number {
			b.nodes.ReleaseNumber(number)
		}
	}
	b.recorded = nil
}

// takeNumber finds a number for an EgressIP's router: far from where nodes' begin, and the same again
// where the Northbound was lost.
func (b *Part) takeNumber(e *state) bool {
	if e.number > 0 {
		return true
	}
	size := b.ids.Size
	start := 0
	if size > 1 {
		start = size - 1 - int(rendezvous.ForRows("", e.object.Name)%uint64(size/2))
	}
	for i := range size {
		if n := (start - i + size) % size; b.ids.Reserve(n) {
			e.number = n + 1
			return true
		}
	}
	return false
}

// NamespaceChanged has the pods of a namespace looked at again, whose labels have changed.
func (b *Part) NamespaceChanged(namespace string) {
	delete(b.candidates, namespace)
	if len(b.all) == 0 {
		return
	}
	for key, p := range b.pods.In(namespace) {
		b.reselect(key, p)
	}
}

// selecting are the EgressIPs that select a namespace, the oldest first.
func (b *Part) selecting(namespace string) []*state {
	list, known := b.candidates[namespace]
	if known {
		return list
	}
	set, there := b.namespaces.Labels(namespace)
	if !there || len(b.order) == 0 {
		return nil
	}
	for _, e := range b.order {
		if e.object.Wrong == "" && e.object.Namespaces.Matches(set) {
			list = append(list, e)
		}
	}
	b.candidates[namespace] = list
	return list
}

// reselect decides with whose addresses a pod leaves, of each family the oldest EgressIP that selects it.
func (b *Part) reselect(name string, p Pod) {
	var now [2]*state
	for _, e := range b.selecting(p.Object().Namespace) {
		if !e.object.Pods.Matches(p.Object().Labels) {
			continue
		}
		for _, ipv4 := range []bool{true, false} {
			if now[ipam.FamilyIndex(ipv4)] == nil && e.wants(ipv4) {
				now[ipam.FamilyIndex(ipv4)] = e
			}
		}
	}
	if now != p.Leaving().by {
		b.leaveBy(p, now)
		b.pods.Touch(name)
	}
}

// leaveBy keeps the EgressIPs' numbers of pods.
func (b *Part) leaveBy(p Pod, now [2]*state) {
	count := func(pair [2]*state, by int) {
		for i, e := range pair {
			if e != nil && (i == 0 || pair[0] != e) {
				e.pods += by
				b.countLater(e)
			}
		}
	}
	leaving := p.Leaving()
	count(leaving.by, -1)
	count(now, 1)
	leaving.by = now
}

// countLater has the status tell the number of pods after a while: pods come and go in numbers.
func (b *Part) countLater(e *state) {
	if !e.counting && b.all[e.object.Name] == e {
		e.counting = true
		b.Expect(part.Signal{What: Count, Name: e.object.Name})
	}
}

// AddTo puts a pod's addresses into the sets that its EgressIPs' policies ask.
func AddTo(p Pod, change *ovsdb.Change) {
	r := northbound.Extend(*change)
	for _, address := range p.Addresses() {
		if e := p.Leaving().by[ipam.FamilyIndex(address.Addr().Is4())]; e != nil {
			r.Member(nb.AddressSetTable, setID(e.object.Name, address.Addr().Is4()), "addresses", address.Addr().String())
			r.Member(nb.AddressSetTable, podsID(address.Addr().Is4()), "addresses", address.Addr().String())
		}
	}
	*change = r.Change
}

// planAgain decides anew for the EgressIPs that are stale, or for all. What a Service has of an AddressPool stays the
// Service's: its clients outside know it. Of two EgressIPs the older is right.
func (b *Part) planAgain() {
	if len(b.order) == 0 {
		return
	}
	taken := b.around.OutsideAddresses()
	for _, e := range b.order {
		for _, addr := range e.object.Addresses {
			if holder, ok := b.pools.Holder(addr); ok {
				taken[addr] = "Service " + holder
			}
		}
		if _, stale := b.stale[e]; stale || b.replan {
			b.follows(e, b.planOf(e, taken))
		}
		for _, addr := range e.object.Addresses {
			if _, other := taken[addr]; !other {
				taken[addr] = "EgressIP " + e.object.Name
			}
		}
	}
}

// chooseAgain decides anew for the EgressIPs that choose among some nodes.
func (b *Part) chooseAgain(nodes []*topology.Node) {
	for _, e := range b.order {
		if slices.ContainsFunc(nodes, func(n *topology.Node) bool { return slices.Contains(e.standing, n) }) {
			b.follows(e, b.choose(e))
		}
	}
}

// follows has an EgressIP's rows and status follow a plan.
func (b *Part) follows(e *state, now plan) {
	if !now.equal(e.plan) {
		e.plan = now
		b.dirty[e.object.Name] = struct{}{}
	}
	b.untold[e.object.Name] = struct{}{}
}

func (p plan) equal(o plan) bool {
	return p.reason == o.reason && p.message == o.message && slices.Equal(p.members, o.members) &&
		slices.Equal(p.names, o.names) &&
		p.gateway.Network == o.gateway.Network && p.gateway.MAC == o.gateway.MAC &&
		slices.Equal(p.gateway.Addresses, o.gateway.Addresses) && slices.Equal(p.gateway.NextHops, o.gateway.NextHops)
}

// status is an EgressIP's. The field of a node that is none is taken away.
type status struct {
	Conditions         part.Conditions `json:"conditions"`
	Node               *string         `json:"node"`
	ObservedGeneration int64           `json:"observedGeneration"`
	Pods               int             `json:"pods"`
}

// At is part of [part.Body].
func (s status) At(now time.Time) any {
	s.Conditions = s.Conditions.At(now)
	return s
}

// noteStatusOf has an EgressIP's status written.
func (b *Part) noteStatusOf(e *state) {
	ready := e.object.Ready(e.plan.reason, e.statusMessage())
	now := status{Conditions: part.Conditions{ready}, ObservedGeneration: e.object.Generation, Pods: e.pods}
	if node := b.nodes.WithChassis(e.hosting); len(e.plan.members) > 0 && node != "" {
		now.Node = &node
	}
	b.NoteStatus(objects.EgressKind, &e.object.Custom, now, &e.noted)
}

func (e *state) statusMessage() string {
	if len(e.plan.members) > 0 || e.object.Wrong != "" {
		return e.plan.message
	}
	return e.plan.message + "; until then what the selected pods send outside is dropped"
}

// hostedBy takes in which chassis has an EgressIP's addresses.
func (b *Part) hostedBy(name, chassis string) {
	if e := b.all[name]; e != nil {
		e.hosting, b.untold[name] = chassis, struct{}{}
	}
}

// countNow has an EgressIP's status count its pods.
func (b *Part) countNow(name string) {
	if e := b.all[name]; e != nil {
		e.counting = false
		b.untold[name] = struct{}{}
	}
}

// Reshape has all looked at again that select a node, or want an address of its, which has changed.
func (b *Part) Reshape(before, now *topology.Traits) {
	b.dirtyNodes = b.dirtyNodes || len(b.all) > 0
	for _, e := range b.order {
		wanted := func(addr netip.Addr) bool { return slices.Contains(e.object.Addresses, addr) }
		if e.plan.reason == noNumber || e.object.Nodes.Matches(before.Labels) || e.object.Nodes.Matches(now.Labels) ||
			slices.ContainsFunc(before.Taken, wanted) || slices.ContainsFunc(now.Taken, wanted) {
			b.stale[e] = struct{}{}
		}
	}
}

// Relabel has those looked at again to whom a node's labels make a difference.
func (b *Part) Relabel(before, now objects.LabelSet) {
	for _, e := range b.order {
		if e.object.Nodes.Matches(before) != e.object.Nodes.Matches(now) {
			b.stale[e] = struct{}{}
		}
	}
}

// Wanting are the EgressIPs that want addresses, by these.
func (b *Part) Wanting() map[netip.Addr]string { return b.wanted }

// Leave has a pod that ends leave by none.
func (b *Part) Leave(p Pod) { b.leaveBy(p, [2]*state{}) }

// Replan has all EgressIPs looked at again.
func (b *Part) Replan() { b.replan = true }

// Turn takes in that a node has come to be ready, or not to be.
func (b *Part) Turn(n *topology.Node) { b.turned = append(b.turned, n) }
