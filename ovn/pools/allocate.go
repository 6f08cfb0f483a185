package pools

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// reservations are the addresses that no Service is given.
type reservations struct {
	outside map[netip.Addr]string // those of somebody else, and whose they are
	egress  Egress
}

// by says whose an address is that no Service is given. What an EgressIP wants it must have, but not in place of a
// Service that has it already.
func (r *reservations) by(addr netip.Addr) (whose string, ok bool) {
	if whose, ok = r.outside[addr]; ok {
		return whose, true
	}
	if name, ok := r.egress.Wanting()[addr]; ok {
		return "that of EgressIP " + name, true
	}
	return "", false
}

// has says whether an address is one of them.
func (r *reservations) has(addr netip.Addr) bool {
	_, ok := r.by(addr)
	return ok
}

// all are the addresses, each once.
func (r *reservations) all() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for addr := range r.outside {
			if !yield(addr) {
				return
			}
		}
		for addr := range r.egress.Wanting() {
			if _, twice := r.outside[addr]; !twice && !yield(addr) {
				return
			}
		}
	}
}

// waiter is a Service that lacks an address.
type waiter struct {
	name   string
	meta   *metav1.ObjectMeta
	any    bool         // it takes any of a family
	wanted []netip.Addr // it waits for
}

func byWaiting(a, b *waiter) int {
	return cmp.Or(objects.Older(a.meta, b.meta), cmp.Compare(a.name, b.name))
}

// waitBook knows who waits for an address.
type waitBook struct {
	of     map[string]*waiter
	line   []*waiter                          // who takes any, the oldest first
	asking map[netip.Addr]map[string]struct{} // who wants this one
}

func newWaitBook() waitBook {
	return waitBook{of: map[string]*waiter{}, asking: map[netip.Addr]map[string]struct{}{}}
}

// add has a Service wait for an address, or for any where that is the zero one.
func (b *waitBook) add(name string, meta *metav1.ObjectMeta, wanted netip.Addr) {
	w := b.of[name]
	if w == nil {
		w = &waiter{name: name, meta: meta}
		b.of[name] = w
	}
	switch {
	case wanted.IsValid():
		w.wanted = append(w.wanted, wanted)
		part.Enter(b.asking, wanted, name)
	case !w.any:
		w.any = true
		i, _ := slices.BinarySearchFunc(b.line, w, byWaiting)
		b.line = slices.Insert(b.line, i, w)
	}
}

func (b *waitBook) drop(name string) {
	w := b.of[name]
	if w == nil {
		return
	}
	delete(b.of, name)
	for _, addr := range w.wanted {
		part.Leave(b.asking, addr, name)
	}
	if w.any {
		i, _ := slices.BinarySearchFunc(b.line, w, byWaiting)
		b.line = slices.Delete(b.line, i, i+1)
	}
}

// settleTouched gives the Services that were touched the addresses that they lack, and to those that wait what was
// freed.
func (b *Part) settleTouched() {
	b.giveUp()
	lost := map[string][]objects.Problem{}
	confirm := func(names []string) {
		for _, name := range names {
			if _, confirmed := lost[name]; !confirmed {
				lost[name] = b.keep(name, b.services.Service(name))
			}
		}
	}
	names := b.byAge(b.touched)
	confirm(names)
	for addr := range b.addresses.Freed() { // others are told that they have it now, or who has
		maps.Copy(b.touched, b.waiting.asking[addr])
	}
	if len(b.touched) > len(names) {
		names = b.byAge(b.touched)
	}
	for name := range b.inTurn(names) {
		confirm([]string{name})
		s := b.services.Service(name)
		problems := append(lost[name], b.allocate(name, s)...)
		b.Tell(Owner(name), problems...)
		b.noteBalancer(name, s)
		b.announce(name)
	}
	part.Empty(&b.touched)
	b.addresses.ForgetFreed()
}

// inTurn are the touched Services, by name, and those that wait as long as there is something for them, the oldest
// first.
func (b *Part) inTurn(names []string) iter.Seq[string] {
	var line []*waiter
	if len(b.addresses.Freed()) > 0 {
		line = slices.Clone(b.waiting.line)
	}
	return func(yield func(string) bool) {
		waiting := func(before *waiter) bool {
			for len(b.addresses.Freed()) > 0 && len(line) > 0 && (before == nil || byWaiting(line[0], before) < 0) {
				w := line[0]
				line = line[1:]
				if _, touched := b.touched[w.name]; !touched && b.mayHaveFreed(w.name) && !yield(w.name) {
					return false
				}
			}
			return true
		}
		for _, name := range names {
			if !waiting(&waiter{name: name, meta: &b.services.Service(name).ObjectMeta}) || !yield(name) {
				return
			}
		}
		waiting(nil)
	}
}

// mayHaveFreed says whether an address that was freed is of a pool that may give it to a Service.
func (b *Part) mayHaveFreed(name string) bool {
	s := b.services.Service(name)
	for addr := range b.addresses.Freed() {
		if p := b.inPool(addr); s.Balancer.Has(addr.Is4()) && p.object.Auto && p.serves(s, b.labelsOf(s.Namespace)) {
			return true
		}
	}
	return false
}

// serves says whether a Service, of a namespace with some labels, may use a pool.
func (p *state) serves(s *objects.Service, namespace objects.LabelSet) bool {
	return p.object.Wrong == "" && p.object.Services.Matches(s.Balancer.Labels) && p.object.Namespaces.Matches(namespace)
}

// byAge are Services, the oldest first.
func (b *Part) byAge(names map[string]struct{}) []string {
	return slices.SortedFunc(maps.Keys(names), func(one, other string) int {
		return cmp.Or(objects.Older(&b.services.Service(one).ObjectMeta, &b.services.Service(other).ObjectMeta),
			cmp.Compare(one, other))
	})
}

// allocate gives a Service the addresses that it lacks.
func (b *Part) allocate(name string, s *objects.Service) (problems []objects.Problem) {
	h := b.of[name]
	wanted, err := objects.ParseOnePerFamily(s.Balancer.Field(), objects.SplitAddrs(s.Balancer.Addresses))
	if err != nil {
		problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, badLoadBalancerAddress,
			"%v; it gets any address meanwhile", err))
	}
	b.waiting.drop(name)
	var addresses []netip.Addr
	for _, f := range objects.SplitAddrs(s.Balancer.Families) {
		ipv4 := f == "4"
		var ask netip.Addr
		if i := slices.IndexFunc(wanted, func(a netip.Addr) bool { return a.Is4() == ipv4 }); i >= 0 {
			ask = wanted[i]
		}
		if i := slices.IndexFunc(h.addresses, func(a netip.Addr) bool { return a.Is4() == ipv4 }); i >= 0 {
			has := h.addresses[i]
			addresses = append(addresses, has)
			if ask.IsValid() && ask != has { // no pool has it: see keep
				_, why := b.findAddress(s, ipv4, ask)
				problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, noLoadBalancerAddress,
					"%s; the Service keeps %s meanwhile", why, has))
			}
			continue
		}
		addr, why := b.findAddress(s, ipv4, ask)
		if why != "" {
			b.waiting.add(name, &s.ObjectMeta, ask)
			problems = append(problems, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, noLoadBalancerAddress, "%s", why))
			continue
		}
		b.hold(name, addr)
		addresses = append(addresses, addr)
	}
	h.addresses = addresses
	return problems
}

// findAddress is an address that a Service may have: the one that it asks for, else the first that is free.
func (b *Part) findAddress(s *objects.Service, ipv4 bool, ask netip.Addr) (found netip.Addr, why string) {
	fitting := 0
	for _, p := range b.order {
		if !p.serves(s, b.labelsOf(s.Namespace)) || !ask.IsValid() && !p.object.Auto {
			continue
		}
		for _, r := range p.Ranges {
			if r.First.Is4() != ipv4 {
				continue
			}
			fitting++
			if !ask.IsValid() {
				if addr, free := b.addresses.FirstFree(r); free {
					return addr, ""
				}
			} else if r.Contains(ask) {
				return ask, b.takenBy(s, ask)
			}
		}
	}
	switch word := map[bool]string{true: "IPv4", false: "IPv6"}[ipv4]; {
	case ask.IsValid():
		return found, fmt.Sprintf("%s: the address %s is in no AddressPool that the Service may use; add it to an "+
			"AddressPool's spec.ranges, or ask for another one", s.Balancer.Field(), ask)
	case fitting == 0:
		return found, fmt.Sprintf("status.loadBalancer: no AddressPool that the Service may use has %s addresses; create "+
			"one, or correct serviceSelector and namespaceSelector of those that are there", word)
	default:
		return found, fmt.Sprintf("status.loadBalancer: all %s addresses of the AddressPools that the Service may use are "+
			"taken; add to their spec.ranges, or remove other Services", word)
	}
}

// takenBy says why a Service cannot have the address that it asks for, "" if it can.
func (b *Part) takenBy(s *objects.Service, addr netip.Addr) (why string) {
	if holder, taken := b.addresses.Holder(addr); taken {
		return fmt.Sprintf("%s: the address %s is that of Service %s; ask for another one, or remove that Service",
			s.Balancer.Field(), addr, holder)
	}
	if whose, reserved := b.reserved.by(addr); reserved {
		return fmt.Sprintf("%s: the address %s is also %s; ask for another one", s.Balancer.Field(), addr, whose)
	}
	return ""
}
