package ovn

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// maxCarriers bounds the nodes that stand by for one EgressIP.
const maxCarriers = 5

// egressBook is what is known of EgressIPs, and of what they follow from.
type egressBook struct {
	all        map[string]*egressState
	order      []*egressState        // the oldest first: of two that select a pod, it is right
	wanted     map[netip.Addr]string // the first that wants an address
	namespaces map[string]labelSet   // of all Namespaces, by name
	// candidates are those of order that select a namespace, as far as somebody asked.
	candidates map[string][]*egressState
	nodes      map[string]nodeTraits
	replan     bool                      // for all EgressIPs and AddressPools
	stale      map[*egressState]struct{} // to be planned anew, where all are not
	turned     []*nodeState              // came to be ready, or not to be: another choice among the same nodes
	dirty      map[string]struct{}
	untold     map[string]struct{} // their statuses may be to say something else
	dirtyNodes bool                // what all EgressIPs have in common is to be written
}

func newEgressBook() egressBook {
	return egressBook{all: map[string]*egressState{}, namespaces: map[string]labelSet{}, candidates: map[string][]*egressState{},
		nodes: map[string]nodeTraits{}, stale: map[*egressState]struct{}{}, dirty: map[string]struct{}{}, untold: map[string]struct{}{}}
}

// egressState is an EgressIP and what was decided for it.
type egressState struct {
	object *egressIP
	number int // its router's on the join switch, 0 without one
	plan   egressPlan
	// standing are the nodes among which the plan chooses.
	standing []*nodeState
	// pods is how many leave with its addresses; carrier is the chassis that has them now.
	pods     int
	counting bool // the status shall have the number later
	carrier  string
	noted    string // status that was asked for last
}

// egressPlan is what an EgressIP's rows follow from, beside the object.
type egressPlan struct {
	gateway contract.Gateway
	members []member // the first is preferred; none: packets are dropped
	names   []string // of members' nodes
	reason  string
	message string
}

func egressOwner(name string) ovsdb.Owner { return ovsdb.Owner("EgressIP/" + name) }

// egressNodesOwner has what all EgressIPs share.
const egressNodesOwner ovsdb.Owner = "Egress/nodes"

// egressPodsID is the row of the address set with the pods of all EgressIPs.
func egressPodsID(ipv4 bool) string {
	return ovsdb.ID(nb.AddressSetTable, egressNodesOwner, "pods/"+ipWord(ipv4))
}

// egressSet is the name of the address set with an EgressIP's pods. OVN's names have no hyphens, an
// object's no underscores.
func egressSet(name string, ipv4 bool) string {
	return "egress_" + strings.ReplaceAll(name, "-", "_") + "_" + ipWord(ipv4)
}

func ipWord(ipv4 bool) string {
	if ipv4 {
		return "ip4"
	}
	return "ip6"
}

func egressSetID(name string, ipv4 bool) string {
	return ovsdb.ID(nb.AddressSetTable, egressOwner(name), ipWord(ipv4))
}

// family2 is the place of an address family in a pair.
func family2(ipv4 bool) int {
	if ipv4 {
		return 0
	}
	return 1
}

// wants says whether an EgressIP has an address of a family.
func (e *egressState) wants(ipv4 bool) bool {
	return slices.ContainsFunc(e.object.addresses, func(a netip.Addr) bool { return a.Is4() == ipv4 })
}

// updateEgress takes in EgressIPs. The pods that they select are looked at again.
func (c *cluster) updateEgress(names []string, get lookup) {
	book := &c.egress
	reselect := false
	for _, name := range names {
		object, _ := get(objectKey{egressKind, name}).(*egressIP)
		e := book.all[name]
		// Its status alone is another: what Weft has written, or another hand.
		if object != nil && e != nil && e.object.asks(&object.custom) {
			if e.object.status != object.status {
				e.noted = ""
			}
			e.object, book.untold[name] = object, struct{}{}
			continue
		}
		book.dirty[name] = struct{}{}
		book.replan, reselect = true, reselect || object != nil || e != nil
		switch {
		case object == nil:
			if e != nil {
				c.ids.release(e.number - 1)
				c.vacated = true
				delete(book.all, name)
			}
			continue
		case e == nil:
			e = &egressState{number: c.records.egress[name], carrier: carrierOf(name, get)}
			book.all[name] = e
		}
		if e.object == nil || e.object.UID != object.UID || e.object.status != object.status {
			e.noted = ""
		}
		e.object = object
	}
	if !reselect {
		return
	}
	book.order = slices.SortedFunc(maps.Values(book.all), func(a, b *egressState) int {
		return cmp.Or(older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.object.Name, b.object.Name))
	})
	book.wanted = map[netip.Addr]string{}
	for _, e := range slices.Backward(book.order) {
		for _, addr := range e.object.addresses {
			book.wanted[addr] = e.object.Name
		}
	}
	book.dirtyNodes = true
	clear(book.candidates)
	for name, p := range c.pods {
		c.reselect(name, p)
	}
}

// claimEgress takes the numbers that EgressIPs had in earlier terms, before a new node takes one.
func (c *cluster) claimEgress() {
	for name, number := range c.records.egress {
		if number > 0 && !c.ids.reserve(number-1) {
			delete(c.records.egress, name)
		}
	}
}

// forgetEgress gives back the numbers of what is gone.
func (c *cluster) forgetEgress() {
	for name, number := range c.records.egress {
		if e := c.egress.all[name]; e == nil || e.number != number {
			c.ids.release(number - 1)
			c.vacated = true
		}
	}
	c.records.egress = nil
}

// numberEgress finds a number for an EgressIP's router: far from where nodes' begin, and the same again
// where the Northbound was lost.
func (c *cluster) numberEgress(e *egressState) bool {
	if e.number > 0 {
		return true
	}
	size := c.ids.size
	start := 0
	if size > 1 {
		start = size - 1 - int(rendezvous("", e.object.Name)%uint64(size/2))
	}
	for i := range size {
		if n := (start - i + size) % size; c.ids.reserve(n) {
			e.number = n + 1
			return true
		}
	}
	return false
}

// rendezvous is how much a node is preferred for something, among others.
func rendezvous(what, node string) uint64 {
	sum := sha256.Sum256([]byte(what + "\x00" + node))
	return binary.BigEndian.Uint64(sum[:])
}

// updateNamespaces takes in the labels of namespaces.
func (c *cluster) updateNamespaces(names []string, get lookup) {
	for _, name := range names {
		object, _ := get(objectKey{namespaceKind, name}).(*namespace)
		before, known := c.egress.namespaces[name]
		switch {
		case object == nil:
			delete(c.egress.namespaces, name)
			c.policies.noteLogging(name, nil)
		case known && before == object.labels:
			c.policies.noteLogging(name, object)
			continue
		default:
			c.egress.namespaces[name] = object.labels
			c.policies.noteLogging(name, object)
		}
		c.policies.lookAt(name)
		c.lookAtServicesOf(name)
		delete(c.egress.candidates, name)
		if len(c.egress.all) == 0 {
			continue
		}
		for key, p := range c.pods {
			if p.object.Namespace == name {
				c.reselect(key, p)
			}
		}
	}
}

// selecting are the EgressIPs that select a namespace, the oldest first.
func (c *cluster) selecting(namespace string) []*egressState {
	list, known := c.egress.candidates[namespace]
	if known {
		return list
	}
	set, there := c.egress.namespaces[namespace]
	if !there || len(c.egress.order) == 0 {
		return nil
	}
	for _, e := range c.egress.order {
		if e.object.wrong == "" && e.object.namespaces.Matches(set) {
			list = append(list, e)
		}
	}
	c.egress.candidates[namespace] = list
	return list
}

// reselect decides with whose addresses a pod leaves, of each family the oldest EgressIP that selects it.
func (c *cluster) reselect(name string, p *podState) {
	var now [2]*egressState
	for _, e := range c.selecting(p.object.Namespace) {
		if !e.object.pods.Matches(p.object.labels) {
			continue
		}
		for _, ipv4 := range []bool{true, false} {
			if now[family2(ipv4)] == nil && e.wants(ipv4) {
				now[family2(ipv4)] = e
			}
		}
	}
	if now != p.egress {
		c.leaveBy(p, now)
		c.dirtyPods[name] = struct{}{}
	}
}

// leaveBy keeps the EgressIPs' numbers of pods.
func (c *cluster) leaveBy(p *podState, now [2]*egressState) {
	count := func(pair [2]*egressState, by int) {
		for i, e := range pair {
			if e != nil && (i == 0 || pair[0] != e) {
				e.pods += by
				c.countLater(e)
			}
		}
	}
	count(p.egress, -1)
	count(now, 1)
	p.egress = now
}

// countLater has the status tell the number of pods after a while: pods come and go in numbers.
func (c *cluster) countLater(e *egressState) {
	if !e.counting && c.egress.all[e.object.Name] == e {
		e.counting = true
		c.expect(objectKey{countKind, e.object.Name})
	}
}

// egressMembers puts a pod's addresses into the sets that its EgressIPs' policies ask.
func egressMembers(p *podState, change *ovsdb.Change) {
	r := rows{Change: *change}
	for _, address := range p.addresses {
		if e := p.egress[family2(address.Addr().Is4())]; e != nil {
			r.member(nb.AddressSetTable, egressSetID(e.object.Name, address.Addr().Is4()), "addresses", address.Addr().String())
			r.member(nb.AddressSetTable, egressPodsID(address.Addr().Is4()), "addresses", address.Addr().String())
		}
	}
	*change = r.Change
}

// settleEgress plans anew what may have changed, and has the statuses say so.
func (c *cluster) settleEgress() {
	for name := range c.dirtyPods {
		if p := c.pods[name]; p != nil {
			c.reselect(name, p)
		}
	}
	book := &c.egress
	if book.replan || len(book.stale) > 0 {
		c.planAgain()
	}
	if !book.replan && len(book.turned) > 0 {
		c.chooseAgain(book.turned)
	}
	book.replan, book.turned = false, nil
	empty(&book.stale)
	for _, name := range slices.Sorted(maps.Keys(book.untold)) {
		if e := book.all[name]; e != nil {
			c.noteEgress(e)
		}
	}
	empty(&book.untold)
}

// planAgain decides anew for the EgressIPs that are stale, or for all. What a Service has of an AddressPool stays the
// Service's: its clients outside know it. Of two EgressIPs the older is right.
func (c *cluster) planAgain() {
	book := &c.egress
	if len(book.order) == 0 {
		return
	}
	taken := c.outsideAddresses()
	for _, e := range book.order {
		for _, addr := range e.object.addresses {
			if holder, ok := c.balancers.held[addr]; ok {
				taken[addr] = "Service " + holder
			}
		}
		if _, stale := book.stale[e]; stale || book.replan {
			c.follows(e, c.planEgress(e, taken))
		}
		for _, addr := range e.object.addresses {
			if _, other := taken[addr]; !other {
				taken[addr] = "EgressIP " + e.object.Name
			}
		}
	}
}

// chooseAgain decides anew for the EgressIPs that choose among some nodes.
func (c *cluster) chooseAgain(nodes []*nodeState) {
	for _, e := range c.egress.order {
		if slices.ContainsFunc(nodes, func(n *nodeState) bool { return slices.Contains(e.standing, n) }) {
			c.follows(e, c.choose(e))
		}
	}
}

// follows has an EgressIP's rows and status follow a plan.
func (c *cluster) follows(e *egressState, plan egressPlan) {
	if !plan.equal(e.plan) {
		e.plan = plan
		c.egress.dirty[e.object.Name] = struct{}{}
	}
	c.egress.untold[e.object.Name] = struct{}{}
}

func (p egressPlan) equal(o egressPlan) bool {
	return p.reason == o.reason && p.message == o.message && slices.Equal(p.members, o.members) && slices.Equal(p.names, o.names) &&
		p.gateway.Network == o.gateway.Network && p.gateway.MAC == o.gateway.MAC &&
		slices.Equal(p.gateway.Addresses, o.gateway.Addresses) && slices.Equal(p.gateway.NextHops, o.gateway.NextHops)
}

// outsideAddresses are those that nobody else may have, and whose they are.
func (c *cluster) outsideAddresses() map[netip.Addr]string {
	taken := map[netip.Addr]string{}
	add := func(list []netip.Addr, whose string) {
		for _, addr := range list {
			taken[addr] = whose
		}
	}
	for at := range c.apiServers {
		taken[at.Addr()] = "the API server"
	}
	for _, name := range c.nodeNames {
		n := c.nodes[name]
		if g := n.facts.Gateway; g != nil {
			add(g.NextHops, "a next hop of Node "+name)
			add(contract.Addrs(g.Addresses), "Node "+name)
		}
		add(n.facts.Addresses, "Node "+name)
	}
	if g := c.settings.shared; g != nil {
		add(g.NextHops, "a next hop of the shared gateway (shared-gateway-next-hops)")
		add(contract.Addrs(g.Addresses), "the shared gateway (shared-gateway-addresses)")
	}
	return taken
}

// clusterRange is one of the cluster's own ranges that an address is in, and its key.
func (s *settings) clusterRange(overlaps func(netip.Prefix) bool) (key string, in netip.Prefix, ok bool) {
	for _, own := range []struct {
		key  string
		list []netip.Prefix
	}{{"pod-cidrs", s.pods}, {"service-cidrs", s.services}, {"join-cidrs", s.joins}, {"weft's range", contract.OwnRanges[:]}} {
		for _, p := range own.list {
			if overlaps(p) {
				return own.key, p, true
			}
		}
	}
	return "", netip.Prefix{}, false
}
