package oracle

import (
	"context"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	npa "sigs.k8s.io/kube-network-policies/plugins/npa-v1alpha2"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	widefake "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned/fake"
	wideinformers "sigs.k8s.io/network-policy-api/pkg/client/informers/externalversions"
)

// kubeNetworkPolicies judges by NetworkPolicies and ClusterNetworkPolicies. Its informers never run: what a
// scene has is put into their stores.
type kubeNetworkPolicies struct {
	engine                *networkpolicy.PolicyEngine
	policies, wide, nodes cache.Store
	pods                  map[string]*api.PodInfo // by address
}

func newKubeNetworkPolicies() *kubeNetworkPolicies {
	o := &kubeNetworkPolicies{}
	core := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	policies, nodes := core.Networking().V1().NetworkPolicies(), core.Core().V1().Nodes()
	wide := wideinformers.NewSharedInformerFactory(widefake.NewSimpleClientset(),
		0).Policy().V1alpha2().ClusterNetworkPolicies()
	o.policies, o.wide, o.nodes = policies.Informer().GetStore(), wide.Informer().GetStore(), nodes.Informer().GetStore()
	o.engine = networkpolicy.NewPolicyEngine(o, []api.PolicyEvaluator{
		npa.NewClusterNetworkPolicy(v1alpha2.AdminTier, wide, nil, nodes.Lister()),
		tenant{networkpolicy.NewStandardNetworkPolicy("", core.Core().V1().Namespaces(), core.Core().V1().Pods(), policies),
			policies.Lister()},
		npa.NewClusterNetworkPolicy(v1alpha2.BaselineTier, wide, nil, nodes.Lister()),
	})
	return o
}

// tenant asks for NetworkPolicies in a direction only where one of them is about it: "isolated for egress" and
// "isolated for ingress" are two things. The oracle has a pod that is isolated in one direction accept all in
// the other, past the Baseline tier.
type tenant struct {
	api.PolicyEvaluator
	policies listers.NetworkPolicyLister
}

func (o tenant) EvaluateIngress(ctx context.Context, p *network.Packet, from, to *api.PodInfo) (api.Verdict, error) {
	if !o.isolated(to, networkingv1.PolicyTypeIngress) {
		return api.VerdictNext, nil
	}
	return o.PolicyEvaluator.EvaluateIngress(ctx, p, from, to)
}

func (o tenant) EvaluateEgress(ctx context.Context, p *network.Packet, from, to *api.PodInfo) (api.Verdict, error) {
	if !o.isolated(from, networkingv1.PolicyTypeEgress) {
		return api.VerdictNext, nil
	}
	return o.PolicyEvaluator.EvaluateEgress(ctx, p, from, to)
}

func (o tenant) isolated(pod *api.PodInfo, direction networkingv1.PolicyType) bool {
	if pod == nil {
		return false
	}
	list, err := o.policies.NetworkPolicies(pod.Namespace.Name).List(labels.Everything())
	return err != nil || slices.ContainsFunc(list, func(p *networkingv1.NetworkPolicy) bool {
		return slices.Contains(p.Spec.PolicyTypes, direction) && networkpolicy.MatchesSelector(&p.Spec.PodSelector,
			pod.Labels)
	})
}

func (o *kubeNetworkPolicies) GetPodInfoByIP(ip string) (*api.PodInfo, bool) {
	info, ok := o.pods[ip]
	return info, ok
}

// load takes a scene in. The oracle knows nodes by their status alone: the addresses that Weft gives their hosts
// among the pods, by which it knows them too, are put there.
func (o *kubeNetworkPolicies) load(s *scene, ends map[string][]*end) error {
	var policies, wide, nodes []any
	for _, p := range s.policies {
		policies = append(policies, defaulted(p))
	}
	for _, p := range s.wide {
		wide = append(wide, p)
	}
	for _, n := range s.nodes {
		n = n.DeepCopy()
		for _, a := range managementAddresses(n) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
		}
		nodes = append(nodes, n)
	}
	for store, list := range map[cache.Store][]any{o.policies: policies, o.wide: wide, o.nodes: nodes} {
		if err := store.Replace(list, ""); err != nil {
			return err
		}
	}
	o.pods = map[string]*api.PodInfo{}
	for _, list := range ends {
		for _, e := range list {
			if e.pod != nil {
				pod := e.pod.DeepCopy()
				pod.Spec.Containers = containers(pod) // it would not look for those that run beside them
				o.pods[e.address.String()] = api.NewPodInfo(pod, e.namespace.Labels, nil, "")
			}
		}
	}
	return nil
}

func (o *kubeNetworkPolicies) allows(p *packet) (bool, error) {
	return o.engine.EvaluatePacket(context.Background(), &network.Packet{SrcIP: net.IP(p.from.address.AsSlice()),
		DstIP: net.IP(p.to.address.AsSlice()),
		Proto: p.protocol, SrcPort: 40000, DstPort: int(p.port)})
}
