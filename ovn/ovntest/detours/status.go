package detours

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/ovn/part"
)

// status is a Detour's, as a merge patch has it.
type status struct {
	Conditions         part.Conditions `json:"conditions"`
	Nodes              int             `json:"nodes"`
	ObservedGeneration int64           `json:"observedGeneration"`
}

// At is part of [part.Body].
func (s status) At(now time.Time) any {
	s.Conditions = s.Conditions.At(now)
	return s
}

func (p *Part) status(d *Detour) status {
	nodes := len(slices.Collect(p.on(d)))
	ready := d.Ready(inUse, fmt.Sprintf("routes by %s: %d", d.NextHop, nodes))
	switch {
	case d.Wrong != "":
		ready = d.Ready(wrong, d.Wrong)
	case nodes == 0:
		ready = d.Ready(noNode, fmt.Sprintf("spec.nextHop: no node's gateway has %s in its network; give an "+
			"address in the network of the nodes' gateways", d.NextHop))
	}
	return status{part.Conditions{ready}, nodes, d.Generation}
}
