//go:build linux

package chassis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/cases"
)

// TestNodesThatComeBackLeaveNothing: nodes leave and come back as other objects, and some cannot be read when they do.
// When all are gone, the host keeps nothing of them, and the API server has no Lease of theirs.
func TestNodesThatComeBackLeaveNothing(t *testing.T) {
	w := newWorld(t)
	a := w.start("a")
	all := names(5)
	addresses := map[string]string{}
	for _, name := range all {
		w.node(name)
		addresses[name] = w.listen[name].Addr().String()
	}
	api := w.admin.CoreV1().Nodes()
	rounds := cases.Of(20) // of five nodes each
	for round := range rounds {
		for _, name := range all {
			object := hostedOn(name, addresses[name])
			if name == all[0] && round%2 == 0 {
				object.Annotations[contract.NodeFactsAnnotation] = "{"
			}
			if _, err := api.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 0 {
			w.together(all[1:], a)
			nodetest.Eventually(t, nodetest.Patience, func() error { return a.keeps(1, "what was said of a Node") })
			a.mu.Lock()
			a.failures[all[0]] = time.Now() // as of a node that could not be taken
			a.mu.Unlock()
		} else {
			w.together(all, a)
		}
		for _, name := range all {
			if err := api.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.together(nil, a)
	}
	nodetest.Eventually(t, nodetest.Patience, func() error { return a.keeps(0, "") })
	nodetest.Eventually(t, nodetest.Patience, func() error {
		leases, err := w.admin.CoordinationV1().Leases("kube-system").List(t.Context(),
			metav1.ListOptions{LabelSelector: contract.ChassisLeaseLabel + "=" + contract.LeaseOfNode})
		if err == nil && len(leases.Items) > 0 {
			err = fmt.Errorf("%d Leases of nodes are left", len(leases.Items))
		}
		return err
	})
	told, err := a.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range told {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if label.GetName() == "node" {
					t.Errorf("metric %s is still told of node %s", family.GetName(), label.GetValue())
				}
			}
		}
	}
}

// keeps says what a host keeps of nodes, where that is not of so many.
func (c *chassisHost) keeps(of int, what string) error {
	c.misread.mu.Lock()
	said := slices.Collect(maps.Keys(c.misread.said))
	c.misread.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if of > 0 {
		if len(said) != of {
			return fmt.Errorf("%s is not kept: %v", what, said)
		}
		return nil
	}
	if n := len(said) + len(c.members) + len(c.busy) + len(c.failures) + len(c.unreachable); n > 0 {
		return errors.New(fmt.Sprint("the host keeps of nodes that are gone: ", said, c.members, c.busy, c.failures,
			c.unreachable))
	}
	return nil
}
