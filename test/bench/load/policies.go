package load

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Objects are those of the load that network policies depend on: nodes, namespaces, pods and the policies.
func (l Load) Objects() []runtime.Object {
	var list []runtime.Object
	for i := range l.Nodes {
		list = append(list, l.Node(i))
	}
	for i := range l.Namespaces {
		list = append(list, l.namespaceObject(i))
	}
	for i := range l.Pods {
		list = append(list, l.Pod(i))
	}
	for i := range l.Policies * l.Namespaces {
		list = append(list, l.policy(i))
	}
	return list
}

// CreatePolicies is W3.
func (l Load) CreatePolicies(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "policies", l.Policies*l.Namespaces, func(ctx context.Context, i int) error {
		return api.createPolicy(ctx, l.policy(i))
	})
}

func (a *API) createPolicy(ctx context.Context, p *networkingv1.NetworkPolicy) error {
	return a.create(ctx, "/apis/networking.k8s.io/v1/namespaces/"+p.Namespace+"/networkpolicies", p)
}

// policy i is one of a namespace's mix: first a default deny of both directions, then by turns what
// is allowed to one app's pods.
func (l Load) policy(i int) *networkingv1.NetworkPolicy {
	k := i / l.Namespaces // which policy of its namespace
	if k == 0 {
		return newPolicy(l.namespace(i), "default-deny", nil, nil, nil)
	}
	var from, to []networkingv1.NetworkPolicyPeer
	var ports []networkingv1.NetworkPolicyPort
	switch k % 5 {
	case 1: // from pods of the same namespace, by numbers of ports
		from = []networkingv1.NetworkPolicyPeer{{PodSelector: l.ofApp(k + 7)}}
		ports = []networkingv1.NetworkPolicyPort{port(intstr.FromInt32(8080)), port(intstr.FromInt32(8443))}
	case 2: // from all pods of a team's namespaces, by a range of ports
		from = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: labelled("team", team(i+k))}}
		last := int32(9010)
		ports = []networkingv1.NetworkPolicyPort{port(intstr.FromInt32(9000))}
		ports[0].EndPort = &last
	case 3: // from some pods of another namespace, by the name of a port
		from = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: labelled(corev1.LabelMetadataName, l.namespace(i+k)),
			PodSelector: l.ofApp(k + 7)}}
		ports = []networkingv1.NetworkPolicyPort{port(intstr.FromString("http"))}
	case 4: // to what is outside the cluster
		to = []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{PodCIDR, ServiceCIDR}}}}
	case 0: // to an app's pods in all namespaces, by the name of a port
		to = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: l.ofApp(k + 7)}}
		ports = []networkingv1.NetworkPolicyPort{port(intstr.FromString("http"))}
	}
	return newPolicy(l.namespace(i), fmt.Sprintf("allow-%02d", k), l.ofApp(k), allow(from, ports), allowTo(to, ports))
}

func (l Load) ofApp(k int) *metav1.LabelSelector { return labelled("app", l.app(k)) }

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func port(p intstr.IntOrString) networkingv1.NetworkPolicyPort {
	tcp := corev1.ProtocolTCP
	return networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: &p}
}

func allow(from []networkingv1.NetworkPolicyPeer,
	ports []networkingv1.NetworkPolicyPort) []networkingv1.NetworkPolicyIngressRule {
	if from == nil {
		return nil
	}
	return []networkingv1.NetworkPolicyIngressRule{{From: from, Ports: ports}}
}

func allowTo(to []networkingv1.NetworkPolicyPeer,
	ports []networkingv1.NetworkPolicyPort) []networkingv1.NetworkPolicyEgressRule {
	if to == nil {
		return nil
	}
	return []networkingv1.NetworkPolicyEgressRule{{To: to, Ports: ports}}
}

// newPolicy is about all pods of the namespace without a selector, and about both directions without rules.
func newPolicy(namespace, name string, pods *metav1.LabelSelector, ingress []networkingv1.NetworkPolicyIngressRule,
	egress []networkingv1.NetworkPolicyEgressRule) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: ingress, Egress: egress},
	}
	if pods != nil {
		p.Spec.PodSelector = *pods
	}
	if ingress != nil || egress == nil {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
	}
	if egress != nil || ingress == nil {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	return p
}

// sides are two: half of the pods of each namespace are on one, half on the other.
var sides = [2]string{"left", "right"}

// SidePolicies are two a namespace: each side admits the other, of all namespaces.
func (l Load) SidePolicies() []*networkingv1.NetworkPolicy {
	var list []*networkingv1.NetworkPolicy
	for i := range l.Namespaces {
		for s, side := range sides {
			from := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{},
				PodSelector: labelled("side", sides[1-s])}}
			list = append(list, newPolicy(l.namespace(i), side, labelled("side", side), allow(from, nil), nil))
		}
	}
	return list
}

// CreateSidePolicies makes them.
func (l Load) CreateSidePolicies(ctx context.Context, api *API) (Phase, error) {
	list := l.SidePolicies()
	return api.run(ctx, "policies of sides", len(list), func(ctx context.Context, i int) error {
		return api.createPolicy(ctx, list[i])
	})
}

// OtherSides are the pods of one side, half of all, as they are on the other.
func (l Load) OtherSides() []*corev1.Pod {
	var list []*corev1.Pod
	for i := range l.Pods {
		if pod := l.Pod(i); pod.Labels["side"] == sides[0] {
			pod.Labels["side"] = sides[1]
			list = append(list, pod)
		}
	}
	return list
}

// OtherTeams are half of the namespaces as they are in another team.
func (l Load) OtherTeams() []*corev1.Namespace {
	var list []*corev1.Namespace
	for i := range l.Namespaces / 2 {
		namespace := l.namespaceObject(i)
		namespace.Labels["team"] = team(i + 1)
		list = append(list, namespace)
	}
	return list
}

// ChangeSides makes them so.
func (l Load) ChangeSides(ctx context.Context, api *API) (Phase, error) {
	list := l.OtherSides()
	return api.run(ctx, "pods' labels", len(list), func(ctx context.Context, i int) error {
		return api.patch(ctx, "/api/v1/namespaces/"+list[i].Namespace+"/pods/"+list[i].Name, labelPatch(list[i].Labels))
	})
}

// ChangeTeams makes them so.
func (l Load) ChangeTeams(ctx context.Context, api *API) (Phase, error) {
	list := l.OtherTeams()
	return api.run(ctx, "namespaces' labels", len(list), func(ctx context.Context, i int) error {
		return api.patch(ctx, "/api/v1/namespaces/"+list[i].Name, labelPatch(list[i].Labels))
	})
}

func labelPatch(labels map[string]string) any {
	return map[string]any{"metadata": map[string]any{"labels": labels}}
}

// Crowd is a namespace and n policies in it, no two of the same pods, each of which selects its members.
func (l Load) Crowd(namespace string, n int) (*corev1.Namespace, []*networkingv1.NetworkPolicy) {
	var list []*networkingv1.NetworkPolicy
	for i := range n {
		pods := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"member", fmt.Sprintf("other-%d", i)}}}}
		from := []networkingv1.NetworkPolicyPeer{{PodSelector: labelled("app", fmt.Sprintf("client-%d", i))}}
		list = append(list, newPolicy(namespace, fmt.Sprintf("crowd-%d", i), pods,
			allow(from, []networkingv1.NetworkPolicyPort{port(intstr.FromInt32(int32(10000 + i)))}), nil))
	}
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: namespace}}, list
}

// Member is a pod of a crowd, on the first node.
func (l Load) Member(namespace, name string) *corev1.Pod {
	pod := l.Pod(0)
	pod.Namespace, pod.Name, pod.Labels = namespace, name, map[string]string{"app": "member"}
	return pod
}

// CreateCrowd makes a crowd without members.
func (l Load) CreateCrowd(ctx context.Context, api *API, namespace string, n int) error {
	o, policies := l.Crowd(namespace, n)
	err := api.create(ctx, "/api/v1/namespaces", o)
	if err == nil && n > 0 {
		_, err = api.run(ctx, "policies of "+namespace, n, func(ctx context.Context, i int) error {
			return api.createPolicy(ctx, policies[i])
		})
	}
	return err
}

// CreateMember makes a member.
func (l Load) CreateMember(ctx context.Context, api *API, namespace, name string) error {
	return api.create(ctx, "/api/v1/namespaces/"+namespace+"/pods", l.Member(namespace, name))
}
