package ovn

import (
	"slices"

	"github.com/weftnet/weft/ovn/claims"
	"github.com/weftnet/weft/ovn/domains"
	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/flushes"
	"github.com/weftnet/weft/ovn/namespaces"
	"github.com/weftnet/weft/ovn/nodes"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pods"
	"github.com/weftnet/weft/ovn/policies"
	"github.com/weftnet/weft/ovn/pools"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/servicecidrs"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// cluster is what the translation remembers between events: above all, what it has allocated. All of it follows from
// the Northbound's rows and the objects, or from the objects and their annotations alone where the Northbound is lost.
// So a new controller comes to the same rows. It is used by one goroutine.
//
// begin and update take objects in. takeChanges and takeEverything hand out the rows that follow from them, and the
// outbox what else does.
type cluster struct {
	*part.Outbox
	*part.Clock
	settings *settings.Settings         // its own: the ranges of ClusterIPs follow the API server's ServiceCIDRs
	traits   map[string]topology.Traits // by node

	nodes        *nodes.Part
	topology     topology.Cluster
	gateway      topology.SharedGateway
	serviceCIDRs *servicecidrs.Part
	namespaces   *namespaces.Part
	selections   *policies.Selections
	nodeSets     *policies.NodeSets
	policies     *policies.Part
	pods         pods.Part
	claims       *claims.Arbiter
	services     services.Part
	flushes      *flushes.Part
	pending      *services.Pending
	domains      *domains.Part
	liveness     *pools.Liveness
	pools        *pools.Part
	egress       egress.Part

	parts []wired
}

// wired is a part, the kinds of objects that it takes, and the first words of the owners whose rows it gives.
type wired struct {
	part.Part
	takes []*objects.Kind
	gives []string
}

type (
	takes = []*objects.Kind
	gives = []string
)

func newCluster(s *settings.Settings) *cluster {
	own := *s
	c := &cluster{Outbox: part.NewOutbox(), Clock: &part.Clock{}, settings: &own, traits: map[string]topology.Traits{}}
	out := c.Outbox
	c.nodes = nodes.New(out, c.settings, c, &c.pods)
	c.topology = topology.NewCluster(c.settings, c.zonesChanged)
	c.gateway = topology.NewSharedGateway(c.settings, c.nodes)
	c.serviceCIDRs = servicecidrs.New(out, c.settings, c, c.nodes)
	c.namespaces = namespaces.New(c)
	c.domains = domains.New(out, c.settings, c.Clock, &c.services)
	c.selections = policies.NewSelections(out, c.settings, c.pods.ForPolicies(), c.namespaces)
	c.nodeSets = policies.NewNodeSets(out, c.nodes)
	c.policies = policies.New(out, c.settings, c.Clock, c.nodes, c.pods.ForPolicies(), c.namespaces, c.domains,
		c.selections, c.nodeSets)
	c.claims = claims.New(c.settings, c.nodes, &c.services, &c.pods, holders{c})
	c.pods = pods.New(out, c.settings, c, c.nodes, &c.services, c.claims, c.policies)
	c.flushes = flushes.New(out)
	c.pending = services.NewPending(out, c.settings)
	c.services = services.New(out, c.settings, c, c.nodes, &c.pods, c.claims, c.flushes, c.pending)
	c.pools, c.liveness = pools.New(out, c.settings, c, c.nodes, c.namespaces, &c.services, c.claims, &c.egress)
	c.egress = egress.New(out, c.settings, c.nodes.Numbers(), c, c.nodes, c.pods.ForEgress(), c.namespaces, c.pools)

	// All that there is. Parts take in this order, and settle in the opposite one.
	//
	// Nodes take first, after what they are told by PodNetworks, since most depend on where they are, and Services last,
	// since they depend on most. Policies take before pods: the sets of a named port go a step at a time, each after the
	// pods of an earlier batch. EgressIPs settle after pools: they get no address that a Service has.
	c.parts = []wired{
		{c.pods.Networks(), takes{objects.PodNetworksKind}, nil},
		{c.nodes, takes{objects.NodeKind}, gives{"Node"}},
		{&c.topology, nil, gives{"Cluster"}},
		{&c.gateway, nil, gives{"Gateway"}},
		{c.serviceCIDRs, takes{objects.ServiceCIDRKind}, nil},
		{c.namespaces, takes{objects.NamespaceKind}, nil},
		{&c.egress, takes{objects.EgressKind}, gives{"EgressIP", "Egress"}},
		{c.pools, takes{objects.PoolKind}, nil},
		{c.liveness, nil, gives{"Alive"}},
		{c.selections, nil, gives{"Pods"}},
		{c.nodeSets, nil, gives{"Nodes"}},
		{c.policies, policies.Kinds, append(gives{"Policies"}, names(policies.Kinds)...)},
		{c.domains, takes{objects.ResolvedKind}, gives{"DomainName"}},
		{&c.pods, takes{objects.PodKind}, gives{"Pod"}},
		{&c.services, takes{objects.ServiceKind, objects.SliceKind}, gives{"Service"}},
		{c.flushes, nil, gives{"Flush"}},
		{c.pending, nil, nil},
	}
	return c
}

// kinds are those of all objects that the parts take.
func (c *cluster) kinds() (list []*objects.Kind) {
	for _, p := range c.parts {
		list = append(list, p.takes...)
	}
	return list
}

// owns says whether an owner is one that this version of Weft knows. It may be asked by any goroutine.
func (c *cluster) owns(owner ovsdb.Owner) bool {
	word, _ := part.Split(owner)
	return slices.ContainsFunc(c.parts, func(p wired) bool { return slices.Contains(p.gives, word) })
}

// keyOf names the object that an owner stands for. It is false for owners that are no object's.
func (c *cluster) keyOf(owner ovsdb.Owner) (k objects.Key, ok bool) {
	word, name := part.Split(owner)
	for _, p := range c.parts {
		for _, kind := range p.takes {
			if kind.String() == word {
				return objects.Key{Kind: kind, Name: name}, true
			}
		}
	}
	return k, false
}

// begin takes in all that there is at the start of a term, and what earlier terms have decided.
func (c *cluster) begin(r records.Records, keys []part.Event, get part.Lookup) {
	all := c.batch(keys, get)
	c.pods.Begin(r.Pods)
	c.egress.Claim(r.Egress)
	c.nodes.Begin(r.Nodes, all)
	c.take(all)
	c.egress.Forget()
	c.pods.Begun()
}

// update takes in the newest state of the objects that events name, and what signals ask for. The result does not
// depend on the order of events.
func (c *cluster) update(events []part.Event, get part.Lookup) { c.take(c.batch(events, get)) }

// batch is of the events that the parts are given.
func (c *cluster) batch(events []part.Event, get part.Lookup) *part.Batch {
	if len(c.settings.Zones) > 0 {
		events = c.withoutUnserved(events, get)
	}
	return part.NewBatch(events, get)
}

func (c *cluster) take(batch *part.Batch) {
	for _, p := range c.parts {
		p.Take(batch)
	}
	for _, p := range slices.Backward(c.parts) {
		p.Reconcile()
	}
}

// takeChanges hands out the changes of all owners that update has touched since the last call.
func (c *cluster) takeChanges() []ovsdb.Change { return c.handOut(false) }

// takeEverything hands out all that the Northbound must hold of Weft's.
func (c *cluster) takeEverything() []ovsdb.Change {
	return slices.DeleteFunc(c.handOut(true), func(change ovsdb.Change) bool { return len(change.Rows) == 0 })
}

// handOut has the parts know that these changes are made.
func (c *cluster) handOut(all bool) []ovsdb.Change {
	outcomes := c.outcomes(all)
	changes := make([]ovsdb.Change, len(outcomes))
	for i, o := range outcomes {
		changes[i] = o.Change
	}
	for _, o := range outcomes {
		if o.Then != nil {
			o.Then()
		}
	}
	for _, p := range c.parts {
		p.Clean()
	}
	return changes
}

// outcomes are those of the owners that are dirty, or of all, in the order in which their changes are to be made.
// Asking for them changes nothing.
func (c *cluster) outcomes(all bool) (list []part.Outcome) {
	var by [part.Stages][]part.Outcome
	count := 0
	for _, p := range c.parts {
		for at, owner := range p.Dirty(all) {
			o := p.Change(owner)
			if at == part.Sets && len(o.Rows) == 0 {
				at = part.UnusedSets
			}
			by[at] = append(by[at], o)
			count++
		}
	}
	list = make([]part.Outcome, 0, count)
	begun := false // the transaction of the stages that are made together
	for at, outcomes := range by {
		for _, o := range outcomes {
			together := part.Stage(at).Together()
			o.With, begun = together && begun, together
			list = append(list, o)
		}
	}
	return list
}

// names are those of kinds.
func names(kinds []*objects.Kind) (list []string) {
	for _, k := range kinds {
		list = append(list, k.String())
	}
	return list
}
