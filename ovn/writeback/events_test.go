package writeback

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/objects"
)

// sink is an API server for Events.
type sink struct {
	record.EventSink
	names []string
	err   error
}

func (s *sink) Create(e *corev1.Event) (*corev1.Event, error) {
	s.names = append(s.names, e.Name)
	return e, s.err
}

// TestLastingEvents have a name that is the same for the same text on the same object, and no other.
func TestLastingEvents(t *testing.T) {
	name := func(object string, p objects.Problem, err error) (string, error) {
		s := &sink{err: err}
		_, got := LastingEvents{s}.Create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "by-time",
			Annotations: p.Annotations()},
			InvolvedObject: corev1.ObjectReference{Name: object}})
		return s.names[0], got
	}
	meta := &metav1.ObjectMeta{Name: "web", UID: "u1"}
	reason, other := &reasons.Event{Name: "Reason"}, &reasons.Event{Name: "Other"}
	one, _ := name("web", objects.Limitf(objects.ServiceKind, meta, reason, "text"), nil)
	same, err := name("web", objects.Limitf(objects.ServiceKind, meta, reason, "text"),
		apierrors.NewAlreadyExists(corev1.Resource("events"), "web"))
	if one != same || err != nil || !strings.HasPrefix(one, "web.") {
		t.Errorf("%q and %q, %v", one, same, err)
	}
	for what, p := range map[string]objects.Problem{
		"text":   objects.Limitf(objects.ServiceKind, meta, reason, "other"),
		"reason": objects.Limitf(objects.ServiceKind, meta, other, "text"),
		"object": objects.Limitf(objects.ServiceKind, &metav1.ObjectMeta{Name: "web", UID: "u2"}, reason, "text"),
	} {
		if other, _ := name("web", p, nil); other == one {
			t.Errorf("another %s has the same name", what)
		}
	}
	if plain, _ := name("web", objects.Problemf(objects.ServiceKind, meta, reason, "text"), nil); plain != "by-time" {
		t.Errorf("a problem that can be mended has the name %q", plain)
	}
	long, _ := name(strings.Repeat("a-", 126)+"a", objects.Limitf(objects.NodeKind, meta, reason, "text"), nil)
	if problems := validation.IsDNS1123Subdomain(long); len(problems) > 0 {
		t.Errorf("%q: %s", long, problems)
	}
	refused := errors.New("refused")
	if _, err := name("web", objects.Limitf(objects.ServiceKind, meta, reason, "text"), refused); !errors.Is(err,
		refused) {
		t.Errorf("a refusal becomes %v", err)
	}
}
