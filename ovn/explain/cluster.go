// Package explain says why a connection passes a cluster's network policies, or does not: which rule of
// which policy lets it through or drops it.
//
// It judges by rows of the OVN Northbound: those that a controller would write for objects, be they off an
// API server or manifests, or those that are there. Names, selectors and tiers are told by the objects.
package explain

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovn/settings"
)

// Cluster is what questions are asked of.
type Cluster struct {
	pods       map[string]*pod // by namespace/name
	names      []string        // of pods, sorted
	namespaces map[string]labels.Set
	nodes      nodes
	services   map[string]*corev1.Service
	balanced   *ovn.Rehearsal            // of nodes, Services and their slices: who gets which endpoints
	policies   map[string]*policy.Policy // by their rows' owner
	order      []*policy.Policy
	// desired are the rows that the objects ask for; actual, if not nil, those that are there.
	desired, actual *acl.Tables
	rows            acl.Rows // of desired
	problems        []objects.Problem
	running         bool
}

// pod is a pod as questions see it.
type pod struct {
	namespace, name string
	labels          labels.Set
	ports           map[string][]string // protocols, by the names of its containers' ports
	listens         []ContainerPort     // what its containers declare
	port            string              // of its logical switch, "" of one without
	addresses       []netip.Addr
	node            string // "" of none
	madeUp          bool   // its addresses are
	why             string // it has no address of its own, or none yet
}

func (p *pod) key() string { return p.namespace + "/" + p.name }

// New takes in objects: pods, namespaces, nodes, Services and their slices, and policies of every kind.
// podCIDRs are the ranges of pods' addresses; empty: those that the controller has noted at the nodes, or
// DefaultPodCIDRs.
func New(all []runtime.Object, podCIDRs []string) (*Cluster, error) {
	return newCluster(all, podCIDRs, false)
}

// newCluster does so of manifests, whose pods get addresses, or of a running cluster, whose pods have some.
func newCluster(all []runtime.Object, podCIDRs []string, running bool) (*Cluster, error) {
	c := &Cluster{running: running, pods: map[string]*pod{}, namespaces: map[string]labels.Set{},
		nodes: newNodes(), services: map[string]*corev1.Service{}, policies: map[string]*policy.Policy{}}
	var kept, balancing []runtime.Object
	for _, o := range all {
		if c.take(o) {
			kept = append(kept, o)
		}
		switch o.(type) {
		case *corev1.Node, *corev1.Service, *discoveryv1.EndpointSlice:
			balancing = append(balancing, o)
		}
	}
	config, err := configOf(all, podCIDRs)
	if err != nil {
		return nil, err
	}
	if c.balanced, err = ovn.NewRehearsal(config); err == nil {
		err = c.balanced.Update(balancing, nil)
	}
	if err != nil {
		return nil, err
	}
	offline, err := ovn.Translate(config, kept)
	if err != nil {
		return nil, err
	}
	for name, p := range c.pods {
		c.names = append(c.names, name)
		if at, ok := offline.Pods[name]; ok {
			p.port, p.addresses = at.Port, at.Addresses
		} else if p.why == "" {
			p.why = "gets no address; see whether its node has a subnet in pod-cidrs"
		}
		if c.namespaces[p.namespace] == nil {
			c.namespaces[p.namespace] = labels.Set{corev1.LabelMetadataName: p.namespace}
		}
	}
	slices.Sort(c.names)
	slices.SortFunc(c.order, func(a, b *policy.Policy) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.String(), b.String()))
	})
	c.problems = slices.DeleteFunc(offline.Problems, func(p objects.Problem) bool {
		return p.Kind != objects.NamespaceKind && !slices.Contains(kinds, policy.Kind(p.Kind.String()))
	})
	if c.rows, err = acl.FromChanges(offline.Changes); err != nil {
		return nil, err
	}
	c.desired, err = acl.New(c.rows)
	return c, err
}

// take keeps what questions need of an object, and says whether its rows are to be had, too.
func (c *Cluster) take(o runtime.Object) bool {
	switch o := o.(type) {
	case *corev1.Namespace:
		c.namespaces[o.Name] = labels.Merge(o.Labels, labels.Set{corev1.LabelMetadataName: o.Name})
	case *corev1.Node:
		c.nodes.take(o)
	case *corev1.Service:
		c.services[o.Namespace+"/"+o.Name] = o
		return false
	case *discoveryv1.EndpointSlice:
		return false
	case *corev1.Pod:
		return c.takePod(o)
	case *networkingv1.NetworkPolicy:
		c.takePolicy(policy.FromNetworkPolicy(o))
	case *v1alpha2.ClusterNetworkPolicy:
		c.takePolicy(policy.FromClusterNetworkPolicy(o))
	case *v1alpha1.AdminNetworkPolicy:
		c.takePolicy(policy.FromAdminNetworkPolicy(o))
	case *v1alpha1.BaselineAdminNetworkPolicy:
		c.takePolicy(policy.FromBaselineAdminNetworkPolicy(o))
	}
	return true
}

func (c *Cluster) takePolicy(p *policy.Policy, _ []policy.Problem) {
	if p != nil {
		c.policies[owner(p)] = p
		c.order = append(c.order, p)
	}
}

// owner is that of a policy's rows.
func owner(p *policy.Policy) string { return string(p.Kind) + "/" + p.Key() }

func (c *Cluster) takePod(o *corev1.Pod) bool {
	p := &pod{namespace: o.Namespace, name: o.Name, node: o.Spec.NodeName, labels: o.Labels, ports: map[string][]string{}}
	for container := range outside.Lasting(o) {
		for _, port := range container.Ports {
			protocol := protocolOf(&port.Protocol)
			p.ports[port.Name] = append(p.ports[port.Name], protocol)
			p.listens = append(p.listens, ContainerPort{protocol, uint16(port.ContainerPort)})
		}
	}
	c.pods[p.key()] = p
	switch {
	case o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed:
		p.why = "is over (" + string(o.Status.Phase) + ")"
		return false
	case !o.Spec.HostNetwork:
		p.madeUp = len(o.Status.PodIPs) == 0 && o.Annotations[contract.PodNetworkAnnotation] == ""
		if p.madeUp && c.running {
			p.why = "has no address yet"
		}
		return p.why == ""
	}
	p.why = "shares its node's address, so that no policy selects it"
	for _, ip := range o.Status.HostIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			p.addresses = append(p.addresses, addr)
			p.port = contract.ManagementPort(o.Spec.NodeName)
		}
	}
	return false
}

// Problems are what the owners of policies would be told of them, and those of Namespaces of the logging of policies.
func (c *Cluster) Problems() []objects.Problem { return c.problems }

// about says whether a problem is a policy's.
func about(p objects.Problem, o *policy.Policy) bool {
	return p.Kind.String() == string(o.Kind) && p.Object.Namespace == o.Namespace && p.Object.Name == o.Name
}

// DefaultPodCIDRs are the ranges of pods that have no addresses yet.
var DefaultPodCIDRs = []string{"10.244.0.0/16", "fd00:10:244::/48"}

// configOf is a controller's for these objects. No Northbound is dialled.
func configOf(all []runtime.Object, podCIDRs []string) (settings.Config, error) {
	config := settings.DefaultConfig()
	config.Northbound = []string{"unix:none"}
	config.AllocateNodeCIDRs = true
	count := 1 // that of pods without a node
	network, err := contract.NodeNetwork{}, error(nil)
	for _, o := range all {
		if node, ok := o.(*corev1.Node); ok {
			count++
			if len(network.ClusterCIDRs) == 0 {
				if network, _, err = contract.Parse[contract.NodeNetwork](node.Annotations,
					contract.NodeNetworkAnnotation); err != nil {
					return config, fmt.Errorf("node %s: %w", node.Name, err)
				}
			}
		}
	}
	if len(network.JoinCIDRs) > 0 {
		config.JoinCIDRs = texts(network.JoinCIDRs)
	}
	if len(network.HostPorts) > 0 {
		config.HostPorts = network.HostPorts
	}
	config.HostExternalIPCIDRs = texts(network.HostExternalIPs)
	switch {
	case len(podCIDRs) > 0:
		config.PodCIDRs = podCIDRs
	case len(network.ClusterCIDRs) > 0:
		config.PodCIDRs = texts(network.ClusterCIDRs)
	default:
		config.PodCIDRs = DefaultPodCIDRs
	}
	for _, text := range config.PodCIDRs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return config, fmt.Errorf("pod-cidrs: %q is not a CIDR; write it like 10.244.0.0/16 or fd00:10:244::/48", text)
		}
		// As noted, or else as large as all nodes can have them: pods of manifests are all on one.
		share := cidr.Bits() + bits.Len(uint(count))
		for _, noted := range network.PodCIDRs {
			if noted.Addr().Is4() == cidr.Addr().Is4() {
				share = noted.Bits()
			}
		}
		if cidr.Addr().Is4() {
			config.NodeCIDRMaskIPv4 = min(share, 29)
		} else {
			config.NodeCIDRMaskIPv6 = min(max(share, 64), 125)
		}
	}
	config.ServiceCIDRs = texts(serviceCIDRs(network, config.PodCIDRs))
	return config, nil
}

// serviceCIDRs are those of the nodes' network or, since no policy depends on them, any that are free.
func serviceCIDRs(network contract.NodeNetwork, podCIDRs []string) []netip.Prefix {
	if len(network.ServiceCIDRs) > 0 {
		return network.ServiceCIDRs
	}
	var list []netip.Prefix
	for _, text := range podCIDRs {
		pods := netip.MustParsePrefix(text)
		for _, free := range []string{"10.96.0.0/16", "198.18.0.0/15", "fd00:10:96::/112", "2001:2::/112"} {
			if p := netip.MustParsePrefix(free); p.Addr().Is4() == pods.Addr().Is4() && !p.Overlaps(pods) {
				list = append(list, p)
				break
			}
		}
	}
	return list
}

func texts[T fmt.Stringer](of []T) []string {
	list := make([]string, len(of))
	for i, one := range of {
		list[i] = one.String()
	}
	return list
}

// selects says whether a pod is in a selection.
func (c *Cluster) selects(s policy.Selection, p *pod) bool {
	namespaces, pods := s.Selectors()
	in := p.namespace == s.Namespace
	if namespaces != nil {
		in = namespaces.Matches(c.namespaces[p.namespace])
	}
	return in && p.why == "" && pods.Matches(p.labels)
}

// selected are the pods of a selection, by name.
func (c *Cluster) selected(s policy.Selection) []*pod {
	var list []*pod
	for _, name := range c.names {
		if p := c.pods[name]; c.selects(s, p) {
			list = append(list, p)
		}
	}
	return list
}

// selecting are the policies of a tier that are about a pod in a direction.
func (c *Cluster) selecting(p *pod, tier policy.Tier, d policy.Direction) []*policy.Policy {
	var list []*policy.Policy
	for _, o := range c.order {
		about := o.Isolates[d] || slices.ContainsFunc(o.Rules, func(r policy.Rule) bool { return r.Direction == d })
		if o.Tier == tier && about && c.selects(o.Subject, p) {
			list = append(list, o)
		}
	}
	return list
}
