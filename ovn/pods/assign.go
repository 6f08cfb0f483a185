package pods

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/egress"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policies"
)

// Pod is a pod that wants a port, and the addresses it has, none while it waits for them.
type Pod struct {
	object    *objects.Pod
	node      *nodePods
	addresses []netip.Prefix // one a subnet of the node, in the same order
	// had are addresses that the pod must get again if it can, known is where from.
	had      []netip.Addr
	known    evidence
	leaving  egress.Leaving
	selected policies.Selected
	there    bool // its port is in the Northbound, or about to be
}

// evidence is where it is known from what addresses a pod has had, the best first.
type evidence int

const (
	allocated evidence = iota // by this cluster, or by an earlier one as the Northbound says
	inStatus
	inPodNetworks
	inAnnotation
	nowhere
)

// update takes in pods, and assigns addresses to all that lack them: first those that pods have
// had before, so that no new pod takes one of them.
func (b *Part) update(names []string, batch *part.Batch) {
	for _, name := range names {
		object := part.Object[objects.Pod](batch, objects.PodKind, name)
		b.updatePod(name, object)
		b.around.PodSeen(name, object)
	}
	// The nodes may have touched more pods than were named; a pod that gave up its address lets
	// another of its node have one.
	var touched []*Pod
	for name := range b.dirty {
		if p := b.all[name]; p != nil {
			touched = append(touched, p)
		}
	}
	// Of two that claim one address, the older is right: its name says nothing, and whoever
	// creates a pod may choose it.
	slices.SortFunc(touched, func(a, b *Pod) int { return objects.Older(&a.object.ObjectMeta, &b.object.ObjectMeta) })
	problems := make([][]objects.Problem, len(touched))
	claims := make([][]netip.Addr, len(touched))
	for known := allocated; known <= nowhere; known++ {
		for i, p := range touched {
			if len(p.addresses) == 0 && p.node.Placed && p.known == known {
				claims[i], problems[i] = b.claim(p)
			}
		}
	}
	for i, p := range touched {
		if len(p.addresses) == 0 && p.node.Placed {
			problems[i] = append(problems[i], b.fill(p, claims[i])...)
		}
		problems[i] = append(problems[i], b.notePod(p, len(problems[i]) > 0)...)
		problems[i] = slices.Concat(problems[i], HostPortProblems(p.object, p.node.Node),
			policies.NumberProblems(p.object),
			objects.UnservedProblems(objects.PodKind, &p.object.ObjectMeta, p.object.Asked))
		b.Tell(northbound.PodOwner(objects.FullName(p.object.Namespace, p.object.Name)), problems[i]...)
		b.touchRivals(p)
	}
}

func (b *Part) updatePod(name string, object *objects.Pod) {
	b.dirty[name] = struct{}{}
	wanted := object != nil && object.Node != "" && !object.HostNetwork && !object.Completed
	p := b.all[name]
	if p != nil && (!wanted || object.UID != p.object.UID || object.Node != p.object.Node) {
		b.removePod(name, p)
		p = nil
	}
	if !wanted {
		b.Tell(northbound.PodOwner(name))
		return
	}
	if p == nil {
		p = &Pod{node: b.node(object.Node)}
		p.had, p.known = b.recall(object)
		p.node.pods[name] = p
		b.all[name] = p
	}
	b.indexHostPorts(p.node, name, p.object, object)
	if p.object != nil {
		b.touchRivals(p)
	}
	p.object = object
	b.index(name, p)
}

// removePod gives up what a pod has.
func (b *Part) removePod(name string, p *Pod) {
	n := p.node
	b.touchRivals(p)
	b.giveUp(name, p)
	b.around.PodEnds(p)
	b.unindex(name, p)
	delete(n.pods, name)
	delete(n.waiting, name)
	b.indexHostPorts(n, name, p.object, nil)
	delete(b.all, name)
	b.leaveNetworks(n)
	b.forget(n)
}

// recall finds the addresses that a pod has had. What stands in the pod itself is believed only of
// pods that were there before this cluster was, since then a database may have been lost. A pod that
// comes later has had none: what came with it is its creator's wish.
func (b *Part) recall(o *objects.Pod) ([]netip.Addr, evidence) {
	if had := b.recorded[o.UID]; len(had) > 0 {
		delete(b.recorded, o.UID)
		return had, allocated
	}
	if !b.beginning {
		return nil, nowhere
	}
	if len(o.IPs) > 0 {
		return o.IPs, inStatus
	}
	if told := b.node(o.Node).told.object; told != nil && len(told.Lines[o.UID].Addresses) > 0 {
		return contract.Addrs(told.Lines[o.UID].Addresses), inPodNetworks
	}
	if network, err := o.ParseNetwork(); err == nil && len(network.Addresses) > 0 && network.UID == string(o.UID) {
		return contract.Addrs(network.Addresses), inAnnotation
	}
	return nil, nowhere
}

// claim takes the addresses that a pod has had. The result has an invalid address for each family that
// has none.
func (b *Part) claim(p *Pod) (claimed []netip.Addr, problems []objects.Problem) {
	claimed = make([]netip.Addr, len(p.node.pools))
	for i, pool := range p.node.pools {
		addr := pick(p.had, pool.Subnet)
		switch {
		case !addr.IsValid():
		case pool.Claim(addr), b.reclaims(p, addr):
			claimed[i] = addr
		default:
			problems = append(problems, b.lostAddress(p, pool.Subnet, addr))
		}
	}
	return claimed, problems
}

// lostAddress says why a pod cannot keep an address.
func (b *Part) lostAddress(p *Pod, subnet netip.Prefix, addr netip.Addr) objects.Problem {
	why := "is reserved in the subnet " + subnet.String()
	if !subnet.Contains(addr) {
		why = "is not in the subnet " + subnet.String()
	} else if other := b.claimant(p, addr); other != "" {
		why = "is held by pod " + other + " in the subnet " + subnet.String()
	}
	return objects.Problemf(objects.PodKind, &p.object.ObjectMeta, addressLost,
		"its address %s %s of Node %s; the pod gets another address, which it can use only after it is created anew: "+
			"delete it",
		addr, why, p.node.Name)
}

// claimant is another pod that has an address, or is about to get it; for messages only.
func (b *Part) claimant(p *Pod, addr netip.Addr) string {
	for _, name := range slices.Sorted(maps.Keys(p.node.pods)) {
		other := p.node.pods[name]
		if other == p {
			continue
		}
		if slices.Contains(contract.Addrs(other.addresses), addr) || slices.Contains(other.had, addr) {
			return name
		}
	}
	return ""
}

// fill allocates what claim did not find. A pod gets all its addresses or none.
func (b *Part) fill(p *Pod, claimed []netip.Addr) []objects.Problem {
	n, name := p.node, objects.FullName(p.object.Namespace, p.object.Name)
	for i, pool := range n.pools {
		if claimed[i].IsValid() {
			continue
		}
		addr, ok := pool.Take()
		if !ok {
			for j, a := range claimed {
				if a.IsValid() {
					n.pools[j].Release(a)
				}
			}
			n.waiting[name] = struct{}{}
			return []objects.Problem{objects.Problemf(objects.PodKind, &p.object.ObjectMeta, noFreeAddress,
				"all %d addresses of the pod subnet %s of Node %s are taken; the pod gets one as soon as another pod of the node "+
					"ends; to prevent this, lower kubelet's maxPods, or use larger pod subnets",
				pool.Pool.Size, pool.Subnet, n.Name)}
		}
		claimed[i] = addr
	}
	delete(n.waiting, name)
	p.addresses = make([]netip.Prefix, len(claimed))
	for i, addr := range claimed {
		p.addresses[i] = netip.PrefixFrom(addr, n.pools[i].Subnet.Bits())
	}
	p.had, p.known = claimed, allocated
	return nil
}

// notePod has the pod's annotation written where it is not what it must be. explained says that the
// user has been told why it changes.
func (b *Part) notePod(p *Pod, explained bool) []objects.Problem {
	if len(p.addresses) == 0 {
		return nil
	}
	o := p.object
	b.touchNetworks(p.node)
	value := Annotation(o.UID, p.addresses)
	if value == o.Network || b.byObject(p.node) {
		return nil
	}
	b.Note(part.Annotate(objects.PodKind, &o.ObjectMeta, contract.PodNetworkAnnotation, part.Text(value)))
	if o.Network == "" || explained {
		return nil
	}
	if _, err := o.ParseNetwork(); err != nil {
		return []objects.Problem{objects.Problemf(objects.PodKind, &o.ObjectMeta, badPodNetwork,
			"%v; it is written anew; do not edit it, weft alone writes it", err)}
	}
	return []objects.Problem{objects.Problemf(objects.PodKind, &o.ObjectMeta, podNetworkRestored,
		"annotation %s is %s, which is not what the pod has; it is written anew; do not edit it, weft alone writes it",
		contract.PodNetworkAnnotation, objects.Quoted(o.Network))}
}

// pick is the first address of a subnet's family.
func pick(list []netip.Addr, subnet netip.Prefix) netip.Addr {
	for _, addr := range list {
		if addr.Is4() == subnet.Addr().Is4() {
			return addr
		}
	}
	return netip.Addr{}
}

// Seen takes in which pods have a port in the Northbound.
func (b *Part) Seen(ports map[types.UID][]netip.Addr) {
	for _, p := range b.all {
		p.there = len(ports[p.object.UID]) > 0
	}
}

// There says whether the pod's port is in the Northbound, or about to be.
func (p *Pod) There() bool { return p.there }

// Node is the name of the pod's node, "" for none.
func (p *Pod) Node() string {
	if p.node == nil {
		return ""
	}
	return p.node.Name
}
