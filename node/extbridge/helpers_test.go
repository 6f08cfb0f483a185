package extbridge

import (
	"regexp"
	"strings"
	"testing"
)

// helperPort is a match of a port whose packets the driver's helpers read.
var helperPort = regexp.MustCompile(`^priority=\d+,(tcp|udp)6?,.*tp_(src|dst)=(21|69),`)

// What the driver's helpers would read gets to no ct: by what comes first in the first table, and in tables that commit
// what has come in fragments. Where there are no helpers, no flow is about their ports.
func TestHelpersGetNothing(t *testing.T) {
	for name, c := range map[string]struct {
		bridge Bridge
		first  int // flows of the first table
		later  int // flows of the others
	}{
		"shared":         {example(nil), 48, 64},
		"routed":         {example(func(b *Bridge) { b.Routed = true }), 48, 64},
		"own":            {example(func(b *Bridge) { b.HostAddresses = false }), 32, 32},
		"no helpers":     {example(func(b *Bridge) { b.FTP = true }), 0, 0},
		"another system": {example(func(b *Bridge) { b.HyperV = false }), 0, 0},
	} {
		first, later, commits, highest := 0, map[int]int{}, map[int]bool{}, map[int]int{}
		for _, flow := range Flows(c.bridge, exampleEntries) {
			text := words(t, flow)
			switch about := helperPort.MatchString(text); {
			case about && flow.Table == tableClassify:
				first++
				if strings.Contains(text, "ct(") {
					t.Errorf("%s: %s", name, text)
				}
			case about:
				later[flow.Table]++
			case strings.Contains(text, "ct_state=-trk"): // fragments, which are put together
			default:
				highest[flow.Table] = max(highest[flow.Table], flow.Priority)
			}
			commits[flow.Table] = commits[flow.Table] || strings.Contains(text, "ct(commit")
		}
		all := 0
		for table := range commits {
			if all += later[table]; c.later > 0 && commits[table] && (later[table] != 16 ||
				highest[table] >= 100) {
				t.Errorf("%s: table %d commits, and has %d flows about the ports", name, table, later[table])
			}
		}
		if first != c.first || all != c.later {
			t.Errorf("%s: %d flows of the first table, %d of others", name, first, all)
		}
	}
}
