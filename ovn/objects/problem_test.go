package objects

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/reasons"
)

// TestProblemsOfFields name their field twice: for readers in the message, and for programs.
func TestProblemsOfFields(t *testing.T) {
	meta, wrong := &metav1.ObjectMeta{Namespace: "prod", Name: "web"}, &reasons.Event{Name: "BadPolicy"}
	for _, c := range []struct {
		problem     Problem
		text, field string
	}{
		{Fieldf(NetworkPolicyKind, meta, wrong, "spec.egress[0]", "%d: no", 7),
			"NetworkPolicy prod/web: BadPolicy: spec.egress[0]: 7: no", "spec.egress[0]"},
		{Problemf(NodeKind, &metav1.ObjectMeta{Name: "n1"}, wrong, "spec: %s", "is empty"),
			"Node n1: BadPolicy: spec: is empty", ""},
	} {
		if got := c.problem.String(); got != c.text || c.problem.Field != c.field {
			t.Errorf("%s, of field %q; want %s, of %q", got, c.problem.Field, c.text, c.field)
		}
	}
	many := make([]Problem, MaxTold+1)
	for i := range many {
		many[i] = Fieldf(NetworkPolicyKind, meta, wrong, "spec", "%d", i)
	}
	few := Few(many)
	if last := few[len(few)-1]; last.Field != "" {
		t.Errorf("%q is of field %q", last, last.Field)
	}
}
