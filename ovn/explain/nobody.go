package explain

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/ovn/policy"
)

// nobody tells of selectors that select no pod, as one with a mistyped label does: those of peers, in policies that are
// about one of some pods, and those of subjects, in policies that may be meant for one of them.
func (c *Cluster) nobody(pods []*pod) []string {
	var list []string
	for _, o := range c.order {
		if !c.mayConcern(o, pods) {
			continue
		}
		if c.selectsNobody(o.Subject) {
			list = append(list, fmt.Sprintf("%s has no effect: its subject [%s] selects no pod; correct its labels", o,
				o.Subject))
			continue
		}
		for i := range o.Rules {
			list = append(list, c.nobodyOf(o, &o.Rules[i])...)
		}
	}
	return list
}

// mayConcern says whether a policy selects one of some pods, or selects nobody where one of them is.
func (c *Cluster) mayConcern(o *policy.Policy, pods []*pod) bool {
	within := false
	for _, p := range pods {
		if c.selects(o.Subject, p) {
			return true
		}
		within = within || p.why == "" && (o.Namespace == "" || o.Namespace == p.namespace)
	}
	return within && c.selectsNobody(o.Subject)
}

func (c *Cluster) selectsNobody(s policy.Selection) bool {
	return !slices.ContainsFunc(c.names, func(name string) bool { return c.selects(s, c.pods[name]) })
}

func (c *Cluster) nobodyOf(o *policy.Policy, r *policy.Rule) (list []string) {
	for _, peer := range r.Peers {
		if peer.Pods != nil && c.selectsNobody(*peer.Pods) {
			list = append(list, SelectsNobody(o.String(), r.Field(), peer.Pods.String()))
		}
	}
	return list
}

// SelectsNobody says that a selection in a rule of a policy selects no pod, and what to do.
func SelectsNobody(policy, rule, selection string) string {
	return fmt.Sprintf("%s, %s: [%s] selects no pod; correct the labels, or the namespace's", policy, rule, selection)
}
