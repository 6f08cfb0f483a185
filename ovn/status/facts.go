package status

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
)

// mostWaiting is how many of the pods that wait are listed.
const mostWaiting = 20

// overdue is for how long a pod may lack something before it is told. An address and a row of the Southbound take the
// controller and ovn-northd moments; before it asks for a network, a kubelet may wait for volumes.
func overdue(lacks string) time.Duration {
	if lacks == lacksAddress || lacks == lacksBinding {
		return 15 * time.Second
	}
	return time.Minute
}

// status puts together what the sources have said, with all Events in the order of [fair].
func (r *reading) status() *api.NetworkStatus {
	s := &api.NetworkStatus{
		TypeMeta:   metav1.TypeMeta{Kind: api.NetworkStatusKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Name: api.NetworkStatusName},
		Time:       metav1.NewMicroTime(r.at), Door: r.door, Unread: r.unread, Leader: r.leases.leader,
		Databases: []api.Database{r.northbound.database, r.southbound.database}, Configuration: r.configuration(),
		Nodes: []api.NodeStatus{}, Pools: r.pools, EgressIPs: r.egress, LoadBalancers: r.balancers,
		Certificates: r.certificates,
	}
	slices.SortFunc(s.Unread, func(a, b api.Unread) int { return cmp.Compare(a.Source, b.Source) })
	chassis := map[string]struct{}{}
	for _, node := range r.nodes {
		n := r.node(node)
		chassis[n.Chassis] = struct{}{}
		s.Nodes = append(s.Nodes, n)
		s.Pods.Ports += n.Ports
		s.Pods.Down += n.Down
	}
	slices.SortFunc(s.Nodes, func(a, b api.NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	for name := range r.southbound.chassis {
		if _, known := chassis[name]; !known {
			s.Strays = append(s.Strays, cut(name))
		}
	}
	slices.Sort(s.Strays)
	r.pods(&s.Pods)
	for _, p := range r.policies {
		s.Policies += p.total
		s.NotInForce = append(s.NotInForce, p.notInForce...)
	}
	j := &judgement{status: s, now: s.Time.Time}
	fair(r.groups, func(g group) bool { return j.isFinding(g.told) })
	s.Events = told(r.groups)
	s.EventsTruncated = slices.ContainsFunc(r.events[:], func(w warnings) bool { return w.truncated })
	return s
}

func (r *reading) configuration() api.Configuration {
	g := r.northbound.global
	c := api.Configuration{OVN: cut(g.Options[ovnVersionKey]), Northbound: int64(g.NbCfg),
		Southbound: int64(g.SbCfg), Chassis: int64(g.HvCfg)}
	if g.SbCfgTimestamp > 0 {
		c.Translated = metav1.NewMicroTime(time.UnixMilli(int64(g.SbCfgTimestamp)))
	}
	return c
}

// KeepNode is what [Sources] reads of a Node.
func KeepNode(full *corev1.Node) *corev1.Node {
	kept := &corev1.Node{}
	kept.Name, kept.UID, kept.ResourceVersion = full.Name, full.UID, full.ResourceVersion
	kept.CreationTimestamp = full.CreationTimestamp
	for _, key := range []string{contract.NodeFactsAnnotation, contract.NodeNetworkAnnotation} {
		if text, ok := full.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, text)
		}
	}
	kept.Status.Addresses = full.Status.Addresses            // see contract.AgentEnd
	if system, ok := full.Labels[corev1.LabelOSStable]; ok { // by which Weft takes it for one of Linux or of Windows
		metav1.SetMetaDataLabel(&kept.ObjectMeta, corev1.LabelOSStable, system)
	}
	for _, c := range full.Status.Conditions {
		if c.Type == corev1.NodeReady || c.Type == contract.AgentCondition {
			c.LastHeartbeatTime = metav1.Time{}
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	return kept
}

// node is what all sources together say of a Node.
func (r *reading) node(o *corev1.Node) api.NodeStatus {
	n := api.NodeStatus{Name: o.Name, Created: o.CreationTimestamp, System: o.Labels[corev1.LabelOSStable],
		NotReady: "the kubelet has said nothing"}
	for _, c := range o.Status.Conditions {
		switch ready := c.Status == corev1.ConditionTrue; {
		case c.Type == contract.AgentCondition:
			n.AgentCondition = &api.Condition{Current: true, Ready: ready, Reason: cut(c.Reason), Message: cut(c.Message),
				Changed: c.LastTransitionTime}
		case ready:
			n.Ready, n.NotReady = true, ""
		default:
			n.NotReady = cut(c.Message)
		}
	}
	facts, agent, err := contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation)
	n.Agent = agent && err == nil
	if err != nil {
		n.Wrong = cut(err.Error())
	}
	n.Version = cut(facts.Version)
	n.Chassis = cut(cmp.Or(facts.Chassis, o.Name)) // see topology.Node.Chassis
	if number, there := r.southbound.chassis[cmp.Or(facts.Chassis, o.Name)]; there {
		n.Registered, n.Configuration = true, int64(number)
		n.Behind = max(int64(r.southbound.configuration-number), 0)
	}
	_, n.Remote = r.southbound.remote[cmp.Or(facts.Chassis, o.Name)]
	r.host(&n, facts)
	r.addresses(&n, o)
	return n
}

// host fills in which chassis host runs the node's ovn-controller.
func (r *reading) host(n *api.NodeStatus, facts contract.NodeFacts) {
	if n.Hosted = facts.Hosted != nil; !n.Hosted {
		return
	}
	identity := r.leases.nodes[n.Name]
	if identity == "" {
		return
	}
	host, there := r.leases.hosts[identity]
	if !there {
		host.lease.Holder = identity
	}
	n.Host = &host.lease
	n.Unreachable = slices.Contains(host.unreachable, n.Name)
}

// addresses fills in the node's zone, its pods' ports, and what is free of its subnets. Each pod has an address of each
// subnet.
func (r *reading) addresses(n *api.NodeStatus, o *corev1.Node) {
	owner := northbound.NodeOwner(n.Name)
	own := []string{ovsdb.ID(nb.LogicalSwitchPortTable, owner, "switch"),
		ovsdb.ID(nb.LogicalSwitchPortTable, owner, "management")}
	for _, port := range r.northbound.switches[northbound.SwitchID(n.Name)] {
		if slices.Contains(own, port) {
			continue
		}
		n.Ports++
		if _, down := r.northbound.down[port]; down {
			n.Down++
		}
	}
	network, _, err := contract.Parse[contract.NodeNetwork](o.Annotations, contract.NodeNetworkAnnotation)
	if err != nil {
		n.Wrong = cmp.Or(n.Wrong, cut(err.Error()))
	}
	n.Zone = cut(network.Zone)
	for _, subnet := range network.PodCIDRs {
		if subnet.IsValid() {
			n.Subnets = append(n.Subnets, subnetOf(subnet, n.Ports))
		}
	}
}

func subnetOf(subnet netip.Prefix, used int) api.SubnetStatus {
	return api.SubnetStatus{CIDR: subnet.String(), Used: used, Free: max(ipam.Capacity(subnet)-used, 0)}
}

// What a pod that waits lacks first.
const (
	lacksAddress = "address"
	lacksBinding = "binding"
	lacksChassis = "chassis"
	lacksSandbox = "sandbox"
)

// pods fills in those that have waited for too long.
func (r *reading) pods(p *api.PodsStatus) {
	down := make(map[string]struct{}, len(r.northbound.down))
	for _, name := range r.northbound.down {
		down[name] = struct{}{}
	}
	reading := map[string]struct{}{} // nodes whose agents read PodNetworks
	for _, node := range r.nodes {
		facts, _, err := contract.Parse[contract.NodeFacts](node.Annotations, contract.NodeFactsAnnotation)
		if err == nil && facts.PodNetworks {
			reading[node.Name] = struct{}{}
		}
	}
	p.Truncated = r.waiting.truncated
	for i := range r.waiting.pods {
		o := &r.waiting.pods[i]
		port, lacks := contract.PodPort(o.Metadata.Namespace, o.Metadata.Name), lacksSandbox
		_, isDown := down[port]
		_, unclaimed := r.southbound.unclaimed[port]
		switch {
		case !o.annotated() && !r.told(o, reading):
			lacks = lacksAddress
		case isDown && !unclaimed && r.southbound.database.Answers:
			lacks = lacksBinding
		case isDown:
			lacks = lacksChassis
		}
		since := o.since()
		if r.at.Sub(since.Time) < overdue(lacks) {
			continue
		}
		p.Waiting++
		p.Longest = append(p.Longest, api.WaitingPod{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name,
			Node: o.Spec.NodeName, Since: since, Lacks: lacks})
	}
	p.Lacking = lacking(p.Longest)
	slices.SortFunc(p.Longest, func(a, b api.WaitingPod) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	p.Longest = p.Longest[:min(len(p.Longest), mostWaiting)]
}

// told says whether a pod's node is told its addresses without an annotation. Its PodNetworks has all pods whose port
// is in the Northbound; while that does not answer, none is said to lack them.
func (r *reading) told(o *pod, reading map[string]struct{}) bool {
	_, reads := reading[o.Spec.NodeName]
	owner := northbound.PodOwner(o.Metadata.Namespace + "/" + o.Metadata.Name)
	port := ovsdb.ID(nb.LogicalSwitchPortTable, owner, string(o.Metadata.UID))
	return reads && (!r.northbound.database.Answers ||
		slices.Contains(r.northbound.switches[northbound.SwitchID(o.Spec.NodeName)], port))
}

// lacking counts pods by what they lack.
func lacking(pods []api.WaitingPod) (counts []api.LackCount) {
	for _, lacks := range []string{lacksAddress, lacksBinding, lacksChassis, lacksSandbox} {
		count := 0
		for _, p := range pods {
			if p.Lacks == lacks {
				count++
			}
		}
		if count > 0 {
			counts = append(counts, api.LackCount{Lacks: lacks, Pods: count})
		}
	}
	return counts
}
