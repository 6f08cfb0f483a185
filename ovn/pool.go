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
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// poolBook is what is known of AddressPools and of the addresses that Services have of them.
type poolBook struct {
	*outbox
	settings   *settings.Settings
	around     surroundings
	nodes      nodeView
	namespaces namespaceView
	services   serviceView
	egress     egressView
	alive      *aliveBook
	outside    outsideBook

	all     map[string]*poolState
	order   []*poolState // by name: so are they used up
	changed bool         // everything is to be looked at again
	turned  []*nodeState // may announce now, or may no more: another choice among the same nodes
	// reselected are pools that select other nodes than before.
	reselected map[*poolState]struct{}
	freed      map[netip.Addr]struct{} // for which Services may wait, and which nobody has yet
	// held are the addresses that Services have, and of those who has which.
	held     map[netip.Addr]string
	of       map[string]*holding
	reserved map[netip.Addr]string   // that nobody announces, being somebody's else
	touched  map[string]struct{}     // Services to be looked at
	recount  map[*poolState]struct{} // pools whose numbers have changed
	waiting  waitBook                // Services that lack an address
	left     map[string]struct{}     // Services that are no load balancers any more and have a status
	// addressless are Services that somebody else than weft is to give addresses, and has not.
	addressless map[string]addressless
	// announced says by which node's gateway router an address is answered, "" by none.
	announced map[netip.Addr]string
	byNode    map[string]map[netip.Addr]struct{}
}

func newPoolBook(
	o *outbox, s *settings.Settings, around surroundings, nodes nodeView, namespaces namespaceView, services serviceView, egress egressView,
) poolBook {
	alive := &aliveBook{settings: s, nodes: nodes, hosting: map[string]string{}}
	return poolBook{
		outbox: o, settings: s, around: around, nodes: nodes, namespaces: namespaces, services: services, egress: egress,
		alive: alive, outside: newOutsideBook(s, alive), all: map[string]*poolState{}, held: map[netip.Addr]string{}, of: map[string]*holding{},
		touched: map[string]struct{}{}, reselected: map[*poolState]struct{}{}, recount: map[*poolState]struct{}{},
		freed: map[netip.Addr]struct{}{}, waiting: newWaitBook(), left: map[string]struct{}{},
		addressless: map[string]addressless{}, announced: map[netip.Addr]string{},
		byNode: map[string]map[netip.Addr]struct{}{},
	}
}

// poolState is an AddressPool.
type poolState struct {
	object *objects.AddressPool
	usable []usableRange
	wrong  string // what is wrong with some of it
	silent string // ranges that no node can announce, if any
	reason string
	noted  string
	// size is how many addresses usable has, used those that Services have, blocked others that nobody is given.
	size, used, blocked int64
}

// holding is what a Service has.
type holding struct {
	addresses []netip.Addr // in the order of the Service's families
	noted     string       // what status was asked for last, of which object, and what it had then
}

// allocates says whether a Service's addresses come from pools.
func (b *poolBook) allocates(s *objects.Service) bool {
	return s != nil && !s.Ignored && s.Balancer.Wanted &&
		(s.Balancer.Class == v1alpha1.PoolClass || s.Balancer.Class == "" && b.settings.AllocateBalancers)
}

// announcer is the node whose gateway router answers for a load balancer's address on the nodes' network.
// ok is false for an address that weft did not allocate, and which others announce, as a host its own; node is "" while
// no node can.
func (b *poolBook) announcer(vip netip.Addr) (node string, ok bool) {
	node, ok = b.announced[vip]
	return node, ok && !b.services.isHosts(vip)
}

// announces are the addresses that a node's gateway router answers for, sorted.
func (b *poolBook) announces(node string) []netip.Addr {
	return slices.SortedFunc(maps.Keys(b.byNode[node]), netip.Addr.Compare)
}

func (b *poolBook) update(names []string, get lookup) {
	others := false
	for _, name := range names {
		object, _ := get(objects.Key{Kind: objects.PoolKind, Name: name}).(*objects.AddressPool)
		p := b.all[name]
		// Its status alone is another: what Weft has written, or another hand.
		if object != nil && p != nil && p.object.AsksTheSame(&object.Custom) {
			if p.object.Status != object.Status {
				p.noted = ""
			}
			p.object, b.recount[p] = object, struct{}{}
			continue
		}
		others, b.changed, b.alive.dirty = true, true, true
		if object == nil {
			delete(b.all, name)
			continue
		}
		if p == nil {
			p = &poolState{}
			b.all[name] = p
		}
		if p.object == nil || p.object.UID != object.UID || p.object.Status != object.Status {
			p.noted = ""
		}
		p.object = object
	}
	if others {
		b.order = slices.SortedFunc(maps.Values(b.all), func(a, b *poolState) int { return cmp.Compare(a.object.Name, b.object.Name) })
	}
}

func (b *poolBook) labelsOf(namespace string) objects.LabelSet {
	set, _ := b.namespaces.labels(namespace)
	return set
}

// lookAt has the Services of a namespace looked at again, whose labels have changed.
func (b *poolBook) lookAt(namespace string) {
	for name := range b.waiting.of {
		if strings.HasPrefix(name, namespace+"/") {
			b.touched[name] = struct{}{}
		}
	}
}

// settle brings addresses and Services together, those that were touched: what is given up comes first, then what
// Services have had, then what is new.
func (b *poolBook) settle(services map[string]struct{}) {
	turned := b.turned
	b.turned = nil
	for name := range services {
		if s := b.services.at(name); s != nil && b.allocates(s.object) || b.of[name] != nil || s != nil && s.object != nil && s.object.Balancer.Ingress != "" {
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
	empty(&b.reselected)
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
		if _, changed := b.recount[p]; changed {
			b.notePool(p)
		}
	}
	empty(&b.recount)
}

// giveUp frees the addresses of touched Services that have no more right to them, and leaves only the
// others touched.
func (b *poolBook) giveUp() {
	for name := range b.touched {
		s := b.services.at(name)
		if s != nil && b.allocates(s.object) {
			continue
		}
		delete(b.touched, name)
		b.waiting.drop(name)
		delete(b.left, name)
		b.tell(poolOwner(name))
		if h := b.of[name]; h != nil {
			for _, addr := range h.addresses {
				b.unhold(name, addr)
			}
			delete(b.of, name)
		}
		if s == nil || s.object == nil || s.object.Balancer.Wanted || s.object.Balancer.Ingress == "" {
			continue
		}
		b.left[name] = struct{}{}
		if b.poolOf(s.object.Balancer.Ingress) {
			b.note(annotation{objects.ServiceKind, s.object.Namespace, s.object.Name, s.object.UID, statusKey, `{"loadBalancer":{"ingress":null}}`})
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

func (b *poolBook) inPool(addr netip.Addr) *poolState {
	p, _ := b.rangeAt(addr)
	return p
}

func (b *poolBook) unhold(name string, addr netip.Addr) {
	if b.held[addr] == name {
		delete(b.held, addr)
		b.countHeld(addr, -1)
		b.vacate(addr)
		delete(b.outside.ways, addr)
		b.setAnnouncer(addr, "", false)
		b.around.heldByAnother(addr)
	}
}

// hold gives a Service an address: nobody else's is served there.
func (b *poolBook) hold(name string, addr netip.Addr) {
	if b.held[addr] != name {
		if _, had := b.held[addr]; !had {
			b.countHeld(addr, 1)
		}
		b.held[addr] = name
		delete(b.freed, addr)
		b.around.heldByAnother(addr)
	}
}

// confirm has a Service keep what it has, as its status says: the record of all terms.
func (b *poolBook) confirm(name string, s *objects.Service) (problems []objects.Problem) {
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
		holder, taken := b.held[addr]
		switch {
		case !s.Balancer.Has(addr.Is4()),
			ask >= 0 && wanted[ask] != addr && b.inPool(wanted[ask]) != nil,
			slices.ContainsFunc(kept, func(a netip.Addr) bool { return a.Is4() == addr.Is4() }):
			b.unhold(name, addr)
		case taken && holder != name:
			problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, "AddressLost",
				"status.loadBalancer: its address %s is also that of Service %s, which is older; it gets another one", addr, holder))
		default:
			b.hold(name, addr)
			kept = append(kept, addr)
			if whose, reserved := b.reserved[addr]; reserved {
				problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, "AddressTaken",
					"status.loadBalancer: its address %s is also %s; it keeps the address, but nobody announces it; remove the other one, or create the Service anew", addr, whose))
			} else if b.inPool(addr) == nil {
				problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, "AddressOfNoPool",
					"status.loadBalancer: its address %s is in no AddressPool that is in force; it keeps the address, but nobody announces it; add it to an AddressPool's spec.ranges, or create the Service anew", addr))
			}
		}
	}
	h.addresses = kept
	return problems
}

// reservedBy says whose an address is that no Service is given. What an EgressIP wants it shall have, but not in
// place of a Service that has it already.
func (b *poolBook) reservedBy(addr netip.Addr) (whose string, ok bool) {
	if whose, ok = b.reserved[addr]; ok {
		return whose, true
	}
	if name, ok := b.egress.wanting()[addr]; ok {
		return "that of EgressIP " + name, true
	}
	return "", false
}

// turn takes in that a node has come to be ready, or is no more. Who may have addresses stays as it is.
func (b *poolBook) turn(n *nodeState) {
	b.turned = append(b.turned, n)
	b.touchAlive()
}

// touchAlive has the ports looked at again which show that nodes live.
func (b *poolBook) touchAlive() { b.alive.dirty = b.alive.dirty || len(b.all) > 0 }

// reshape has all looked at again, since a node has changed in more than its labels.
func (b *poolBook) reshape() {
	b.touchAlive()
	b.changed = true
}

// relabel has those looked at again to whom a node's labels make a difference. Most make none.
func (b *poolBook) relabel(n *nodeState, before, now objects.LabelSet) {
	for _, p := range b.order {
		if p.object.Nodes.Matches(before) != p.object.Nodes.Matches(now) {
			b.reselected[p] = struct{}{}
		}
	}
	if before.Has(corev1.LabelNodeExcludeBalancers) != now.Has(corev1.LabelNodeExcludeBalancers) {
		b.turned = append(b.turned, n)
	}
}

func (b *poolBook) holder(addr netip.Addr) (service string, ok bool) {
	service, ok = b.held[addr]
	return service, ok
}

// aliveChange are the ports which show that nodes live.
func (b *poolBook) aliveChange() ovsdb.Change { return b.alive.change(len(b.all) > 0) }

// updateAlive takes in which chassis has the port that shows whether a node lives, "" for none.
func (b *poolBook) updateAlive(node, chassis string) {
	if b.alive.update(node, chassis) && b.nodes.at(node) != nil {
		b.turned = append(b.turned, b.nodes.at(node))
	}
}
