package trace

import (
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// TestAFirstPacketIsLostOnLinux, with which OVN learns a client's endpoint. Agents of hosted nodes let it pass.
func TestAFirstPacketIsLostOnLinux(t *testing.T) {
	learns := &ovntrace.Flow{UUID: "f", Actions: []string{`commit_lb_aff(vip = "10.96.0.9:80", timeout = 60);`}}
	for name, want := range map[string]int{"l1": 1, "w1": 0, "unknown": 1} {
		tr := &tracing{status: &api.TraceStatus{}, nodes: map[string]*node{
			"l1": {name: "l1"}, "w1": {name: "w1", facts: contract.NodeFacts{Hosted: &contract.Hosted{}}}}}
		w := &way{tracing: tr, leg: leg{node: name}}
		if err := w.flow(learns, nil); err != nil {
			t.Fatal(err)
		}
		if got := len(tr.status.Notes); got != want {
			t.Errorf("on %s: %q", name, tr.status.Notes)
		}
	}
}
