package ovn

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
)

// nodeState is a node as far as it is known: pods may name it before it is there, and after.
type nodeState struct {
	placement
	object   *node
	placed   bool // it has an ID and subnets, hence a switch
	problems []problem
	// expects is whether it waits for its subnets; a Node is there a moment before they are.
	expects expectation
	pools   []*subnetPool
	// pods are the pods bound to it that want a port, by key; waiting are those of them that
	// found no free address.
	pods    map[string]*podState
	waiting map[string]struct{}
	// hostPorted are those of pods that want a port of the host, by key; of all its addresses where the claim has none.
	hostPorted map[claim]map[string]struct{}
	wanted     []netip.Addr // tunnels may end at those that no other node has
}

type expectation int

const (
	nothing expectation = iota
	expecting
	overdue
)

func (c *cluster) node(name string) *nodeState {
	n := c.nodes[name]
	if n == nil {
		n = &nodeState{placement: placement{name: name}, pods: map[string]*podState{}, waiting: map[string]struct{}{}, hostPorted: map[claim]map[string]struct{}{}}
		c.nodes[name] = n
	}
	return n
}

// forgetNode drops a node's state once neither it nor a pod of it is left.
func (c *cluster) forgetNode(n *nodeState) {
	if n.object == nil && len(n.pods) == 0 {
		delete(c.nodes, n.name)
	}
}

// updateNodes gives up the nodes that are gone, then places those that have been placed before, then
// the new ones, and then those that another node stood in the way of, if one has given something up.
func (c *cluster) updateNodes(names []string, get lookup) {
	var gone, known, unknown, others []*nodeState
	for _, name := range names {
		object, _ := get(objectKey{nodeKind, name}).(*node)
		c.dirtyNodes[name] = struct{}{}
		n := c.node(name)
		n.object = object
		switch {
		case object == nil:
			c.tell(nodeOwner(name))
			delete(c.unsettled, name)
			c.unplace(n)
			n.facts, n.outside = contract.NodeFacts{}, ""
			c.takeTunnels(n)
			n.expects = nothing
			delete(c.records.nodes, name)
			c.forgetNode(n)
			gone = append(gone, n)
		case n.placed || c.recorded(n) || object.network != "":
			known = append(known, n)
		default:
			unknown = append(unknown, n)
		}
	}
	c.rank(known)
	c.rank(unknown)
	for _, n := range append(known, unknown...) {
		c.place(n)
	}
	if len(names) > 0 && c.vacated {
		c.vacated = false
		for name := range c.unsettled {
			if _, named := slices.BinarySearch(names, name); !named {
				c.dirtyNodes[name] = struct{}{}
				others = append(others, c.nodes[name])
			}
		}
		c.rank(others)
		for _, n := range others {
			c.place(n)
		}
	}
	c.follow(slices.Concat(gone, known, unknown, others))
}

// follow takes in what other rows follow from: which nodes run Windows, and which carry or use the
// shared gateway. Then the nodes' owners are told what is wrong, which may depend on all of them.
func (c *cluster) follow(touched []*nodeState) {
	before := c.hasGateway()
	for _, n := range touched {
		c.updateDatapath(n)
		c.updateZone(n)
		c.updateGateway(n)
		c.balancers.updateNetworks(n)
		c.services.updateHosts(n)
		c.services.updateOccupants(n)
	}
	c.services.updateEntrances(touched)
	c.noteTraits(touched)
	if c.hasGateway() != before {
		for _, name := range slices.Sorted(maps.Keys(c.sharers)) {
			c.dirtyNodes[name] = struct{}{}
			touched = append(touched, c.nodes[name])
		}
	}
	for _, n := range touched {
		if n.object != nil {
			c.tell(nodeOwner(n.name), slices.Concat(n.problems, c.gatewayProblems(n), n.datapathProblems())...)
		}
	}
}

func (c *cluster) recorded(n *nodeState) bool {
	_, ok := c.records.nodes[n.name]
	return ok
}

// rank orders nodes by who is right when two claim the same: first those whose chassis is what the
// Northbound has for them, and of these those whose gateway is, then those that the Northbound knows at all,
// then the older.
func (c *cluster) rank(list []*nodeState) {
	doubt := make(map[*nodeState]int, len(list))
	for _, n := range list {
		record, ok := c.records.nodes[n.name]
		facts, err := parseFacts(n.object.facts)
		switch {
		case !ok:
			doubt[n] = 3
		case err != nil || facts.Chassis != record.chassis:
			doubt[n] = 2
		case !record.hasGateway(facts.Gateway):
			doubt[n] = 1
		}
	}
	slices.SortFunc(list, func(a, b *nodeState) int {
		return cmp.Or(doubt[a]-doubt[b], older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.name, b.name))
	})
}

// place decides a node's ID and subnets, or says why it cannot.
func (c *cluster) place(n *nodeState) {
	n.problems = nil
	complain := func(reason, format string, args ...any) {
		n.problems = append(n.problems, problemf("Node", &n.object.ObjectMeta, reason, format, args...))
	}
	placed, vacated := n.placed, c.vacated
	defer func() {
		if !placed && !n.placed { // what it gave up it had only just taken
			c.vacated = vacated
		}
		delete(c.unsettled, n.name)
		if len(n.problems) > 0 {
			c.unsettled[n.name] = struct{}{}
		}
	}()

	chassis := n.chassis()
	for _, err := range n.takeFacts(c.settings) {
		complain("BadNodeFacts", "%v; remove the annotation, the node's agent writes it anew", err)
	}
	c.joinOutside(n, complain)
	c.refuseCopies(n, complain)
	c.takeTunnels(n)
	had, err := c.recallNode(n)
	if err != nil {
		complain("BadNodeNetwork", "%v; it is written anew", err)
	}
	subnets, err := c.subnets(n, had.PodCIDRs)
	if err != nil {
		if !errors.Is(err, errNoSubnets) || c.late(n) {
			complain("NoPodSubnet", "%v", err)
		}
		c.unplace(n)
		return
	}
	if !n.placed || !slices.Equal(n.subnets, subnets) {
		c.settle(n, subnets)
	}
	if n.id == 0 {
		if n.id, err = c.takeID(had.ID); err != nil {
			complain("NoNodeID", "%v", err)
			c.unplace(n)
			return
		}
	}
	if !n.placed {
		n.placed = true
		n.expects = nothing
		delete(c.records.nodes, n.name)
		i, _ := slices.BinarySearch(c.nodeNames, n.name)
		c.nodeNames = slices.Insert(c.nodeNames, i, n.name)
		c.services.touchPlaced()
	}
	c.vacated = c.onlyOne.take(n) || c.vacated
	if n.chassis() != chassis {
		c.touchPods(n)
	}
	c.noteNode(n)
}

// refuseCopies takes from a node what another one was first with.
func (c *cluster) refuseCopies(n *nodeState, complain func(reason, format string, args ...any)) {
	if other := c.sameChassis(n); other != "" {
		complain("DuplicateChassis", "its chassis name %s is also that of Node %s, as on copied machines; the node has no gateway and its pods no network until each has a name of its own (external_ids:system-id in its Open vSwitch database)",
			quoted(n.facts.Chassis), other)
		n.facts, n.outside = contract.NodeFacts{OS: n.facts.OS}, ""
	}
	if other, field, remedy := c.sameGateway(n); other != "" {
		complain("DuplicateGateway", "annotation %s: %s is also that of the gateway of Node %s, which keeps it; the node has no gateway, and its pods reach nothing outside of the cluster; %s, or delete Node %s if it is gone",
			contract.NodeFactsAnnotation, field, other, remedy, other)
		n.facts.Gateway, n.outside = nil, ""
	}
}

// recallNode finds what a node has had: what the Northbound says, else what its annotation says.
func (c *cluster) recallNode(n *nodeState) (contract.NodeNetwork, error) {
	had, err := parse[contract.NodeNetwork](contract.NodeNetworkAnnotation, n.object.network)
	if record, ok := c.records.nodes[n.name]; ok {
		had.PodCIDRs = record.subnets
		if id := record.id(c.settings); id > 0 {
			had.ID = id
		}
	}
	return had, err
}

// takeFacts reads what the node's agent says. What cannot be read changes nothing: the chassis that the
// node's pods are bound to is better than none. Of what can be read, bad parts are left out.
func (n *nodeState) takeFacts(s *settings) (errs []error) {
	facts, err := parseFacts(n.object.facts)
	if err != nil {
		n.os = cmp.Or(n.facts.OS, n.object.os, contract.Linux)
		return []error{err}
	}
	n.os = cmp.Or(n.object.os, contract.Linux)
	check := func(err error, without string) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("annotation %s: %w; %s", contract.NodeFactsAnnotation, err, without))
		}
		return err != nil
	}
	if check(checkOS(facts.OS), "the node is taken for one of "+n.os+", as its label "+corev1.LabelOSStable+" says") {
		facts.OS = ""
	}
	if check(checkHosted(facts.Hosted), "no chassis host can connect its ovn-controller to the node") {
		facts.Hosted = nil
	}
	first := fmt.Sprintf("the first %d count", contract.MostOfFacts)
	check(tooMany("addresses", &facts.Addresses), first)
	check(tooMany("listeners", &facts.Listeners), first)
	if g := facts.Gateway; g != nil {
		check(tooMany("gateway.addresses", &g.Addresses), first)
		check(tooMany("gateway.nextHops", &g.NextHops), first)
	}
	if check(checkGateway(facts.Gateway, s), "the node has no gateway") {
		facts.Gateway = nil
	}
	if g := facts.Gateway; g != nil {
		g.NextHops = slices.DeleteFunc(g.NextHops, func(next netip.Addr) bool {
			return check(checkNextHop(g, next), "the node has no default route by it")
		})
	}
	check(checkNodePorts(facts), fmt.Sprintf("NodePorts are served on its gateway's and the first %d of a family; on the others the node's agent serves its host and clients outside, and no pods", maxNodePortAddresses))
	if facts.Gateway != nil && facts.SharedGateway {
		check(errors.New("gateway and sharedGateway exclude each other"), "the node has its own gateway")
		facts.SharedGateway = false
	}
	n.facts, n.os = facts, cmp.Or(facts.OS, n.os)
	return errs
}

var errNoSubnets = errors.New("the node has no spec.podCIDRs")

// late says whether a node has waited long enough for its subnets; at first it has not.
func (c *cluster) late(n *nodeState) bool {
	if n.expects == nothing {
		n.expects = expecting
		c.expect(objectKey{overdueKind, n.name})
	}
	return n.expects == overdue
}

// takeID prefers the ID that the node had before.
func (c *cluster) takeID(before int) (int, error) {
	if before > 0 && c.ids.claim(before-1) {
		return before, nil
	}
	id, ok := c.ids.take()
	if !ok {
		return 0, fmt.Errorf("all %d node numbers that join-cidrs %s has room for are taken; remove unused Nodes or make join-cidrs larger",
			c.ids.size, join(c.settings.joins))
	}
	return id + 1, nil
}

// subnets are the node's pod subnets: Kubernetes' where it allocates them, otherwise those it had
// before, otherwise new ones.
func (c *cluster) subnets(n *nodeState, recorded []netip.Prefix) ([]netip.Prefix, error) {
	if len(n.object.podCIDRs) > 0 {
		return c.givenSubnets(n)
	}
	if !c.settings.allocate {
		return nil, fmt.Errorf("%w, and weft does not allocate them; let kube-controller-manager do so (--allocate-node-cidrs, --cluster-cidr=%s) or set allocate-node-cidrs for weft",
			errNoSubnets, join(c.settings.pods))
	}
	if n.placed && len(n.subnets) == len(c.cuts) {
		return n.subnets, nil
	}
	subnets := make([]netip.Prefix, 0, len(c.cuts))
	for _, cut := range c.cuts {
		if before := family(recorded, cut.cluster.Addr()); before != nil && c.free(n, *before) == nil && cut.claim(before.Masked()) {
			subnets = append(subnets, before.Masked())
			continue
		}
		subnet, err := c.cut(n, cut)
		if err != nil {
			for _, s := range subnets {
				c.release(s)
			}
			return nil, err
		}
		subnets = append(subnets, subnet)
	}
	return subnets, nil
}

// cut takes the next subnet that no node has; one that Kubernetes gave in another size may cover it.
func (c *cluster) cut(n *nodeState, from *subnetAllocator) (netip.Prefix, error) {
	var covered []netip.Prefix
	defer func() { // free again as soon as what covers them is gone
		for _, subnet := range covered {
			from.release(subnet)
		}
	}()
	for {
		subnet, err := from.take()
		if err != nil {
			return subnet, fmt.Errorf("%w; remove unused Nodes, make pod-cidrs larger or the nodes' subnets smaller (node-cidr-mask-size-ipv4, node-cidr-mask-size-ipv6)", err)
		}
		if c.free(n, subnet) == nil {
			return subnet, nil
		}
		covered = append(covered, subnet)
	}
}

// givenSubnets checks spec.podCIDRs.
func (c *cluster) givenSubnets(n *nodeState) ([]netip.Prefix, error) {
	var v4, v6 []netip.Prefix
	for _, text := range n.object.podCIDRs {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("spec.podCIDRs: %q is not a CIDR; correct kube-controller-manager's --cluster-cidr and create the Node anew", text)
		}
		subnet = subnet.Masked()
		cluster := family(c.settings.pods, subnet.Addr())
		if cluster == nil || !cluster.Contains(subnet.Addr()) || subnet.Bits() < cluster.Bits() {
			return nil, fmt.Errorf("spec.podCIDRs: %s is not within pod-cidrs %s; give weft the same ranges as kube-controller-manager's --cluster-cidr",
				subnet, join(c.settings.pods))
		}
		if newSubnetPool(subnet).pool.size == 0 {
			return nil, fmt.Errorf("spec.podCIDRs: %s has no room for a pod; make the node subnets larger (kube-controller-manager's --node-cidr-mask-size)", subnet)
		}
		if !slices.Contains(n.subnets, subnet) { // nobody else is given what a node has
			if err := c.free(n, subnet); err != nil {
				return nil, err
			}
		}
		if subnet.Addr().Is4() {
			v4 = append(v4, subnet)
		} else {
			v6 = append(v6, subnet)
		}
	}
	if len(v4) > 1 || len(v6) > 1 {
		return nil, fmt.Errorf("spec.podCIDRs: %v holds more than one subnet of an address family; weft uses one of each", n.object.podCIDRs)
	}
	return append(v4, v6...), nil
}

// free says who else has a subnet, or part of it.
func (c *cluster) free(n *nodeState, subnet netip.Prefix) error {
	if other, ok := c.onlyOne.overlapping(subnet, n.name); ok {
		return fmt.Errorf("spec.podCIDRs: %s overlaps with %s of Node %s; create one of the two Nodes anew", subnet, other.Prefix, other.node)
	}
	return nil
}

// settle gives a node its subnets. Pods that had addresses of other subnets lose them.
func (c *cluster) settle(n *nodeState, subnets []netip.Prefix) {
	c.dropSubnets(n, subnets)
	n.subnets = subnets
	n.pools = nil
	for _, subnet := range subnets {
		n.pools = append(n.pools, newSubnetPool(subnet))
		for _, cut := range c.cuts {
			cut.claim(subnet)
		}
	}
}

// unplace takes everything from a node, and from its pods.
func (c *cluster) unplace(n *nodeState) {
	c.dropSubnets(n, nil)
	if n.id > 0 {
		c.ids.release(n.id - 1)
		c.vacated = true
	}
	n.id, n.subnets, n.pools = 0, nil, nil
	if n.placed {
		n.placed = false
		i, _ := slices.BinarySearch(c.nodeNames, n.name)
		c.nodeNames = slices.Delete(c.nodeNames, i, i+1)
		c.services.touchPlaced()
	}
	c.vacated = c.onlyOne.take(n) || c.vacated
}

func (c *cluster) dropSubnets(n *nodeState, keep []netip.Prefix) {
	for _, subnet := range n.subnets {
		if !slices.Contains(keep, subnet) {
			c.release(subnet)
			c.vacated = true
		}
	}
	for _, p := range n.pods {
		p.addresses = nil
	}
	c.touchPods(n)
}

func (c *cluster) release(subnet netip.Prefix) {
	for _, cut := range c.cuts {
		cut.release(subnet)
	}
}

// touchPods has the pods of a node looked at again by the updatePods that follows.
func (c *cluster) touchPods(n *nodeState) {
	for name := range n.pods {
		c.dirtyPods[name] = struct{}{}
	}
}

func (c *cluster) noteNode(n *nodeState) {
	network := contract.NodeNetwork{ID: n.id, PodCIDRs: n.subnets, ClusterCIDRs: c.settings.pods, ServiceCIDRs: c.settings.services, JoinCIDRs: c.settings.joins,
		HostPorts: c.settings.toldHostPorts, HostExternalIPs: c.settings.hostExternals, Hosts: c.settings.hosts}
	if c.settings.shared != nil {
		network.SharedGateways = contract.Addrs(c.settings.shared.Addresses)
	}
	value := contract.Format(network)
	if value != n.object.network {
		c.note(annotation{nodeKind, "", n.name, n.object.UID, contract.NodeNetworkAnnotation, value})
	}
}

func annotationMap(key, value string) map[string]string {
	if value == "" {
		return nil
	}
	return map[string]string{key: value}
}
