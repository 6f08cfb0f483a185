package part

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/ovn/objects"
)

// Patch is a merge patch of an object, or of its status. It fails on another object that has the name by now.
type Patch struct {
	objects.Reference
	Subresource string // "" of the object itself, or [Status]
	Body        Body
}

// Status is the subresource with an object's status.
const Status = "status"

// Body is what a patch writes: an [Annotation], or a kind's status.
type Body interface {
	// At is the body as it is written at a time; JSON is made of it. Times that the body leaves open are this one.
	At(now time.Time) any
}

// Annotate is a patch that gives an object an annotation.
func Annotate(k *objects.Kind, object *metav1.ObjectMeta, key string, value Value) Patch {
	return Patch{Reference: objects.ReferenceTo(k, object), Body: Annotation{key, value}}
}

// PatchStatus is a patch that gives an object a status. Fields that are null are taken away, and fields that are not
// in it stay.
func PatchStatus(k *objects.Kind, object *metav1.ObjectMeta, status Body) Patch {
	return Patch{objects.ReferenceTo(k, object), Status, status}
}

// Equal says whether two patches write the same to one object.
func (p Patch) Equal(o Patch) bool {
	return p.Reference == o.Reference && p.Subresource == o.Subresource && reflect.DeepEqual(p.Body, o.Body)
}

// Annotation is the key of the annotation that the patch writes, "" where it writes a status.
func (p Patch) Annotation() string {
	a, _ := p.Body.(Annotation)
	return a.Key
}

// JSON is the patch as it is sent at a time.
func (p Patch) JSON(now time.Time) []byte {
	if networks, ok := p.Body.(Networks); ok {
		return marshal(networks.object(p.Reference))
	}
	type metadata struct {
		UID         types.UID `json:"uid"`
		Annotations any       `json:"annotations,omitempty"`
	}
	var patch struct {
		Metadata metadata `json:"metadata"`
		Status   any      `json:"status,omitempty"`
	}
	patch.Metadata.UID = p.UID
	if p.Subresource == Status {
		patch.Status = p.Body.At(now)
	} else {
		patch.Metadata.Annotations = p.Body.At(now)
	}
	return marshal(patch)
}

// Annotation is the body of a patch that gives an object an annotation.
type Annotation struct {
	Key   string
	Value Value
}

// Value is that of an annotation.
type Value interface {
	// At is the value as it is written at a time.
	At(now time.Time) string
}

// At is part of [Body].
func (a Annotation) At(now time.Time) any { return map[string]string{a.Key: a.Value.At(now)} }

// Text is a value that says nothing of the time at which it is written.
type Text string

// At is part of [Value].
func (t Text) At(time.Time) string { return string(t) }

// Conditions are those of a status.
type Conditions []metav1.Condition

// At are the conditions as they are written at a time. One without a time has changed, and gets this one.
func (c Conditions) At(now time.Time) Conditions {
	written := slices.Clone(c)
	for i := range written {
		if written[i].LastTransitionTime.IsZero() {
			written[i].LastTransitionTime = metav1.NewTime(now)
		}
	}
	return written
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // bodies are made of strings, numbers and times
		panic(err)
	}
	return text
}
