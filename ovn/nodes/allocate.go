package nodes

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
)

// state is a node as far as it is known: pods may name it before it is there, and after.
type state struct {
	topology.Node
	problems []objects.Problem
	// expects is whether it waits for its subnets; a Node is there a moment before they are.
	expects expectation
	wanted  []netip.Addr // tunnels may end at those that no other node has
}

type expectation int

const (
	nothing expectation = iota
	expecting
	overdue
)

func (b *Part) state(name string) *state {
	n := b.all[name]
	if n == nil {
		n = &state{Node: topology.Node{Name: name}}
		b.all[name] = n
	}
	return n
}

// Forget drops a node's state once neither it nor anything of its pods is left.
func (b *Part) Forget(name string) {
	if n := b.all[name]; n != nil && n.Object == nil && !b.pods.Keeps(name) {
		delete(b.all, name)
	}
}

// update gives up the nodes that are gone, then places those that have been placed before, then
// the new ones, and then those that another node stood in the way of, if one has given something up.
func (b *Part) update(names []string, batch *part.Batch) (touched []*topology.Node) {
	var gone, known, unknown, others []*state
	for _, name := range names {
		object := part.Object[objects.Node](batch, objects.NodeKind, name)
		b.dirty[name] = struct{}{}
		n := b.state(name)
		n.Object = object
		switch {
		case object == nil:
			b.Tell(northbound.NodeOwner(name))
			delete(b.unsettled, name)
			b.unplace(n)
			n.Facts, n.Outside = contract.NodeFacts{}, ""
			b.tunnels.take(n)
			n.expects = nothing
			delete(b.recorded, name)
			b.Forget(name)
			gone = append(gone, n)
		case n.Placed || b.isRecorded(n) || object.Network != "":
			known = append(known, n)
		default:
			unknown = append(unknown, n)
		}
	}
	b.rank(known)
	b.rank(unknown)
	for _, n := range append(known, unknown...) {
		b.allocate(n)
	}
	if len(names) > 0 && b.vacated {
		b.vacated = false
		for name := range b.unsettled {
			if _, named := slices.BinarySearch(names, name); !named {
				b.dirty[name] = struct{}{}
				others = append(others, b.all[name])
			}
		}
		b.rank(others)
		for _, n := range others {
			b.allocate(n)
		}
	}
	for _, n := range slices.Concat(gone, known, unknown, others) {
		touched = append(touched, &n.Node)
	}
	return touched
}

func (b *Part) isRecorded(n *state) bool {
	_, ok := b.recorded[n.Name]
	return ok
}

// rank orders nodes by who is right when two claim the same: first those whose chassis is what the
// Northbound has for them, and of these those whose gateway is, then those that the Northbound knows at all,
// then the older. A node that claims the gateway that the Northbound has for another one comes last.
func (b *Part) rank(list []*state) {
	doubt := make(map[*state]int, len(list))
	for _, n := range list {
		record, ok := b.recorded[n.Name]
		facts, err := parseFacts(n.Object.Facts)
		switch {
		case err == nil && !record.HasGateway(facts.Gateway) && b.isOfAnother(n.Name, facts.Gateway):
			doubt[n] = 4
		case !ok:
			doubt[n] = 3
		case err != nil || facts.Chassis != record.Chassis:
			doubt[n] = 2
		case !record.HasGateway(facts.Gateway):
			doubt[n] = 1
		}
	}
	slices.SortFunc(list, func(a, b *state) int {
		return cmp.Or(doubt[a]-doubt[b], objects.Older(&a.Object.ObjectMeta, &b.Object.ObjectMeta),
			cmp.Compare(a.Name, b.Name))
	})
}

// isOfAnother says whether the Northbound has anything of a gateway for another node.
func (b *Part) isOfAnother(node string, g *contract.Gateway) bool {
	for name, record := range b.recorded {
		if name != node && record.HasOf(g) {
			return true
		}
	}
	return false
}

// allocate decides a node's ID and subnets, or says why it cannot.
func (b *Part) allocate(n *state) {
	n.problems = nil
	complain := func(reason *reasons.Event, format string, args ...any) {
		n.problems = append(n.problems, objects.Problemf(objects.NodeKind, &n.Object.ObjectMeta, reason, format, args...))
	}
	placed, vacated := n.Placed, b.vacated
	defer func() {
		if !placed && !n.Placed { // what it gave up it had only just taken
			b.vacated = vacated
		}
		delete(b.unsettled, n.Name)
		if len(n.problems) > 0 {
			b.unsettled[n.Name] = struct{}{}
		}
	}()

	if err := b.joinZone(n); err != nil {
		complain(unknownZone, "%v", err)
		if n.Zone == "" {
			b.unplace(n)
			return
		}
	}
	chassis, windows := n.Chassis(), n.Windows()
	for _, err := range n.takeFacts(b.settings) {
		complain(badNodeFacts, "%v; remove the annotation, the node's agent writes it anew", err)
	}
	b.joinOutside(n, complain)
	b.refuseCopies(n, complain)
	b.tunnels.take(n)
	had, err := b.recallNode(n)
	if err != nil {
		complain(badNodeNetwork, "%v; Weft writes it again; do not edit it", err)
	}
	subnets, err := b.subnets(n, had.PodCIDRs)
	if err != nil {
		if !errors.Is(err, errNoSubnets) || b.isOverdue(n) {
			complain(noPodSubnet, "%v", err)
		}
		b.unplace(n)
		return
	}
	if !n.Placed || !slices.Equal(n.Subnets, subnets) {
		b.assignSubnets(n, subnets)
	}
	if n.ID == 0 {
		if n.ID, err = b.takeID(had.ID); err != nil {
			complain(noNodeID, "%v", err)
			b.unplace(n)
			return
		}
	}
	if !n.Placed {
		n.Placed = true
		n.expects = nothing
		delete(b.recorded, n.Name)
		i, _ := slices.BinarySearch(b.names, n.Name)
		b.names = slices.Insert(b.names, i, n.Name)
		b.around.PlacementsChanged()
	}
	b.vacated = b.onlyOne.take(&n.Node) || b.vacated
	if n.Chassis() != chassis || n.Windows() != windows {
		b.pods.TouchOn(n.Name)
	}
	b.noteNode(&n.Node)
}

// refuseCopies takes from a node what another one was first with.
func (b *Part) refuseCopies(n *state, complain func(reason *reasons.Event, format string, args ...any)) {
	if other := b.onlyOne.sameChassis(&n.Node); other != "" {
		complain(duplicateChassis, "its chassis name %s is also that of Node %s, as on copied machines; the node has no "+
			"gateway and its pods no network until each has a name of its own (external_ids:system-id in its Open vSwitch "+
			"database)",
			objects.Quoted(n.Facts.Chassis), other)
		n.Facts, n.Outside = contract.NodeFacts{OS: n.Facts.OS}, ""
	}
	if other, field, remedy := b.onlyOne.sameGateway(&n.Node); other != "" {
		complain(duplicateGateway, "annotation %s: %s is also that of the gateway of Node %s, which keeps it; the node "+
			"has no gateway, and its pods reach nothing outside of the cluster; %s, or delete Node %s if it is gone",
			contract.NodeFactsAnnotation, field, other, remedy, other)
		n.Facts.Gateway, n.Outside = nil, ""
	}
}

// recallNode finds what a node has had: what the Northbound says, else what its annotation says.
func (b *Part) recallNode(n *state) (contract.NodeNetwork, error) {
	had, err := objects.ParseAnnotation[contract.NodeNetwork](contract.NodeNetworkAnnotation, n.Object.Network)
	if record, ok := b.recorded[n.Name]; ok {
		had.PodCIDRs = record.Subnets
		if id := record.ID(b.settings); id > 0 {
			had.ID = id
		}
	}
	return had, err
}

var errNoSubnets = errors.New("the node has no spec.podCIDRs")

// isOverdue says whether a node has waited long enough for its subnets; at first it has not.
func (b *Part) isOverdue(n *state) bool {
	if n.expects == nothing {
		n.expects = expecting
		b.Expect(part.Signal{What: subnetsOverdue, Name: n.Name})
	}
	return n.expects == overdue
}

// takeID prefers the ID that the node had before.
func (b *Part) takeID(before int) (int, error) {
	if before > 0 && b.ids.Claim(before-1) {
		return before, nil
	}
	id, ok := b.ids.Take()
	if !ok {
		return 0, fmt.Errorf("all %d node numbers that join-cidrs %s has room for are taken; remove unused Nodes or make "+
			"join-cidrs larger",
			b.ids.Size, ipam.Join(b.settings.Joins))
	}
	return id + 1, nil
}

// subnets are the node's pod subnets: Kubernetes' where it allocates them, otherwise those it had
// before, otherwise new ones.
func (b *Part) subnets(n *state, recorded []netip.Prefix) ([]netip.Prefix, error) {
	if len(n.Object.PodCIDRs) > 0 {
		return b.givenSubnets(n)
	}
	if !b.settings.Allocate {
		return nil, fmt.Errorf("%w, and weft does not allocate them; let kube-controller-manager do so "+
			"(--allocate-node-cidrs, --cluster-cidr=%s) or set allocate-node-cidrs for weft",
			errNoSubnets, ipam.Join(b.settings.Pods))
	}
	if n.Placed && len(n.Subnets) == len(b.cuts) {
		return n.Subnets, nil
	}
	subnets := make([]netip.Prefix, 0, len(b.cuts))
	for _, cut := range b.cuts {
		if before := ipam.Family(recorded, cut.Cluster.Addr()); before != nil && b.onlyOne.free(n, *before) == nil &&
			cut.Claim(before.Masked()) {
			subnets = append(subnets, before.Masked())
			continue
		}
		subnet, err := b.cut(n, cut)
		if err != nil {
			for _, s := range subnets {
				b.release(s)
			}
			return nil, err
		}
		subnets = append(subnets, subnet)
	}
	return subnets, nil
}

// cut takes the next subnet that no node has; one that Kubernetes gave in another size may cover it.
func (b *Part) cut(n *state, from *ipam.SubnetAllocator) (netip.Prefix, error) {
	var covered []netip.Prefix
	defer func() { // free again as soon as what covers them is gone
		for _, subnet := range covered {
			from.Release(subnet)
		}
	}()
	for {
		subnet, err := from.Take()
		if err != nil {
			return subnet, fmt.Errorf("%w; remove unused Nodes, make pod-cidrs larger or the nodes' subnets smaller "+
				"(node-cidr-mask-size-ipv4, node-cidr-mask-size-ipv6)", err)
		}
		if b.onlyOne.free(n, subnet) == nil {
			return subnet, nil
		}
		covered = append(covered, subnet)
	}
}

// givenSubnets checks spec.podCIDRs.
func (b *Part) givenSubnets(n *state) ([]netip.Prefix, error) {
	var v4, v6 []netip.Prefix
	for _, text := range n.Object.PodCIDRs {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("spec.podCIDRs: %q is not a CIDR; correct kube-controller-manager's --cluster-cidr and "+
				"create the Node anew", text)
		}
		subnet = subnet.Masked()
		cluster := ipam.Family(b.settings.Pods, subnet.Addr())
		if cluster == nil || !cluster.Contains(subnet.Addr()) || subnet.Bits() < cluster.Bits() {
			return nil, fmt.Errorf("spec.podCIDRs: %s is not within pod-cidrs %s; give weft the same ranges as "+
				"kube-controller-manager's --cluster-cidr",
				subnet, ipam.Join(b.settings.Pods))
		}
		if ipam.NewSubnetPool(subnet).Pool.Size == 0 {
			return nil, fmt.Errorf("spec.podCIDRs: %s has no room for a pod; make the node subnets larger "+
				"(kube-controller-manager's --node-cidr-mask-size)", subnet)
		}
		if !slices.Contains(n.Subnets, subnet) { // nobody else is given what a node has
			if err := b.onlyOne.free(n, subnet); err != nil {
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
		return nil, fmt.Errorf("spec.podCIDRs: %v holds more than one subnet of an address family; weft uses one of each",
			n.Object.PodCIDRs)
	}
	return append(v4, v6...), nil
}

// assignSubnets gives a node its subnets.
func (b *Part) assignSubnets(n *state, subnets []netip.Prefix) {
	b.dropSubnets(n, subnets)
	n.Subnets = subnets
	b.pods.Readdress(&n.Node)
	for _, subnet := range subnets {
		for _, cut := range b.cuts {
			cut.Claim(subnet)
		}
	}
}

// unplace takes everything from a node.
func (b *Part) unplace(n *state) {
	b.dropSubnets(n, nil)
	if n.ID > 0 {
		b.ids.Release(n.ID - 1)
		b.vacated = true
	}
	n.ID, n.Subnets = 0, nil
	b.pods.Readdress(&n.Node)
	if n.Placed {
		n.Placed = false
		i, _ := slices.BinarySearch(b.names, n.Name)
		b.names = slices.Delete(b.names, i, i+1)
		b.around.PlacementsChanged()
	}
	b.vacated = b.onlyOne.take(&n.Node) || b.vacated
}

func (b *Part) dropSubnets(n *state, keep []netip.Prefix) {
	for _, subnet := range n.Subnets {
		if !slices.Contains(keep, subnet) {
			b.release(subnet)
			b.vacated = true
		}
	}
}

func (b *Part) release(subnet netip.Prefix) {
	for _, cut := range b.cuts {
		cut.Release(subnet)
	}
}

// NoteAll has all nodes' annotations written that are not what they must be.
func (b *Part) NoteAll() {
	for n := range b.Placed() {
		b.noteNode(n)
	}
}

// NoteNode has a node's annotation written if it is not what it must be.
func (b *Part) NoteNode(name string) {
	if n := b.all[name]; n != nil && n.Object != nil && n.Placed {
		b.noteNode(&n.Node)
	}
}

func (b *Part) noteNode(n *topology.Node) {
	network := contract.NodeNetwork{ID: n.ID, PodCIDRs: n.Subnets, ClusterCIDRs: b.settings.Pods,
		ServiceCIDRs: b.settings.Services, JoinCIDRs: b.settings.Joins,
		HostPorts: b.settings.ToldHostPorts, HostExternalIPs: b.settings.HostExternals, Hosts: b.settings.Hosts,
		PodNetworks: b.pods.HasNetworks(n.Name), Zone: n.Zone}
	if b.settings.Shared != nil {
		network.SharedGateways = contract.Addrs(b.settings.Shared.Addresses)
	}
	if n.Windows() {
		network.Connections = b.settings.NodeConnections
	}
	value := contract.Format(network)
	if value != n.Object.Network {
		b.Note(part.Annotate(objects.NodeKind, &n.Object.ObjectMeta, contract.NodeNetworkAnnotation, part.Text(value)))
	}
}

// joinOutside takes in the network outside of a node.
func (b *Part) joinOutside(n *state, complain func(reason *reasons.Event, format string, args ...any)) {
	var why string
	if n.Outside, why = n.OutsideOf(b.settings); why != "" {
		complain(gatewayNetworkNotGranted, "%s; until then the node carries neither EgressIPs nor the shared gateway and "+
			"announces no addresses, and its own pods leave by its gateway", why)
	}
}
