package ovn

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// lookup finds the newest state of an object, nil when there is none any more.
type lookup func(objectKey) any

// cluster is what the translation remembers between events: above all, what it has allocated. All of
// it follows from the Northbound's rows and the objects, or from the objects and their annotations
// alone where the Northbound is lost, so a new controller comes to the same rows. It is used by one
// goroutine.
//
// begin and update take objects in; changes, everything and the two reports take out what follows from them.
type cluster struct {
	settings  *settings      // its own: services follows the API server's ServiceCIDRs
	given     []netip.Prefix // the ranges of ClusterIPs that it was started with
	records   records        // what no object has claimed yet
	beginning bool
	clock     int64 // the time of the last events, in seconds since 1970

	nodes     map[string]*nodeState
	ids       *pool // node ID n is number n-1
	cuts      []*subnetAllocator
	nodeNames []string            // of the nodes that have a switch, sorted
	unsettled map[string]struct{} // nodes that something is wrong with
	vacated   bool                // a node has given up what one of those may have
	windows   map[string]struct{} // nodes that run Windows
	members   map[string]member   // nodes that carry the shared gateway
	sharers   map[string]struct{} // nodes that use it

	pods       map[string]*podState
	namespaces map[string]labelSet   // by name
	traits     map[string]nodeTraits // by node

	services     map[string]*serviceState
	serviceCIDRs map[string]*serviceCIDR
	occupants    occupants
	reoccupied   bool // the ranges of ClusterIPs are to be settled again
	claims       claimBook
	hosts        hostBook
	apiServers   map[netip.AddrPort]bool              // as the Service default/kubernetes has them
	hostPorted   map[numberedPort]map[string]struct{} // pods, by key
	sliceOf      map[string]string                    // slice → Service, by key
	perNode      map[string]struct{}                  // Services of which each node has rows of its own
	outward      map[string]struct{}                  // Services that have endpoints that may be hosts: their rows depend on those
	hinted       map[string]struct{}                  // Services that have endpoints with hints: their rows depend on zones, too
	zones        map[string][]string                  // nodes that have a switch by zone, sorted
	zoneOf       map[string]string
	gateways     entrances
	tunnels      tunnelHolders
	onlyOne      onlyOne
	entranceOf   map[string]entrance // by node that has a switch
	// sctp are Services with that protocol: their rows depend on which nodes' datapaths track it.
	sctp map[string]struct{}

	egress    egressBook
	balancers poolBook
	flushes   flushBook
	domains   domainBook
	policies  policyBook

	dirtyTopology, dirtyGateway          bool
	dirtyNodes, dirtyPods, dirtyServices map[string]struct{}

	*outbox
}

// serviceState is a Service, or nil, and its slices; either may come first.
type serviceState struct {
	object *service
	slices []*slice // sorted by name
}

func newCluster(s *settings) *cluster {
	own := *s
	c := &cluster{
		outbox: newOutbox(), settings: &own, given: s.services,
		nodes: map[string]*nodeState{}, ids: newPool(max(s.maxNodeID(), 0)), unsettled: map[string]struct{}{},
		windows: map[string]struct{}{}, members: map[string]member{}, sharers: map[string]struct{}{}, onlyOne: newOnlyOne(),
		pods: map[string]*podState{}, namespaces: map[string]labelSet{}, traits: map[string]nodeTraits{},
		services: map[string]*serviceState{}, serviceCIDRs: map[string]*serviceCIDR{}, claims: newClaimBook(), hosts: newHostBook(),
		apiServers: map[netip.AddrPort]bool{}, hostPorted: map[numberedPort]map[string]struct{}{}, sliceOf: map[string]string{},
		perNode: map[string]struct{}{}, outward: map[string]struct{}{}, hinted: map[string]struct{}{}, sctp: map[string]struct{}{},
		zones: map[string][]string{}, zoneOf: map[string]string{}, gateways: newEntrances(), entranceOf: map[string]entrance{},
		tunnels:    tunnelHolders{},
		dirtyNodes: map[string]struct{}{}, dirtyPods: map[string]struct{}{}, dirtyServices: map[string]struct{}{},
	}
	c.egress = newEgressBook(c.outbox, c.settings, c.ids, c)
	c.balancers = newPoolBook(c.outbox, c.settings, c)
	c.flushes = newFlushBook(c.outbox)
	c.domains = newDomainBook(c.outbox, c.settings, c)
	c.policies = newPolicyBook(c.outbox, c.settings, c)
	if s.allocate {
		for _, pods := range s.pods {
			c.cuts = append(c.cuts, newSubnetAllocator(pods, s.mask(pods)))
		}
	}
	return c
}

// begin takes in all that there is at the start of a term, and what earlier terms have decided.
func (c *cluster) begin(r records, keys []objectKey, get lookup) {
	c.records, c.beginning = r, true
	c.egress.claim(r.egress)
	c.claimTunnels(keys, get)
	c.update(keys, get)
	c.egress.forget()
	c.beginning = false
}

// update takes in the newest state of the objects that keys name. The result does not depend on the
// order of keys: what is given up comes first, then what was allocated before, then what is new.
func (c *cluster) update(keys []objectKey, get lookup) {
	by, hosting, settled := [kinds][]string{}, []objectKey(nil), map[string]struct{}{}
	for _, k := range keys {
		switch k.kind {
		case topologyKind:
			c.dirtyTopology = true
		case gatewayKind:
			c.dirtyGateway = true
		case egressNodesKind:
			c.egress.dirtyNodes = true
		case aliveNodesKind:
			c.balancers.dirtyAlive = true
		case flushKind, lateFlushKind:
			c.flushes.again(k.name, slices.Index(flushKinds[:], k.kind))
		case domainKind, instantKind:
			c.domains.refresh(k)
		case policiesKind:
			c.policies.dirtyCommon = true
		case selectionKind:
			settled[k.name] = struct{}{}
		case nodeSetKind:
			c.policies.settleNodeSet(policy.Nodes(k.name))
		case countKind:
			c.egress.countNow(k.name)
		case rowsKind:
			c.makeAgain(ovsdb.Owner(k.name))
		case carrierKind, aliveKind:
			hosting = append(hosting, k)
		case overdueKind:
			if n := c.nodes[k.name]; n != nil && n.expects == expecting {
				n.expects = overdue
				by[nodeKind] = append(by[nodeKind], k.name)
			}
		case addresslessKind:
			c.balancers.missAddresses(k.name)
		default:
			by[k.kind] = append(by[k.kind], k.name)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(settled)) { // a step each, however often it is asked for
		c.policies.settleSelection(text)
	}
	for k := range by {
		slices.Sort(by[k])
		by[k] = slices.Compact(by[k])
	}
	c.updateServiceCIDRs(by[serviceCIDRKind], get)
	c.updateNodes(by[nodeKind], get)
	if c.reoccupied {
		c.settleServices()
	}
	c.updateNamespaces(by[namespaceKind], get)
	c.egress.update(by[egressKind], get)
	c.balancers.update(by[poolKind], get)
	for k := networkPolicyKind; k <= baselinePolicyKind; k++ {
		c.policies.update(k, by[k], get)
	}
	c.domains.update(by[resolvedKind], get)
	c.updatePods(by[podKind], get)
	for _, name := range by[sliceKind] {
		object, _ := get(objectKey{sliceKind, name}).(*slice)
		c.updateSlice(name, object)
	}
	for _, name := range by[serviceKind] {
		object, _ := get(objectKey{serviceKind, name}).(*service)
		c.updateService(name, object)
	}
	for _, k := range hosting {
		c.updateHosting(k, get)
	}
	c.domains.settle()
	c.balancers.changed = c.balancers.changed || c.egress.replan // what EgressIPs follow from, addresses of pools do
	c.balancers.settle(c.dirtyServices)
	c.egress.settle(c.touchedPods())
	c.policies.settle(c.touchedPods())
}

// makeAgain has the rows of an owner made again.
func (c *cluster) makeAgain(owner ovsdb.Owner) {
	switch k, _ := ownerKey(owner); k.kind {
	case egressKind:
		c.egress.dirty[k.name] = struct{}{}
	case networkPolicyKind, clusterPolicyKind, adminPolicyKind, baselinePolicyKind:
		c.policies.dirty[k] = struct{}{}
		c.policies.all[k].forgetNote()
	}
}

func (c *cluster) updateService(name string, object *service) {
	state := c.service(name)
	state.object = object
	delete(c.perNode, name)
	if object != nil && (object.internalLocal || object.externalLocal || object.clientIP && len(object.nodePorts) > 0) {
		c.perNode[name] = struct{}{}
	}
	delete(c.sctp, name)
	if object != nil && !object.ignored && object.uses("sctp") {
		c.sctp[name] = struct{}{}
	}
	c.dirtyServices[name] = struct{}{}
	c.updateClaims(name, object)
	c.balancers.expectAddresses(name, object)
	c.forgetService(name)
}

func (c *cluster) updateSlice(name string, object *slice) {
	if before, ok := c.sliceOf[name]; ok {
		state := c.services[before]
		state.slices = slices.DeleteFunc(state.slices, func(s *slice) bool { return key(s.Namespace, s.Name) == name })
		delete(c.sliceOf, name)
		c.dirtyServices[before] = struct{}{}
		c.followSlices(before, state)
		c.forgetService(before)
	}
	if object == nil || object.ignored {
		return
	}
	owner := key(object.Namespace, object.service)
	state := c.service(owner)
	i, _ := slices.BinarySearchFunc(state.slices, object, func(a, b *slice) int { return cmp.Compare(a.Name, b.Name) })
	state.slices = slices.Insert(state.slices, i, object)
	c.sliceOf[name] = owner
	c.followSlices(owner, state)
	c.dirtyServices[owner] = struct{}{}
}

// followSlices takes in what other rows follow from of a Service's slices.
func (c *cluster) followSlices(name string, state *serviceState) {
	c.updateHinted(name, state)
	c.updateOutward(name, state)
	c.domains.updateSlices(name)
	if name == apiServer {
		c.updateAPIServers(state)
	}
}

func (c *cluster) service(name string) *serviceState {
	state := c.services[name]
	if state == nil {
		state = &serviceState{}
		c.services[name] = state
	}
	return state
}

// forgetService drops a Service's state once neither it nor a slice of it is left.
func (c *cluster) forgetService(name string) {
	if s := c.services[name]; s != nil && s.object == nil && len(s.slices) == 0 {
		delete(c.services, name)
	}
}

func (c *cluster) topologyChange() ovsdb.Change { return topologyChange(c.settings, c.zones) }

func (c *cluster) gatewayChange() ovsdb.Change { return gatewayChange(c.settings, c.gatewayMembers()) }

func (c *cluster) nodeChange(name string) ovsdb.Change {
	if n := c.nodes[name]; n != nil && n.placed {
		change := nodeChange(c.settings, &n.placement, c.hasGateway())
		announceOn(&change, n.facts.Gateway, c.balancers.announces(name))
		c.policies.nodeMembers(n, &change)
		if len(c.policies.all) > 0 {
			admitHost(n, &change)
		}
		return change
	}
	return ovsdb.Change{Owner: nodeOwner(name)}
}

func (c *cluster) podChange(name string) ovsdb.Change {
	if p := c.pods[name]; p != nil && len(p.addresses) > 0 && !c.policies.lacks(p.object.Namespace) {
		taken := func(wanted claim) bool { return c.keptFrom(p, wanted) }
		change := podChange(p.object, p.addresses, &p.node.placement, taken)
		egressMembers(p, &change)
		policyMembers(p, &change)
		p.there = true
		return change
	}
	return ovsdb.Change{Owner: podOwner(name)}
}

func (c *cluster) serviceChange(name string) ovsdb.Change {
	s := c.services[name]
	if s == nil || s.object == nil || s.object.ignored {
		var found []problem
		if s != nil && s.object != nil {
			found = addressProblems(s.object) // it may be ignored for these
		}
		c.tell(serviceOwner(name), found...)
		c.claims.tell(name, nil)
		c.flushes.follow(name, nil)
		return ovsdb.Change{Owner: serviceOwner(name)}
	}
	on := c.nodeSet()
	object, found := c.judge(name, s.object)
	c.claims.tell(name, object.denied)
	change, to := sized(object, s.slices, on)
	c.tell(serviceOwner(name), slices.Concat(found, addressProblems(object), sizeProblems(object, s.slices, to),
		sliceProblems(object, s.slices), tunnelProblems(object, s.slices, on),
		datapathProblems(object, on), affinityProblems(object), sourceProblems(object),
		unservedProblems("Service", &object.ObjectMeta, object.asked))...)
	c.flushes.follow(name, flushedPaths(change.Rows))
	return change
}

func (c *cluster) nodeSet() *nodeSet {
	return &nodeSet{names: c.nodeNames, gateways: c.gateways.names, windows: c.windows, zones: c.zones, zoneOf: c.zoneOf,
		hosts: c.gateways.hosts, widths: c.gateways.widths, own: c.gateways.own, announcer: c.balancers.announcer, balanced: c.balanced, pods: c.settings.pods}
}

// object is the Kubernetes object that an owner's rows are for, nil when it is not known.
func (c *cluster) object(k objectKey) *metav1.ObjectMeta {
	switch k.kind {
	case nodeKind:
		if n := c.nodes[k.name]; n != nil && n.object != nil {
			return &n.object.ObjectMeta
		}
	case podKind:
		if p := c.pods[k.name]; p != nil {
			return &p.object.ObjectMeta
		}
	case serviceKind:
		if s := c.services[k.name]; s != nil && s.object != nil {
			return &s.object.ObjectMeta
		}
	case serviceCIDRKind:
		if o := c.serviceCIDRs[k.name]; o != nil {
			return &o.ObjectMeta
		}
	case egressKind:
		if e := c.egress.all[k.name]; e != nil {
			return &e.object.ObjectMeta
		}
	case networkPolicyKind, clusterPolicyKind, adminPolicyKind, baselinePolicyKind:
		if p := c.policies.all[k]; p != nil {
			return &p.object.ObjectMeta
		}
	}
	return nil
}
