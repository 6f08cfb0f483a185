package pools

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// Part is what is known of AddressPools and of the addresses that Services have of them.
type Part struct {
	part.Rowless
	*part.Outbox
	settings   *settings.Settings
	around     Surroundings
	nodes      Nodes
	namespaces Namespaces
	services   Services
	egress     Egress
	liveness   *Liveness
	announcers announcers

	all     map[string]*state
	order   []*state // by name: so are they used up
	changed bool     // everything is to be looked at again
	// reselected are pools that select other nodes than before.
	reselected map[*state]struct{}
	addresses  *Allocator
	of         map[string]*holding // what Services have
	reserved   *reservations
	touched    map[string]struct{} // Services to be looked at
	waiting    waitBook            // Services that lack an address
	left       map[string]struct{} // Services that are no load balancers any more and have a status
}

// New are the part of AddressPools, and that of the ports that show which nodes live.
func New(o *part.Outbox, s *settings.Settings, around Surroundings, nodes Nodes, namespaces Namespaces,
	services Services, hosts Hosts, egress Egress,
) (*Part, *Liveness) {
	reserved := &reservations{egress: egress}
	b := &Part{
		Outbox: o, settings: s, around: around, nodes: nodes, namespaces: namespaces, services: services, egress: egress,
		all: map[string]*state{}, reserved: reserved, addresses: NewAllocator(reserved.has),
		of: map[string]*holding{}, touched: map[string]struct{}{}, reselected: map[*state]struct{}{},
		waiting: newWaitBook(), left: map[string]struct{}{},
	}
	b.liveness = newLiveness(s, nodes, b)
	b.announcers = newAnnouncers(s, nodes, services, hosts, b.liveness)
	return b, b.liveness
}

// Take is part of [part.Part].
func (b *Part) Take(batch *part.Batch) { b.update(batch.Names(objects.PoolKind), batch) }

// Reconcile is part of [part.Part]: it brings addresses and Services together, those that were touched. What is given
// up comes first, then what Services have had, then what is new.
func (b *Part) Reconcile() {
	b.changed = b.changed || b.egress.Changed() // what EgressIPs follow from, addresses of pools do
	turned := b.announcers.takeTurned()
	for name := range b.services.Touched() {
		if s := b.services.Service(name); Allocates(b.settings, s) || b.of[name] != nil || s != nil &&
			s.Balancer.Ingress != "" {
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

// state is an AddressPool.
type state struct {
	*Pool
	object *objects.AddressPool
	wrong  string // what is wrong with some of it
	silent string // ranges that no node can announce, if any
	reason *reasons.Condition
	noted  part.Body // status that was asked for last
}

// Pools are the AddressPools' addresses, by the pool's name.
func (b *Part) Pools() iter.Seq2[string, *Pool] {
	return func(yield func(string, *Pool) bool) {
		for name, p := range b.all {
			if !yield(name, p.Pool) {
				return
			}
		}
	}
}

// holding is what a Service has.
type holding struct {
	addresses []netip.Addr // in the order of the Service's families
	noted     noted        // what was asked for last
}

// Allocates says whether a Service's addresses come from pools.
func Allocates(settings *settings.Settings, s *objects.Service) bool {
	return s != nil && !s.Ignored && s.Balancer.Wanted &&
		(s.Balancer.Class == v1alpha1.PoolClass || s.Balancer.Class == "" && settings.AllocateBalancers)
}

// any says whether there are AddressPools.
func (b *Part) any() bool { return len(b.all) > 0 }

func (b *Part) update(names []string, batch *part.Batch) {
	others := false
	for _, name := range names {
		object := part.Object[objects.AddressPool](batch, objects.PoolKind, name)
		p := b.all[name]
		// Its status alone is another: what Weft has written, or another hand.
		if object != nil && p != nil && p.object.AsksTheSame(&object.Custom) {
			if p.object.Status != object.Status {
				p.noted = nil
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
			p = &state{Pool: &Pool{}}
			b.all[name] = p
		}
		if p.object == nil || p.object.UID != object.UID || p.object.Status != object.Status {
			p.noted = nil
		}
		p.object = object
	}
	if others {
		b.order = slices.SortedFunc(maps.Values(b.all), func(a, b *state) int {
			return cmp.Compare(a.object.Name, b.object.Name)
		})
		list := make([]*Pool, len(b.order))
		for i, p := range b.order {
			list[i] = p.Pool
		}
		b.addresses.Use(list)
	}
}

func (b *Part) labelsOf(namespace string) objects.LabelSet {
	set, _ := b.namespaces.Labels(namespace)
	return set
}

// NamespaceChanged has the Services of a namespace looked at again, whose labels have changed.
func (b *Part) NamespaceChanged(namespace string) {
	for name := range b.waiting.of {
		if strings.HasPrefix(name, namespace+"/") {
			b.touched[name] = struct{}{}
		}
	}
}

// giveUp frees the addresses of touched Services that have no more right to them, and leaves only the
// others touched.
func (b *Part) giveUp() {
	for name := range b.touched {
		s := b.services.Service(name)
		if Allocates(b.settings, s) {
			continue
		}
		delete(b.touched, name)
		b.waiting.drop(name)
		delete(b.left, name)
		b.Tell(Owner(name))
		if h := b.of[name]; h != nil {
			for _, addr := range h.addresses {
				b.release(name, addr)
			}
			delete(b.of, name)
		}
		if s == nil || s.Balancer.Wanted || s.Balancer.Ingress == "" {
			continue
		}
		b.left[name] = struct{}{}
		if b.poolOf(s.Balancer.Ingress) {
			b.Note(part.PatchStatus(objects.ServiceKind, &s.ObjectMeta, balancerStatus{}))
		}
	}
}

// poolOf says whether one of a status' addresses is a pool's.
func (b *Part) poolOf(ingress string) bool {
	for _, addr := range objects.ParseAddrs(ingress) {
		if b.inPool(addr) != nil {
			return true
		}
	}
	return false
}

// inPool is the AddressPool that has an address, nil for none.
func (b *Part) inPool(addr netip.Addr) *state {
	found := b.addresses.Find(addr)
	for _, p := range b.order {
		if p.Pool == found {
			return p
		}
	}
	return nil
}

// release takes an address from a Service that has it.
func (b *Part) release(name string, addr netip.Addr) {
	if b.addresses.Release(name, addr) {
		b.announcers.forget(addr)
		b.around.HeldByAnother(addr)
	}
}

// hold gives a Service an address: nobody else's is served there.
func (b *Part) hold(name string, addr netip.Addr) {
	if b.addresses.Hold(name, addr) {
		b.around.HeldByAnother(addr)
	}
}

// keep has a Service keep what it has, as its status says: the record of all terms.
func (b *Part) keep(name string, s *objects.Service) (problems []objects.Problem) {
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
			problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, addressLost,
				"status.loadBalancer: its address %s is also that of Service %s, which keeps it; this Service "+
					"gets another one, if its AddressPool has one", addr, holder))
		default:
			b.hold(name, addr)
			kept = append(kept, addr)
			if whose, reserved := b.reserved.outside[addr]; reserved {
				problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, addressTaken,
					"status.loadBalancer: its address %s is also %s; the Service keeps it, but nobody announces it; take it from the "+
						"other one, or create the Service again", addr, whose))
			} else if b.inPool(addr) == nil {
				problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, addressOfNoPool,
					"status.loadBalancer: its address %s is in no AddressPool that is in force; the Service keeps it, but "+
						"nobody announces it; add it to spec.ranges of an AddressPool, or create the Service again", addr))
			}
		}
	}
	h.addresses = kept
	return problems
}

// Reshape has all looked at again, since a node has changed in more than its labels.
func (b *Part) Reshape() {
	b.liveness.Touch()
	b.changed = true
}

// Relabel has those looked at again to whom a node's labels make a difference. Most make none.
func (b *Part) Relabel(n *topology.Node, before, now objects.LabelSet) {
	for _, p := range b.order {
		if p.object.Nodes.Matches(before) != p.object.Nodes.Matches(now) {
			b.reselected[p] = struct{}{}
		}
	}
	if before.Has(corev1.LabelNodeExcludeBalancers) != now.Has(corev1.LabelNodeExcludeBalancers) {
		b.announcers.turn(n)
	}
}

// Turn takes in that a node may announce now, or may no more. Who may have addresses stays as it is.
func (b *Part) Turn(n *topology.Node) { b.announcers.turn(n) }

// Holder is the Service that has an address of an AddressPool.
func (b *Part) Holder(addr netip.Addr) (service string, ok bool) {
	return b.addresses.Holder(addr)
}

// Recheck has everything looked at again.
func (b *Part) Recheck() { b.changed = true }

// UpdateNode takes in on which subnets outside a node's gateway is.
func (b *Part) UpdateNode(n *topology.Node) { b.announcers.outside.update(n) }

// Announcer is the node whose gateway router answers for a load balancer's address on the nodes' network. ok is false
// for an address that Weft did not allocate, and which others announce, as a host its own; node is "" while no node
// can.
func (b *Part) Announcer(vip netip.Addr) (node string, ok bool) { return b.announcers.of(vip) }

// AnnouncedBy are the addresses that a node's gateway router answers for, sorted.
func (b *Part) AnnouncedBy(node string) []netip.Addr { return b.announcers.ofNode(node) }

// HostsHave takes in an address that a host has now, or no more.
func (b *Part) HostsHave(addr netip.Addr) { b.announcers.hostsHave(addr) }

// AddToNode has a node's gateway router tell its network of the addresses that it answers for.
func (b *Part) AddToNode(n *topology.Node, change *ovsdb.Change) {
	announceOn(change, n.Facts.Gateway, b.AnnouncedBy(n.Name))
}
