package objects

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	policyv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/weftnet/weft/models/api/v1alpha1"
)

// Kind is a kind of Kubernetes object that the controller watches.
type Kind uint8

const (
	NodeKind Kind = iota
	PodKind
	ServiceKind
	SliceKind
	NamespaceKind
	EgressKind
	PoolKind
	ServiceCIDRKind
	ResolvedKind
	NetworkPolicyKind
	ClusterPolicyKind
	AdminPolicyKind
	BaselinePolicyKind
	Kinds // their number
)

// kinds has the name of each kind, and where the API server has its objects.
var kinds = [Kinds]struct {
	name     string
	resource schema.GroupVersionResource
}{
	NodeKind:      {"Node", corev1.SchemeGroupVersion.WithResource("nodes")},
	PodKind:       {"Pod", corev1.SchemeGroupVersion.WithResource("pods")},
	ServiceKind:   {"Service", corev1.SchemeGroupVersion.WithResource("services")},
	SliceKind:     {"EndpointSlice", discoveryv1.SchemeGroupVersion.WithResource("endpointslices")},
	NamespaceKind: {"Namespace", corev1.SchemeGroupVersion.WithResource("namespaces")},

	EgressKind:   {"EgressIP", v1alpha1.EgressIPs},
	PoolKind:     {"AddressPool", v1alpha1.AddressPools},
	ResolvedKind: {"ResolvedNames", v1alpha1.ResolvedNamesResource},

	// Before Kubernetes 1.33 an API server has no ServiceCIDRs, or not in this version.
	ServiceCIDRKind: {"ServiceCIDR", networkingv1.SchemeGroupVersion.WithResource("servicecidrs")},

	NetworkPolicyKind: {"NetworkPolicy", networkingv1.SchemeGroupVersion.WithResource("networkpolicies")},
	// An API server may have none of the kinds of network-policy-api.
	ClusterPolicyKind: {"ClusterNetworkPolicy", schema.GroupVersionResource{Group: policyv1alpha2.GroupName,
		Version: policyv1alpha2.GroupVersion.Version, Resource: "clusternetworkpolicies"}},
	AdminPolicyKind: {"AdminNetworkPolicy", schema.GroupVersionResource{Group: policyv1alpha1.GroupName,
		Version: policyv1alpha1.GroupVersion.Version, Resource: "adminnetworkpolicies"}},
	BaselinePolicyKind: {"BaselineAdminNetworkPolicy", schema.GroupVersionResource{Group: policyv1alpha1.GroupName,
		Version: policyv1alpha1.GroupVersion.Version, Resource: "baselineadminnetworkpolicies"}},
}

func (k Kind) String() string { return kinds[k].name }

// Resource is where the API server has the objects of the kind.
func (k Kind) Resource() schema.GroupVersionResource { return kinds[k].resource }

// Key names an object: namespace/name, or the name of an object without a namespace.
type Key struct {
	Kind Kind
	Name string
}

func (k Key) String() string { return k.Kind.String() + " " + k.Name }
