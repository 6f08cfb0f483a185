package ovn

import (
	"strings"

	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovn/objects"
)

// updateDatapath takes in whether a node runs Windows, and has the Services looked at again whose rows
// depend on that, and the policies whose owners have to know.
func (b *nodeBook) updateDatapath(n *placement) {
	_, before := b.windows[n.name]
	now := n.object != nil && n.windows()
	if now == before {
		return
	}
	if now {
		b.windows[n.name] = struct{}{}
	} else {
		delete(b.windows, n.name)
	}
	b.around.datapathsChanged(len(b.windows) == 0 || now && len(b.windows) == 1)
}

// datapathProblems are what a Windows node's owner is told: what differs for its pods.
func datapathProblems(n *placement) []objects.Problem {
	if !n.placed || !n.windows() {
		return nil
	}
	var effects []string
	for _, l := range []capability.Limit{capability.TrackedProtocols, capability.ConntrackTimeouts, capability.HopLimit} {
		effects = append(effects, l.Feature+": "+l.Effect)
	}
	return []objects.Problem{objects.Limitf(objects.NodeKind, &n.object.ObjectMeta, "WindowsDatapath",
		"Open vSwitch on Windows cannot do all that it can on Linux, and weft leaves out what depends on it. It lacks %s",
		strings.Join(effects, ". It lacks "))}
}
