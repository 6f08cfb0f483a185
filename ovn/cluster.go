package ovn

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// lookup finds the newest state of an object, nil when there is none any more.
type lookup func(event) any

// cluster is what the translation remembers between events: above all, what it has allocated. All of
// it follows from the Northbound's rows and the objects, or from the objects and their annotations
// alone where the Northbound is lost, so a new controller comes to the same rows. It is used by one
// goroutine.
//
// begin and update take objects in; changes, everything and the two reports take out what follows from them.
type cluster struct {
	*outbox
	*clock
	settings   *settings.Settings // its own: services follows the API server's ServiceCIDRs
	namespaces namespaceBook
	traits     map[string]nodeTraits // by node

	nodes     nodeBook
	pods      podBook
	services  serviceBook
	egress    egressBook
	balancers poolBook
	domains   domainBook
	policies  policyBook
}

func newCluster(s *settings.Settings) *cluster {
	own := *s
	c := &cluster{outbox: newOutbox(), clock: &clock{}, settings: &own, namespaces: namespaceBook{}, traits: map[string]nodeTraits{}}
	c.nodes = newNodeBook(c.outbox, c.settings, c, &c.nodes, &c.pods)
	c.pods = newPodBook(c.outbox, c, &c.nodes, &c.services, &c.policies)
	c.services = newServiceBook(c.outbox, c.settings, c, &c.nodes, &c.pods, &c.balancers)
	c.egress = newEgressBook(c.outbox, c.settings, c.nodes.ids, c, &c.nodes, &c.pods, c.namespaces, &c.balancers)
	c.balancers = newPoolBook(c.outbox, c.settings, c, &c.nodes, c.namespaces, &c.services, &c.egress)
	c.domains = newDomainBook(c.outbox, c.settings, c.clock, &c.services)
	c.policies = newPolicyBook(c.outbox, c.settings, c.clock, &c.nodes, &c.pods, c.namespaces, &c.domains)
	return c
}

// begin takes in all that there is at the start of a term, and what earlier terms have decided.
func (c *cluster) begin(r records, keys []event, get lookup) {
	c.nodes.recorded, c.pods.recorded, c.pods.beginning = r.nodes, r.pods, true
	c.egress.claim(r.egress)
	c.nodes.tunnels.claim(r.nodes, keys, get)
	c.update(keys, get)
	c.egress.forget()
	c.pods.beginning = false
}

// update takes in the newest state of the objects that events name, and what signals ask for. The result does not
// depend on the order of events: what is given up comes first, then what was allocated before, then what is new.
func (c *cluster) update(events []event, get lookup) {
	by, settled, hosting := [objects.Kinds][]string{}, map[string]struct{}{}, []signal(nil)
	for _, e := range events {
		switch e := e.(type) {
		case objects.Key:
			by[e.Kind] = append(by[e.Kind], e.Name)
		case signal:
			switch e.what {
			case selectionSignal:
				settled[e.name] = struct{}{}
			case egressHostingSignal, livenessSignal:
				hosting = append(hosting, e)
			case subnetsOverdueSignal:
				if c.nodes.overdue(e.name) {
					by[objects.NodeKind] = append(by[objects.NodeKind], e.name)
				}
			default:
				c.follow(e)
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(settled)) { // a step each, however often it is asked for
		c.policies.selections.settle(text)
	}
	for k := range by {
		slices.Sort(by[k])
		by[k] = slices.Compact(by[k])
	}
	c.services.updateServiceCIDRs(by[objects.ServiceCIDRKind], get)
	c.followNodes(c.nodes.update(by[objects.NodeKind], get))
	c.services.settleRanges()
	c.updateNamespaces(by[objects.NamespaceKind], get)
	c.egress.update(by[objects.EgressKind], get)
	c.balancers.update(by[objects.PoolKind], get)
	for k := objects.NetworkPolicyKind; k <= objects.BaselinePolicyKind; k++ {
		c.policies.update(k, by[k], get)
	}
	c.domains.update(by[objects.ResolvedKind], get)
	c.pods.update(by[objects.PodKind], get)
	c.services.update(by[objects.SliceKind], by[objects.ServiceKind], get)
	for _, s := range hosting {
		c.updateHosting(s, get)
	}
	c.domains.settle()
	c.balancers.changed = c.balancers.changed || c.egress.replan // what EgressIPs follow from, addresses of pools do
	c.balancers.settle(c.services.dirty)
	c.egress.settle(c.pods.touched())
	c.policies.settle(c.pods.touched())
}

// follow does what a signal asks for that does not wait for objects.
func (c *cluster) follow(s signal) {
	switch s.what {
	case topologySignal:
		c.nodes.dirtyTopology = true
	case sharedGatewaySignal:
		c.nodes.dirtyGateway = true
	case egressNodesSignal:
		c.egress.dirtyNodes = true
	case livenessPortsSignal:
		c.balancers.alive.dirty = true
	case policiesSignal:
		c.policies.dirtyCommon = true
	case flushSignal, lateFlushSignal:
		c.services.flushes.again(s.name, slices.Index(flushSignals[:], s.what))
	case domainSignal, instantSignal:
		c.domains.refresh(s)
	case nodeSetSignal:
		c.policies.settleNodeSet(policy.Nodes(s.name))
	case countSignal:
		c.egress.countNow(s.name)
	case rowsSignal:
		c.makeAgain(ovsdb.Owner(s.name))
	case addressesOverdueSignal:
		c.balancers.missAddresses(s.name)
	}
}

// makeAgain has the rows of an owner made again.
func (c *cluster) makeAgain(owner ovsdb.Owner) {
	switch k, _ := ownerKey(owner); k.Kind {
	case objects.EgressKind:
		c.egress.dirty[k.Name] = struct{}{}
	case objects.NetworkPolicyKind, objects.ClusterPolicyKind, objects.AdminPolicyKind, objects.BaselinePolicyKind:
		c.policies.dirty[k] = struct{}{}
		c.policies.all[k].forgetNote()
	}
}

func (c *cluster) topologyChange() ovsdb.Change { return topologyChange(c.settings, c.nodes.zones) }

func (c *cluster) gatewayChange() ovsdb.Change {
	return gatewayChange(c.settings, c.nodes.gatewayMembers())
}

func (c *cluster) nodeChange(name string) ovsdb.Change {
	if n := c.nodes.all[name]; n != nil && n.placed {
		change := nodeChange(c.settings, &n.placement, c.nodes.hasGateway())
		announceOn(&change, n.facts.Gateway, c.balancers.announces(name))
		c.policies.nodeMembers(n, &change)
		if len(c.policies.all) > 0 {
			admitHost(n, &change)
		}
		return change
	}
	return ovsdb.Change{Owner: northbound.NodeOwner(name)}
}

func (c *cluster) podChange(name string) ovsdb.Change {
	if p := c.pods.all[name]; p != nil && len(p.addresses) > 0 && !c.policies.lacks(p.object.Namespace) {
		taken := func(wanted objects.Claim) bool { return c.pods.keptFrom(p, wanted) }
		change := podChange(c.settings, p.object, p.addresses, &p.node.placement, taken)
		egressMembers(p, &change)
		policyMembers(p, &change)
		p.there = true
		return change
	}
	return ovsdb.Change{Owner: northbound.PodOwner(name)}
}

// object is the Kubernetes object that an owner's rows are for, nil when it is not known.
func (c *cluster) object(k objects.Key) *metav1.ObjectMeta {
	switch k.Kind {
	case objects.NodeKind:
		if n := c.nodes.all[k.Name]; n != nil && n.object != nil {
			return &n.object.ObjectMeta
		}
	case objects.PodKind:
		if p := c.pods.all[k.Name]; p != nil {
			return &p.object.ObjectMeta
		}
	case objects.ServiceKind:
		if s := c.services.all[k.Name]; s != nil && s.object != nil {
			return &s.object.ObjectMeta
		}
	case objects.ServiceCIDRKind:
		if o := c.services.serviceCIDRs[k.Name]; o != nil {
			return &o.ObjectMeta
		}
	case objects.EgressKind:
		if e := c.egress.all[k.Name]; e != nil {
			return &e.object.ObjectMeta
		}
	case objects.NetworkPolicyKind, objects.ClusterPolicyKind, objects.AdminPolicyKind, objects.BaselinePolicyKind:
		if p := c.policies.all[k]; p != nil {
			return &p.object.ObjectMeta
		}
	}
	return nil
}

// followNodes takes in what other rows follow from: which nodes run Windows, and which carry or use the
// shared gateway. Then the nodes' owners are told what is wrong, which may depend on all of them.
func (c *cluster) followNodes(touched []*nodeState) {
	before := c.nodes.hasGateway()
	for _, n := range touched {
		c.nodes.updateDatapath(n)
		c.nodes.updateZone(n)
		c.nodes.updateGateway(n)
		c.balancers.outside.update(n)
		c.services.updateHosts(n)
		c.services.updateOccupants(n)
	}
	c.services.updateEntrances(touched)
	c.noteTraits(touched)
	if c.nodes.hasGateway() != before {
		for _, name := range slices.Sorted(maps.Keys(c.nodes.sharers)) {
			c.nodes.dirty[name] = struct{}{}
			touched = append(touched, c.nodes.all[name])
		}
	}
	for _, n := range touched {
		if n.object != nil {
			c.tell(northbound.NodeOwner(n.name), slices.Concat(n.problems, c.nodes.gatewayProblems(n), n.datapathProblems())...)
		}
	}
}
