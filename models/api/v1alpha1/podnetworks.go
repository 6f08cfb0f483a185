package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodNetworks are the addresses that the pods of one node have. It has the node's name, and is written by the
// controller for the node's agent.
type PodNetworks struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Pods has a line for each pod, sorted: NAMESPACE/NAME UID ADDRESS/LENGTH.... Package contract reads and writes them.
	Pods []string `json:"pods"`
}

// PodNetworksList is a list of them.
type PodNetworksList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodNetworks `json:"items"`
}
