package objects

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/policy"
)

// Kind is a kind of Kubernetes object that the controller watches. There is one of each, and a pointer to it stands
// for the kind.
type Kind struct {
	name     string
	resource schema.GroupVersionResource
	within   string
	object   runtime.Object
	trim     func(any) any
	equal    func(before, after any) bool
}

// NewKind is the kind that the API server has by a name and at a place. An object of it is an O there, which trim cuts
// down to a T. Equal says whether two states are the same to the translation. Without it each update is another state.
//
// Objects of kinds that an API server may lack are read as unstructured ones.
func NewKind[O, T any](name string, resource schema.GroupVersionResource, trim func(*O) *T, equal func(a, b *T) bool,
) *Kind {
	object, _ := any(new(O)).(runtime.Object)
	return &Kind{name: name, resource: resource, object: object,
		trim: func(object any) any {
			if u, ok := object.(*unstructured.Unstructured); ok && u.GetKind() != name {
				return object
			}
			if o, ok := object.(*O); ok {
				return trim(o)
			}
			return object
		},
		equal: func(before, after any) bool {
			b, known := before.(*T)
			a, is := after.(*T)
			return known && is && equal != nil && equal(a, b)
		}}
}

// FromUnstructured has trim read an object of a kind that an API server may lack. Err is why the object could not be
// read whole.
func FromUnstructured[O, T any](trim func(u *unstructured.Unstructured, o *O, err error) *T,
) func(*unstructured.Unstructured) *T {
	return func(u *unstructured.Unstructured) *T {
		o := new(O)
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
		return trim(u, o, err)
	}
}

// The kinds of Kubernetes.
var (
	NodeKind    = NewKind("Node", corev1.SchemeGroupVersion.WithResource("nodes"), trimNode, (*Node).equal)
	PodKind     = NewKind(podKind, corev1.SchemeGroupVersion.WithResource("pods"), TrimPod, (*Pod).equal)
	ServiceKind = NewKind(serviceKind, corev1.SchemeGroupVersion.WithResource("services"), TrimService, (*Service).equal)
	SliceKind   = NewKind("EndpointSlice", discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), TrimSlice,
		(*EndpointSlice).equal)
	NamespaceKind = NewKind("Namespace", corev1.SchemeGroupVersion.WithResource("namespaces"), TrimNamespace,
		(*Namespace).equal)
	NetworkPolicyKind = NewKind(string(policy.NetworkPolicy),
		networkingv1.SchemeGroupVersion.WithResource("networkpolicies"), trimNetworkPolicy, (*PolicyObject).equal)

	// Before Kubernetes 1.33 an API server has no ServiceCIDRs, or not in this version.
	ServiceCIDRKind = NewKind("ServiceCIDR", networkingv1.SchemeGroupVersion.WithResource("servicecidrs"),
		trimServiceCIDR, (*ServiceCIDR).equal)
)

// Weft's own kinds.
var (
	EgressKind = NewKind("EgressIP", v1alpha1.EgressIPs, FromUnstructured(trimEgressIP), (*EgressIP).equal)
	PoolKind   = NewKind("AddressPool", v1alpha1.AddressPools, FromUnstructured(trimAddressPool),
		(*AddressPool).equal)
	ResolvedKind = NewKind("ResolvedNames", v1alpha1.ResolvedNamesResource, FromUnstructured(TrimResolvedNames),
		nil) // how long an address counts begins anew with each
	PodNetworksKind = NewKind("PodNetworks", v1alpha1.PodNetworksResource, FromUnstructured(trimPodNetworks),
		(*PodNetworks).equal).in(contract.PodNetworksNamespace)
)

// The kinds of network-policy-api, of which an API server may have none.
var (
	ClusterPolicyKind = NewKind(string(policy.ClusterNetworkPolicy), schema.GroupVersionResource{
		Group: policyv1alpha2.GroupName, Version: policyv1alpha2.GroupVersion.Version,
		Resource: "clusternetworkpolicies"}, trimClusterPolicy, (*PolicyObject).equal)
	AdminPolicyKind = NewKind(string(policy.AdminNetworkPolicy), schema.GroupVersionResource{
		Group: policyv1alpha1.GroupName, Version: policyv1alpha1.GroupVersion.Version,
		Resource: "adminnetworkpolicies"}, trimAdminPolicy, (*PolicyObject).equal)
	BaselinePolicyKind = NewKind(string(policy.BaselineAdminNetworkPolicy), schema.GroupVersionResource{
		Group: policyv1alpha1.GroupName, Version: policyv1alpha1.GroupVersion.Version,
		Resource: "baselineadminnetworkpolicies"}, trimBaselinePolicy, (*PolicyObject).equal)
)

// in is the kind, whose objects that Weft reads are all in one namespace.
func (k *Kind) in(namespace string) *Kind {
	k.within = namespace
	return k
}

// Within is the namespace of all objects of the kind that Weft reads, "" if they may be in any.
func (k *Kind) Within() string { return k.within }

// String is the kind's name, "" of no kind.
func (k *Kind) String() string {
	if k == nil {
		return ""
	}
	return k.name
}

// Resource is where the API server has the objects of the kind.
func (k *Kind) Resource() schema.GroupVersionResource { return k.resource }

// Object is an empty object of the kind, as the API server has it.
func (k *Kind) Object() runtime.Object { return k.object }

// Trim is the informers' transform. What is no object of the kind it hands on.
func (k *Kind) Trim(object any) (any, error) { return k.trim(object), nil }

// Changed says whether an update carries anything that the translation reads.
func (k *Kind) Changed(before, after any) bool { return !k.equal(before, after) }

// Key names an object: namespace/name, or the name of an object without a namespace.
type Key struct {
	Kind *Kind
	Name string
}

func (k Key) String() string { return k.Kind.String() + " " + k.Name }
