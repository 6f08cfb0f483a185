package objects

import (
	"encoding/json"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/policy"
)

// PolicyKinds are the kinds of network policies.
var PolicyKinds = map[policy.Kind]*Kind{
	policy.NetworkPolicy:              NetworkPolicyKind,
	policy.ClusterNetworkPolicy:       ClusterPolicyKind,
	policy.AdminNetworkPolicy:         AdminPolicyKind,
	policy.BaselineAdminNetworkPolicy: BaselinePolicyKind,
}

// PolicyObject is a network policy of any kind.
type PolicyObject struct {
	Custom
	Kind     policy.Kind
	Policy   *policy.Policy // nil: it is not in force
	Problems []policy.Problem
	Noted    string // contract.PolicyStatusAnnotation, of a kind without a status
	Logging  string // contract.ACLLoggingAnnotation, of a cluster-wide policy
}

func (o *PolicyObject) equal(b *PolicyObject) bool {
	return o.Custom.equal(&b.Custom) && o.Noted == b.Noted && o.Logging == b.Logging
}

func trimNetworkPolicy(o *networkingv1.NetworkPolicy) *PolicyObject {
	p := &PolicyObject{Kind: policy.NetworkPolicy, Noted: o.Annotations[contract.PolicyStatusAnnotation]}
	p.ObjectMeta = trimMeta(&o.ObjectMeta)
	p.Generation = o.Generation
	p.Policy, p.Problems = policy.FromNetworkPolicy(o)
	return p
}

func trimClusterPolicy(u *unstructured.Unstructured) *PolicyObject {
	o := &v1alpha2.ClusterNetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	read, problems := policy.FromClusterNetworkPolicy(o)
	return newClusterWide(u, policy.ClusterNetworkPolicy, o.Status.Conditions, read, problems, err)
}

func trimAdminPolicy(u *unstructured.Unstructured) *PolicyObject {
	o := &v1alpha1.AdminNetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	read, problems := policy.FromAdminNetworkPolicy(o)
	return newClusterWide(u, policy.AdminNetworkPolicy, o.Status.Conditions, read, problems, err)
}

func trimBaselinePolicy(u *unstructured.Unstructured) *PolicyObject {
	o := &v1alpha1.BaselineAdminNetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	read, problems := policy.FromBaselineAdminNetworkPolicy(o)
	return newClusterWide(u, policy.BaselineAdminNetworkPolicy, o.Status.Conditions, read, problems, err)
}

func newClusterWide(u *unstructured.Unstructured, k policy.Kind, conditions []metav1.Condition, read *policy.Policy,
	problems []policy.Problem, err error) *PolicyObject {
	p := &PolicyObject{Custom: NewCustom(u, conditions, err), Kind: k, Policy: read, Problems: problems,
		Logging: u.GetAnnotations()[contract.ACLLoggingAnnotation]}
	if err != nil {
		p.Policy, p.Problems = nil, nil
	}
	if p.Status != "" { // conditions of other implementations are as much theirs as ours are ours
		text, _ := json.Marshal(map[string]any{"conditions": ownConditions(conditions)})
		p.Status = string(text)
	}
	return p
}
