package namespaces

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
)

// told are the changes that others are told of.
type told []string

func (t *told) NamespaceChanged(name string, object *objects.Namespace, relabelled bool) {
	*t = append(*t, fmt.Sprintf("%s there=%t relabelled=%t", name, object != nil, relabelled))
}

// TestPart plays a Namespace that comes, changes and goes. It says after each step what others are told, and whether
// its labels are known.
func TestPart(t *testing.T) {
	var others told
	p := New(&others)
	namespace := func(team string) *objects.Namespace {
		return &objects.Namespace{Labels: objects.NewLabelSet(map[string]string{"team": team})}
	}
	for _, step := range []struct {
		name   string
		object *objects.Namespace
		told   string
	}{
		{"it comes", namespace("a"), "web there=true relabelled=true"},
		{"its labels stay", namespace("a"), "web there=true relabelled=false"},
		{"other labels", namespace("b"), "web there=true relabelled=true"},
		{"it goes", nil, "web there=false relabelled=true"},
	} {
		t.Run(step.name, func(t *testing.T) {
			others = nil
			p.Take(part.NewBatch([]part.Event{objects.Key{Kind: objects.NamespaceKind, Name: "web"}}, func(part.Event) any {
				if step.object == nil {
					return nil
				}
				return step.object
			}))
			if len(others) != 1 || others[0] != step.told {
				t.Errorf("told is %q, want %q", others, step.told)
			}
			set, there := p.Labels("web")
			if there != (step.object != nil) || there && set != step.object.Labels {
				t.Errorf("known is %v, %t", set, there)
			}
		})
	}
}
