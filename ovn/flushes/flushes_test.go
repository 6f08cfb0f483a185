package flushes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/northbound/northboundtest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
)

// TestPart plays what becomes of a Service's endpoints, and time that passes. It says after each step what nodes are
// shown.
func TestPart(t *testing.T) {
	p := New(part.NewOutbox())
	udp := func(options string, vips map[string]string) []ovsdb.Row {
		return []ovsdb.Row{{Key: "udp", Model: &nb.LoadBalancer{Vips: vips, Options: map[string]string{options: "true"}}}}
	}
	first, both := map[string]string{"10.96.0.10:53": "10.244.0.3:53"},
		map[string]string{"10.96.0.10:53": "10.244.0.3:53,10.244.0.4:53"}
	for _, step := range []struct {
		name  string
		rows  []ovsdb.Row // nil: what is expected comes
		shown string
	}{
		{"two endpoints", udp("ct_flush", both), ""},
		{"one is gone", udp("ct_flush", first), ""},
		{"a first pause is over", nil, "map[10.96.0.10:53:10.244.0.4:53]"},
		{"and a second one", nil, ""},
		{"the later round", nil, "map[10.96.0.10:53:10.244.0.4:53]"},
		{"is over", nil, ""},
		{"it comes back, and both go at once", udp("ct_flush", both), ""},
		{"one goes", udp("ct_flush", first), ""},
		{"and is back in time", udp("ct_flush", both), ""},
		{"so that it is not shown", nil, ""},
		{"what is not flushed", udp("reject", first), ""},
		{"has no paths", nil, ""},
	} {
		if step.rows != nil {
			p.Follow("default/dns", PathsOf(step.rows))
		} else {
			p.Take(part.NewBatch(p.TakeExpected(), nil))
		}
		shown := ""
		for _, row := range northboundtest.Change(t, p, northbound.FlushOwner("default/dns")).Rows {
			shown += fmt.Sprint(row.Model.(*nb.LoadBalancer).Vips)
		}
		if shown != step.shown {
			t.Errorf("%s: shown is %q, want %q", step.name, shown, step.shown)
		}
		p.Clean()
	}
	for range 4 {
		p.Take(part.NewBatch(p.TakeExpected(), nil))
	}
	for _, owner := range p.Dirty(true) {
		t.Errorf("%s is kept", owner)
	}
	if p.Take(part.NewBatch([]part.Event{part.Signal{What: part.Again, Name: "Flush/default/dns"}}, nil)); !dirty(p,
		"default/dns") {
		t.Error("its rows are asked for again, and it is not dirty")
	}
}

func dirty(p *Part, service string) bool {
	var names []ovsdb.Owner
	for _, owner := range p.Dirty(false) {
		names = append(names, owner)
	}
	return slices.Contains(names, northbound.FlushOwner(service))
}
