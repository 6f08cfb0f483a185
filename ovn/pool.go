package ovn

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pools"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// poolBook is what is known of AddressPools and of the addresses that Services have of them.
type poolBook struct {
	part.Rowless
	*part.Outbox
	settings   *settings.Settings
	around     surroundings
	nodes      nodeView
	namespaces namespaceView
	services   serviceView
	egress     egressView
	liveness   *livenessBook
	announcers announcerBook

	all     map[string]*poolState
	order   []*poolState // by name: so are they used up
	changed bool         // everything is to be looked at again
	// reselected are pools that select other nodes than before.
	reselected map[*poolState]struct{}
	addresses  *pools.Allocator
	of         map[string]*holding // what Services have
	reserved   *reservations
	touched    map[string]struct{} // Services to be looked at
	waiting    waitBook            // Services that lack an address
	left       map[string]struct{} // Services that are no load balancers any more and have a status
}

func newPoolBook(
	o *part.Outbox, s *settings.Settings, around surroundings, nodes nodeView, namespaces namespaceView,
	services serviceView, claims claimView, egress egressView, liveness *livenessBook,
) poolBook {
	reserved := &reservations{egress: egress}
	return poolBook{
		Outbox: o, settings: s, around: around, nodes: nodes, namespaces: namespaces, services: services, egress: egress,
		liveness: liveness, announcers: newAnnouncerBook(s, nodes, services, claims, liveness), all: map[string]*poolState{},
		reserved: reserved, addresses: pools.New(reserved.has), of: map[string]*holding{}, touched: map[string]struct{}{},
		reselected: map[*poolState]struct{}{},
		waiting:    newWaitBook(), left: map[string]struct{}{},
	}
}

// Take is part of [part.Part].
func (b *poolBook) Take(batch *part.Batch) { b.update(batch.Names(objects.PoolKind), batch) }

// Settle is part of [part.Part]: it brings addresses and Services together, those that were touched. What is given up
// comes first, then what Services have had, then what is new.
func (b *poolBook) Settle() {
	b.changed = b.changed || b.egress.Changed() // what EgressIPs follow from, addresses of pools do
	turned := b.announcers.takeTurned()
	for name := range b.services.touched() {
		if s := b.services.at(name); s != nil && allocates(b.settings, s.object) || b.of[name] != nil || s != nil &&
			s.object != nil && s.object.Balancer.Ingress != "" {
			b.touched[name] = struct{}{}
		}
	}
	if len(b.all)+len(b.of)+len(b.left)+len(b.touched) == 0 { // nothing is to be checked, until something is
		return
	}
	changed := b.changed
	if !changed {
		b.moveAnnouncers(turned)
		b.reannounce()
	}
	part.Empty(&b.reselected)
	if b.changed = false; changed {
		b.checkPools()
		for name := range b.of {
			b.touched[name] = struct{}{}
		}
		maps.Copy(b.touched, b.left)
	}
	if len(b.touched) > 0 {
		b.settleTouched()
	}
	for _, p := range b.order {
		if b.addresses.Moved(p.Pool) {
			b.notePool(p)
		}
	}
	b.addresses.ForgetMoved()
}

// poolState is an AddressPool.
type poolState struct {
	*pools.Pool
	object *objects.AddressPool
	wrong  string // what is wrong with some of it
	silent string // ranges that no node can announce, if any
	reason string
	noted  string
}

// holding is what a Service has.
type holding struct {
	addresses []netip.Addr // in the order of the Service's families
	noted     string       // what status was asked for last, of which object, and what it had then
}

// allocates says whether a Service's addresses come from pools.
func allocates(settings *settings.Settings, s *objects.Service) bool {
	return s != nil && !s.Ignored && s.Balancer.Wanted &&
		(s.Balancer.Class == v1alpha1.PoolClass || s.Balancer.Class == "" && settings.AllocateBalancers)
}

// any says whether there are AddressPools.
func (b *poolBook) any() bool { return len(b.all) > 0 }

func (b *poolBook) update(names []string, batch *part.Batch) {
	others := false
	for _, name := range names {
		object := part.Object[objects.AddressPool](batch, objects.PoolKind, name)
		p := b.all[name]
		// Its status alone is another: what Weft has written, or another hand.
		if object != nil && p != nil && p.object.AsksTheSame(&object.Custom) {
			if p.object.Status != object.Status {
				p.noted = ""
			}
			p.object = object
			b.addresses.Move(p.Pool)
			continue
		}
		others, b.changed, b.liveness.dirty = true, true, true
		if object == nil {
			delete(b.all, name)
			continue
		}
		if p == nil {
			p = &poolState{Pool: &pools.Pool{}}
			b.all[name] = p
		}
		if p.object == nil || p.object.UID != object.UID || p.object.Status != object.Status {
			p.noted = ""
		}
		p.object = object
	}
	if others {
		b.order = slices.SortedFunc(maps.Values(b.all), func(a, b *poolState) int {
			return cmp.Compare(a.object.Name, b.object.Name)
		})
		list := make([]*pools.Pool, len(b.order))
		for i, p := range b.order {
			list[i] = p.Pool
		}
		b.addresses.Use(list)
	}
}

func (b *poolBook) labelsOf(namespace string) objects.LabelSet {
	set, _ := b.namespaces.Labels(namespace)
	return set
}

// namespaceChanged has the Services of a namespace looked at again, whose labels have changed.
func (b *poolBook) namespaceChanged(namespace string) {
	for name := range b.waiting.of {
		if strings.HasPrefix(name, namespace+"/") {
			b.touched[name] = struct{}{}
		}
	}
}

// giveUp frees the addresses of touched Services that have no more right to them, and leaves only the
// others touched.
func (b *poolBook) giveUp() {
	for name := range b.touched {
		s := b.services.at(name)
		if s != nil && allocates(b.settings, s.object) {
			continue
		}
		delete(b.touched, name)
		b.waiting.drop(name)
		delete(b.left, name)
		b.Tell(poolOwner(name))
		if h := b.of[name]; h != nil {
			for _, addr := range h.addresses {
				b.release(name, addr)
			}
			delete(b.of, name)
		}
		if s == nil || s.object == nil || s.object.Balancer.Wanted || s.object.Balancer.Ingress == "" {
			continue
		}
		b.left[name] = struct{}{}
		if b.poolOf(s.object.Balancer.Ingress) {
			b.Note(part.NewAnnotation(objects.ServiceKind, &s.object.ObjectMeta, part.StatusKey,
				`{"loadBalancer":{"ingress":null}}`))
		}
	}
}

// poolOf says whether one of a status' addresses is a pool's.
func (b *poolBook) poolOf(ingress string) bool {
	for _, addr := range objects.ParseAddrs(ingress) {
		if b.inPool(addr) != nil {
			return true
		}
	}
	return false
}

// inPool is the AddressPool that has an address, nil for none.
func (b *poolBook) inPool(addr netip.Addr) *poolState {
	found := b.addresses.Find(addr)
	for _, p := range b.order {
		if p.Pool == found {
			return p
		}
	}
	return nil
}

// release takes an address from a Service that has it.
func (b *poolBook) release(name string, addr netip.Addr) {
	if b.addresses.Release(name, addr) {
		b.announcers.forget(addr)
		b.around.heldByAnother(addr)
	}
}

// hold gives a Service an address: nobody else's is served there.
func (b *poolBook) hold(name string, addr netip.Addr) {
	if b.addresses.Hold(name, addr) {
		b.around.heldByAnother(addr)
	}
}

// keep has a Service keep what it has, as its status says: the record of all terms.
func (b *poolBook) keep(name string, s *objects.Service) (problems []objects.Problem) {
	h := b.of[name]
	if h == nil {
		h = &holding{}
		b.of[name] = h
		h.addresses = objects.ParseAddrs(s.Balancer.Ingress)
	}
	wanted, _ := objects.ParseOnePerFamily(s.Balancer.Field(), objects.SplitAddrs(s.Balancer.Addresses))
	var kept []netip.Addr
	for _, addr := range h.addresses {
		ask := slices.IndexFunc(wanted, func(a netip.Addr) bool { return a.Is4() == addr.Is4() })
		holder, taken := b.addresses.Holder(addr)
		switch {
		case !s.Balancer.Has(addr.Is4()),
			ask >= 0 && wanted[ask] != addr && b.inPool(wanted[ask]) != nil,
			slices.ContainsFunc(kept, func(a netip.Addr) bool { return a.Is4() == addr.Is4() }):
			b.release(name, addr)
		case taken && holder != name:
			problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, "AddressLost",
				"status.loadBalancer: its address %s is also that of Service %s, which is older; it gets another one", addr,
				holder))
		default:
			b.hold(name, addr)
			kept = append(kept, addr)
			if whose, reserved := b.reserved.outside[addr]; reserved {
				problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, "AddressTaken",
					"status.loadBalancer: its address %s is also %s; it keeps the address, but nobody announces it; remove the "+
						"other one, or create the Service anew", addr, whose))
			} else if b.inPool(addr) == nil {
				problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, "AddressOfNoPool",
					"status.loadBalancer: its address %s is in no AddressPool that is in force; it keeps the address, but nobody "+
						"announces it; add it to an AddressPool's spec.ranges, or create the Service anew", addr))
			}
		}
	}
	h.addresses = kept
	return problems
}

// reshape has all looked at again, since a node has changed in more than its labels.
func (b *poolBook) reshape() {
	b.liveness.touch()
	b.changed = true
}

// relabel has those looked at again to whom a node's labels make a difference. Most make none.
func (b *poolBook) relabel(n *topology.Node, before, now objects.LabelSet) {
	for _, p := range b.order {
		if p.object.Nodes.Matches(before) != p.object.Nodes.Matches(now) {
			b.reselected[p] = struct{}{}
		}
	}
	if before.Has(corev1.LabelNodeExcludeBalancers) != now.Has(corev1.LabelNodeExcludeBalancers) {
		b.announcers.turn(n)
	}
}

// turn takes in that a node may announce now, or may no more. Who may have addresses stays as it is.
func (b *poolBook) turn(n *topology.Node) { b.announcers.turn(n) }

func (b *poolBook) Holder(addr netip.Addr) (service string, ok bool) {
	return b.addresses.Holder(addr)
}
