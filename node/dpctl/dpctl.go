// Package dpctl reads what ovs-vswitchd answers to commands about its datapaths (ovs-dpctl(8); lib/dpctl.c).
package dpctl

import (
	"fmt"
	"strings"
)

// Show is the command that tells of all datapaths. The answer has a line for each of their ports.
const Show = "dpctl/show"

// Datapath is one of ovs-vswitchd's datapaths. The kernel's and its counters outlive ovs-vswitchd.
type Datapath struct {
	// Name has the type, as in "system@ovs-system".
	Name string
	// Hit counts packets that met a flow, and Missed those for which ovs-vswitchd had to find one (upcalls). Lost counts
	// those that were dropped on the way to ovs-vswitchd. On Windows no packet is counted as lost.
	Hit, Missed, Lost uint64
	// Flows is how many the datapath has now.
	Flows uint64
}

// UpcallsLost says that there were packets for ovs-vswitchd, and that none has reached it. Flows come only from packets
// that have, so there are none to meet.
func (d Datapath) UpcallsLost() bool { return d.Hit == 0 && d.Missed > 0 && d.Lost >= d.Missed }

// Used says that packets have reached ovs-vswitchd, or flows that it has made.
func (d Datapath) Used() bool { return d.Hit > 0 || d.Missed > d.Lost }

// ParseShow reads the answer to [Show].
func ParseShow(answer string) (datapaths []Datapath, err error) {
	for line := range strings.Lines(answer) {
		line = strings.TrimRight(line, "\r\n")
		if name, begins := strings.CutSuffix(line, ":"); begins && !strings.HasPrefix(line, " ") {
			datapaths = append(datapaths, Datapath{Name: name})
			continue
		}
		name, counts, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name != "lookups" && name != "flows" {
			continue
		}
		if len(datapaths) == 0 {
			return nil, fmt.Errorf("%s: %q is of no datapath", Show, line)
		}
		d := &datapaths[len(datapaths)-1]
		if name == "lookups" {
			_, err = fmt.Sscanf(counts, "hit:%d missed:%d lost:%d", &d.Hit, &d.Missed, &d.Lost)
		} else {
			_, err = fmt.Sscanf(counts, "%d", &d.Flows)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q of datapath %s: %w", Show, line, d.Name, err)
		}
	}
	return datapaths, nil
}
