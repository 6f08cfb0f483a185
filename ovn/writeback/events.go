package writeback

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"

	"github.com/weftnet/weft/ovn/objects"
)

// LastingEvents gives the Event of a lasting problem a name that follows from what it says: another
// controller, or this one after a restart, finds it there and does not say it again. The API server
// forgets it as any Event, after an hour.
type LastingEvents struct{ record.EventSink }

// Create makes an Event that is not there.
func (s LastingEvents) Create(e *corev1.Event) (*corev1.Event, error) {
	id := e.Annotations[objects.LastingAnnotation]
	if id == "" {
		return s.EventSink.Create(e)
	}
	object := e.InvolvedObject.Name
	object = object[:min(len(object), validation.DNS1123SubdomainMaxLength-len(id)-1)]
	e.Name = strings.TrimRight(object, "-.") + "." + id
	created, err := s.EventSink.Create(e)
	if apierrors.IsAlreadyExists(err) {
		return e, nil
	}
	return created, err
}
