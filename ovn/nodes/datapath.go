package nodes

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// updateDatapath takes in whether a node runs Windows, and has the Services looked at again whose rows
// depend on that, and the policies whose owners have to know.
func (b *Part) updateDatapath(n *topology.Node) {
	_, before := b.windows[n.Name]
	now := n.Object != nil && n.Windows()
	if now == before {
		return
	}
	if now {
		b.windows[n.Name] = struct{}{}
	} else {
		delete(b.windows, n.Name)
	}
	b.around.DatapathsChanged(len(b.windows) == 0 || now && len(b.windows) == 1)
}

// datapathProblems are what a Windows node's owner is told: what differs for its pods.
func datapathProblems(n *topology.Node) []objects.Problem {
	if !n.Placed || !n.Windows() {
		return nil
	}
	var effects []string
	for _, l := range []capability.Limit{capability.TrackedProtocols, capability.ConntrackTimeouts, capability.HopLimit} {
		effects = append(effects, fmt.Sprintf("Without %s: %s.", l.Feature, l.Effect))
	}
	return []objects.Problem{objects.Limitf(objects.NodeKind, &n.Object.ObjectMeta, windowsDatapath,
		"Open vSwitch on Windows lacks features that it has on Linux, and the pods of this node lack what needs them. %s",
		strings.Join(effects, " "))}
}
