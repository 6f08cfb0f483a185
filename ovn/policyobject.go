package ovn

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	weft "github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/policy"
)

// The resources of network-policy-api, of which an API server may have none.
var (
	clusterPolicies  = schema.GroupVersionResource{Group: v1alpha2.GroupName, Version: v1alpha2.GroupVersion.Version, Resource: "clusternetworkpolicies"}
	adminPolicies    = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: v1alpha1.GroupVersion.Version, Resource: "adminnetworkpolicies"}
	baselinePolicies = schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: v1alpha1.GroupVersion.Version, Resource: "baselineadminnetworkpolicies"}
)

// policyKinds are the kinds of network policies.
var policyKinds = map[policy.Kind]kind{
	policy.NetworkPolicy:              networkPolicyKind,
	policy.ClusterNetworkPolicy:       clusterPolicyKind,
	policy.AdminNetworkPolicy:         adminPolicyKind,
	policy.BaselineAdminNetworkPolicy: baselinePolicyKind,
}

// policyResources are those of cluster-wide policies.
var policyResources = map[kind]schema.GroupVersionResource{
	clusterPolicyKind: clusterPolicies, adminPolicyKind: adminPolicies, baselinePolicyKind: baselinePolicies,
}

// policyObject is a network policy of any kind.
type policyObject struct {
	custom
	kind     kind
	policy   *policy.Policy // nil: it is not in force
	problems []policy.Problem
	noted    string // contract.PolicyStatusAnnotation, of a kind without a status
	logging  string // contract.ACLLoggingAnnotation, of a cluster-wide policy
}

func (o *policyObject) equal(b *policyObject) bool {
	return o.custom.equal(&b.custom) && o.noted == b.noted && o.logging == b.logging
}

func trimNetworkPolicy(o *networkingv1.NetworkPolicy) *policyObject {
	p := &policyObject{kind: networkPolicyKind, noted: o.Annotations[contract.PolicyStatusAnnotation]}
	p.ObjectMeta = trimMeta(&o.ObjectMeta)
	p.Generation = o.Generation
	p.policy, p.problems = policy.FromNetworkPolicy(o)
	return p
}

func trimClusterPolicy(u *unstructured.Unstructured) *policyObject {
	o := &v1alpha2.ClusterNetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	read, problems := policy.FromClusterNetworkPolicy(o)
	return newClusterWide(u, clusterPolicyKind, o.Status.Conditions, read, problems, err)
}

func trimAdminPolicy(u *unstructured.Unstructured) *policyObject {
	o := &v1alpha1.AdminNetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	read, problems := policy.FromAdminNetworkPolicy(o)
	return newClusterWide(u, adminPolicyKind, o.Status.Conditions, read, problems, err)
}

func trimBaselinePolicy(u *unstructured.Unstructured) *policyObject {
	o := &v1alpha1.BaselineAdminNetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	read, problems := policy.FromBaselineAdminNetworkPolicy(o)
	return newClusterWide(u, baselinePolicyKind, o.Status.Conditions, read, problems, err)
}

func newClusterWide(u *unstructured.Unstructured, k kind, conditions []metav1.Condition, read *policy.Policy, problems []policy.Problem, err error) *policyObject {
	p := &policyObject{custom: newCustom(u, conditions, err), kind: k, policy: read, problems: problems, logging: u.GetAnnotations()[contract.ACLLoggingAnnotation]}
	if err != nil {
		p.policy, p.problems = nil, nil
	}
	if p.status != "" { // conditions of other implementations are as much theirs as ours are ours
		text, _ := json.Marshal(map[string]any{"conditions": ownConditions(conditions)})
		p.status = string(text)
	}
	return p
}

// containerPort is a named port of a pod.
type containerPort struct {
	name     string
	protocol policy.Protocol
	number   uint16
}

// trimPorts reads a pod's named ports, sorted: of init containers those that run beside the others count.
func (p *pod) trimPorts(o *corev1.Pod) {
	take := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if kind, ok := protocolOf(port.Protocol); ok && port.Name != "" && port.ContainerPort > 0 && port.ContainerPort <= 65535 {
				p.ports = append(p.ports, containerPort{shared(port.Name), policy.Protocol(kind), uint16(port.ContainerPort)})
			}
		}
	}
	for i := range o.Spec.InitContainers {
		if restartsAlways(&o.Spec.InitContainers[i]) {
			take(&o.Spec.InitContainers[i])
		}
	}
	for i := range o.Spec.Containers {
		take(&o.Spec.Containers[i])
	}
	slices.SortFunc(p.ports, compareContainerPorts)
	p.ports = slices.Compact(p.ports)
}

// restartsAlways says of an init container whether it runs beside the pod's others.
func restartsAlways(c *corev1.Container) bool {
	return deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// ownConditions are ours of an object.
func ownConditions(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return c.Type != weft.Ready })
}

// portNumber is what is behind a port's name.
type portNumber struct {
	protocol policy.Protocol
	number   uint16
}

// maxNumbers bounds how many numbers one pod has behind one name: each is an ACL in every policy that names
// it, whoever wrote that. The smallest count, TCP's first.
const maxNumbers = 16

// numbers are those behind the name of a pod's port.
func (p *pod) numbers(name string) []portNumber {
	var list []portNumber
	for _, port := range p.ports {
		if port.name == name && len(list) < maxNumbers {
			list = append(list, portNumber{port.protocol, port.number})
		}
	}
	return list
}
