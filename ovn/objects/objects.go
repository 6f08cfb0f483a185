package objects

import (
	"cmp"
	"errors"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
)

// Labels by which an owner takes a Service away from the cluster's network.
const (
	HeadlessLabel  = contract.HeadlessLabel
	ProxyNameLabel = contract.ProxyNameLabel
)

// The types below are Kubernetes objects cut down to what the translation reads. The informers keep
// them in place of the real ones, which are some ten times as large, and two of them are equal
// exactly if the translation sees no difference: a heartbeat makes no work.

// Protocol is one of OVN's load balancer protocols.
type Protocol string

func protocolOf(p corev1.Protocol) (Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return "tcp", true
	case corev1.ProtocolUDP:
		return "udp", true
	case corev1.ProtocolSCTP:
		return "sctp", true
	}
	return "", false
}

// trimMeta keeps what names an object and one incarnation of it.
func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Interned(m.Namespace), Name: m.Name, UID: m.UID,
		ResourceVersion:   m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp}
}

// Interned returns a string that all its equals share: names of nodes, namespaces and ports come many
// times over.
func Interned(s string) string { return unique.Make(s).Value() }

// Deref is what a pointer points to, or otherwise where there is none.
func Deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// ParseAnnotation reads an annotation's value, "" being none. Its error does not quote all of it.
func ParseAnnotation[T any](key, value string) (T, error) {
	parsed, _, err := contract.Parse[T](AnnotationMap(key, value), key)
	if err != nil {
		return parsed, errors.New(Quoted(err.Error()))
	}
	return parsed, nil
}

// Reference names one incarnation of an object.
type Reference struct {
	Kind            *Kind
	Namespace, Name string
	UID             types.UID
}

// ReferenceTo names an object of a kind.
func ReferenceTo(k *Kind, object *metav1.ObjectMeta) Reference {
	return Reference{k, object.Namespace, object.Name, object.UID}
}

// Key is that of the object, whatever its incarnation.
func (r Reference) Key() Key { return Key{r.Kind, FullName(r.Namespace, r.Name)} }

func FullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func AnnotationMap(key, value string) map[string]string {
	if value == "" {
		return nil
	}
	return map[string]string{key: value}
}

// Older orders objects by age. One without a time is a manifest, and will be the youngest.
func Older(a, b *metav1.ObjectMeta) int {
	if there := !a.CreationTimestamp.IsZero(); there == b.CreationTimestamp.IsZero() {
		if there {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}
