package objects

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
)

// Namespace is a Namespace.
type Namespace struct {
	metav1.ObjectMeta
	Labels  LabelSet
	Logging string // contract.ACLLoggingAnnotation
}

func TrimNamespace(o *corev1.Namespace) *Namespace {
	return &Namespace{trimMeta(&o.ObjectMeta), NewLabelSet(o.Labels), o.Annotations[contract.ACLLoggingAnnotation]}
}

func (n *Namespace) equal(o *Namespace) bool {
	return n.UID == o.UID && n.Labels == o.Labels && n.Logging == o.Logging
}
