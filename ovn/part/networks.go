package part

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
)

// Networks is the body of a patch of a node's PodNetworks. Unlike other objects this one is Weft's own: the patch makes
// it where it is not there, which is when the patch has no UID, and says all of it.
type Networks struct {
	Node  objects.Reference
	Pods  []contract.PodAddresses // in no order
	Grant bool                    // the node gets its right to read the object, too
	Gone  bool                    // the object and the right are taken away
}

// WriteNetworks is a patch that makes the PodNetworks of a node what a body says. The object is nil if it is not there.
func WriteNetworks(object *objects.PodNetworks, body Networks) Patch {
	meta := &metav1.ObjectMeta{Namespace: contract.PodNetworksNamespace, Name: body.Node.Name}
	if object != nil {
		meta.UID = object.UID
	}
	return Patch{Reference: objects.ReferenceTo(objects.PodNetworksKind, meta), Body: body}
}

// At is part of [Body].
func (n Networks) At(time.Time) any {
	lines := make([]string, len(n.Pods))
	for i, p := range n.Pods {
		lines[i] = p.String()
	}
	slices.Sort(lines)
	return lines
}

// After is the patch that is to be made in place of an earlier one of the same object, which nobody has made: a right
// that was to be given still is.
func (p Patch) After(earlier Patch) Patch {
	now, ok := p.Body.(Networks)
	before, _ := earlier.Body.(Networks)
	if ok && before.Grant && !now.Gone {
		now.Grant = true
		p.Body = now
	}
	return p
}

// Owner has the node's objects go with the node.
func (n Networks) Owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: corev1.SchemeGroupVersion.String(), Kind: n.Node.Kind.String(),
		Name: n.Node.Name, UID: n.Node.UID}
}

func (n Networks) object(r objects.Reference) v1alpha1.PodNetworks {
	return v1alpha1.PodNetworks{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: r.Kind.String()},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: r.UID,
			OwnerReferences: []metav1.OwnerReference{n.Owner()}},
		Pods: n.At(time.Time{}).([]string),
	}
}
