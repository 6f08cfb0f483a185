package claims

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// rival is a Service that wants what others may want, too.
type rival struct {
	name  string
	right outside.Right
}

func byRight(a, b *rival) int { return a.right.Compare(b.right) }

// rights are a Service's to what it wants: to its load balancer's addresses, and to all else.
type rights struct {
	balancer, other rival
	ingress         []netip.Addr
	ipv4, ipv6      bool   // the families of what it has at all nodes' addresses
	healthPort      uint16 // has both
}

// equal says whether a Service has what it claims in the same way.
func (r *rights) equal(other *rights) bool {
	return byRight(&r.other, &other.other) == 0 && slices.Equal(r.ingress, other.ingress) &&
		r.ipv4 == other.ipv4 && r.ipv6 == other.ipv6 && r.healthPort == other.healthPort
}

func rightsOf(name string, s *objects.Service) *rights {
	r := &rights{}
	if s != nil {
		right := outside.Right{Created: s.CreationTimestamp.Time, Namespace: s.Namespace, Name: s.Name}
		r.other, r.ingress = rival{name, right}, s.Ingress
		r.ipv4, r.ipv6, r.healthPort = s.HasFamily(true), s.HasFamily(false), s.HealthPort
		right.Balancer = true
		r.balancer = rival{name, right}
	}
	return r
}

func (r *rights) at(addr netip.Addr) *rival {
	if slices.Contains(r.ingress, addr) {
		return &r.balancer
	}
	return &r.other
}

// book knows who wants what.
type book struct {
	by map[objects.Claim][]*rival         // in the order of their right to it
	of map[string][]objects.Claim         // by Service, sorted, each once
	as map[string]*rights                 // by Service, as they are in by
	at map[netip.Addr]map[string]struct{} // Services that want something of an address; of the zero one, node ports
	// told are the claims that another Service has, as a Service's owner was told; telling are these Services.
	told    map[string][]objects.Claim
	telling map[objects.Claim]map[string]struct{}
}

func newBook() book {
	return book{by: map[objects.Claim][]*rival{}, of: map[string][]objects.Claim{}, as: map[string]*rights{},
		at:   map[netip.Addr]map[string]struct{}{},
		told: map[string][]objects.Claim{}, telling: map[objects.Claim]map[string]struct{}{}}
}

// wants says whether a Service wants something.
func (b *book) wants(name string, c objects.Claim) bool {
	_, ok := slices.BinarySearchFunc(b.of[name], c, objects.Claim.Compare)
	return ok
}

// update takes in what a Service wants now, and with what right. It says for whom it makes a difference: where another
// one is first now, that one, the one before, and whoever was told of the one before.
func (b *book) update(name string, now []objects.Claim, as *rights) (touched map[string]struct{}) {
	was, had := b.of[name], b.as[name]
	touched = map[string]struct{}{}
	for i, j := 0, 0; i < len(was) || j < len(now); {
		var before, after *rival
		order := -1
		switch {
		case i == len(was):
			order = 1
		case j < len(now):
			order = was[i].Compare(now[j])
		}
		c := objects.Claim{}
		if order <= 0 {
			c, before = was[i], had.at(was[i].Addr)
			i++
		}
		if order >= 0 {
			c, after = now[j], as.at(now[j].Addr)
			j++
		}
		b.place(c, before, after, touched)
	}
	if !slices.Equal(was, now) {
		for _, c := range was {
			part.Leave(b.at, c.Addr, name)
		}
		for _, c := range now {
			part.Enter(b.at, c.Addr, name)
		}
	}
	b.of[name], b.as[name] = now, as
	if len(now) == 0 {
		delete(b.of, name)
		delete(b.as, name)
	}
	return touched
}

// place puts a rival for a claim where another state of it was; either may be nil.
func (b *book) place(c objects.Claim, before, after *rival, touched map[string]struct{}) {
	list := b.by[c]
	first := ""
	if len(list) > 0 {
		first = list[0].name
	}
	if before != nil {
		i, _ := slices.BinarySearchFunc(list, before, byRight)
		if after != nil && byRight(before, after) == 0 {
			list[i] = after
			return
		}
		list = slices.Delete(list, i, i+1)
	}
	if after != nil {
		i, _ := slices.BinarySearchFunc(list, after, byRight)
		list = slices.Insert(list, i, after)
	}
	if b.by[c] = list; len(list) == 0 {
		delete(b.by, c)
		return
	}
	if list[0].name == first {
		return
	}
	touched[list[0].name] = struct{}{}
	if first != "" {
		touched[first] = struct{}{}
	}
	for name := range b.telling[c] {
		touched[name] = struct{}{}
	}
}

// tell takes in what a Service's owner is told: nil, that it has all it wants.
func (b *book) tell(name string, d *objects.Rejection) {
	for _, c := range b.told[name] {
		part.Leave(b.telling, c, name)
	}
	delete(b.told, name)
	if d == nil || len(d.Told) == 0 {
		return
	}
	b.told[name] = d.Told
	for _, c := range d.Told {
		part.Enter(b.telling, c, name)
	}
}

// changedClaims are those that are in one of two sorted lists alone.
func changedClaims(was, now []objects.Claim) []objects.Claim {
	var changed []objects.Claim
	for len(was) > 0 && len(now) > 0 {
		switch order := was[0].Compare(now[0]); {
		case order == 0:
			was, now = was[1:], now[1:]
		case order < 0:
			changed, was = append(changed, was[0]), was[1:]
		default:
			changed, now = append(changed, now[0]), now[1:]
		}
	}
	return slices.Concat(changed, was, now)
}
