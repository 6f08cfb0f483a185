package trace

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/explain"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// judges says whether a stage is one of those in which ovn-northd has ACLs, under their names since OVN 23.06 and
// before.
func judges(stage string) bool {
	return slices.Contains([]string{"ls_in_acl_eval", "ls_in_acl_after_lb_eval", "ls_out_acl_eval", "ls_in_acl",
		"ls_in_acl_after_lb", "ls_out_acl"}, stage)
}

// rulesOf are the ACLs that a packet met, by their flows.
func (t *tracing) rulesOf(trace *ovntrace.Trace) (map[string]*rule, error) {
	var flows []flow
	for i := range trace.Visits {
		for _, f := range trace.Visits[i].Flows {
			if judges(f.Stage) && f.UUID != "" {
				flows = append(flows, t.flowOf(&f))
			}
		}
	}
	hints, err := t.south.hints(t.ctx, flows)
	if err != nil || len(hints) == 0 {
		return nil, err
	}
	if t.acls == nil {
		if t.acls, err = t.north.rules(t.ctx); err != nil {
			return nil, err
		}
	}
	found := map[string]*rule{}
	for _, f := range flows {
		if r := t.acls[hints[f.uuid]]; r != nil {
			found[f.uuid] = r
		}
	}
	return found, nil
}

// decided tells what a rule decides.
func (w *way) decided(r *rule) error {
	if r.refuses() {
		w.denied = r
	}
	m, ok := r.mark()
	if !ok {
		if text, own := explain.OwnRule(r.owner, r.key, r.refuses()); own {
			w.step(api.StepPolicy, "", "%s", text)
		}
		return nil
	}
	names, err := w.policiesOf(r, m)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s by %s, %s", explain.Action(r.action), names[0], m.Rule)
	if m.Rule == "" {
		text = fmt.Sprintf("Deny: isolated by %s, no rule of which allows it", strings.Join(names, ", "))
	}
	if m.Port != "" {
		text += ", port " + m.Port
	}
	w.step(api.StepPolicy, names[0], "%s: %s", m.Direction, text)
	return nil
}

// policiesOf names the policy of a rule, and, of an isolation, the others that isolate the same pods: OVN makes one
// flow of all of them. A cluster-wide policy is named to those who may see it.
func (w *way) policiesOf(r *rule, m explain.Mark) (names []string, err error) {
	marks := []explain.Mark{m}
	for _, other := range w.acls {
		if same, ok := other.mark(); ok && m.Rule == "" && same.Rule == "" && same != m && other.match == r.match &&
			other.direction == r.direction {
			marks = append(marks, same)
		}
	}
	for _, mark := range marks {
		allowed, err := w.may(w.ctx, mark.Namespace())
		switch {
		case err != nil:
			return nil, err
		case allowed:
			names = append(names, mark.Policy())
		default:
			names = append(names, "a cluster-wide policy")
		}
	}
	slices.Sort(names[1:])
	return names, nil
}

// deny ends a packet that a rule has refused.
func (w *way) deny() error {
	reason := w.steps[len(w.steps)-1].Text
	m, ok := w.denied.mark()
	remedy := "change this rule, or have a policy that is asked before it accept the connection"
	if ok && m.Rule == "" {
		remedy = fmt.Sprintf("allow it by a rule in spec.%s of one of these policies", m.Direction)
		if miss, err := w.nearest(w.at, m.Direction); err != nil {
			return err
		} else if miss != "" {
			reason += "; " + miss
		}
	}
	w.end(api.Refused, reason, remedy)
	w.steps[len(w.steps)-1].Text = "it is dropped"
	return nil
}
