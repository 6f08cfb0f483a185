package objects

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// PodNetworks is a PodNetworks: what a node's agent can know of the addresses of its pods.
type PodNetworks struct {
	metav1.ObjectMeta
	Node  types.UID // whose it is, by its owner reference
	Lines map[types.UID]contract.PodAddresses
	// Wrong is true if the controller would not write the object like that.
	Wrong bool
}

func trimPodNetworks(u *unstructured.Unstructured, o *v1alpha1.PodNetworks, err error) *PodNetworks {
	p := &PodNetworks{ObjectMeta: trimMeta(&metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName(),
		UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}), Wrong: err != nil,
		Lines: make(map[types.UID]contract.PodAddresses, len(o.Pods))}
	for _, owner := range u.GetOwnerReferences() {
		if owner.Kind == NodeKind.String() {
			p.Node = owner.UID
		}
	}
	for _, line := range o.Pods {
		addresses, err := contract.ParsePodAddresses(line)
		if _, twice := p.Lines[types.UID(addresses.UID)]; err != nil || twice {
			p.Wrong = true
			continue
		}
		p.Lines[types.UID(addresses.UID)] = addresses
	}
	return p
}

func (p *PodNetworks) equal(o *PodNetworks) bool {
	return p.UID == o.UID && p.Node == o.Node && p.Wrong == o.Wrong &&
		maps.EqualFunc(p.Lines, o.Lines, contract.PodAddresses.Equal)
}
