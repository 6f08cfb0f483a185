// Package v1alpha1 is version v1alpha1 of the API group weft.net: what a cluster's administrators tell weft beside
// Kubernetes' own objects, and what its agents tell its controller. The CustomResourceDefinitions are in
// models/api/crds.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds here.
var GroupVersion = schema.GroupVersion{Group: "weft.net", Version: "v1alpha1"}

// The resources' names in paths of the API server.
var (
	EgressIPs             = GroupVersion.WithResource("egressips")
	AddressPools          = GroupVersion.WithResource("addresspools")
	ResolvedNamesResource = GroupVersion.WithResource("resolvednames")
	PodNetworksResource   = GroupVersion.WithResource("podnetworks")
)

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &EgressIP{}, &EgressIPList{}, &AddressPool{}, &AddressPoolList{},
		&ResolvedNames{}, &ResolvedNamesList{}, &PodNetworks{}, &PodNetworksList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Ready is the condition that every kind of administrators has: True says that all of the object is in force.
const Ready = "Ready"
