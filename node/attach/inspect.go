package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"time"

	goovs "github.com/digitalocean/go-openvswitch/ovs"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/nodeconfig"
)

// Inspector looks into the integration bridge by `ovs-ofctl` when an ADD has waited for its flows in
// vain, and says at which step they are missing. OVSDB knows nothing of flows. It forks, which is
// fine only because it is rare: one look at a time, and not one after the other while all ADDs of a
// node fail for the same reason.
type Inspector struct {
	ofctl  string // the program
	bridge string // as it dials it
	run    func(ctx context.Context, program string, args ...string) ([]byte, error)
	rest   time.Duration

	mu   sync.Mutex // held during a look
	last time.Time
}

const (
	inspectionTime = 3 * time.Second
	inspectionRest = 10 * time.Second
)

// entryTable is where OVN's flows classify what comes in by a port.
const entryTable = 0

func NewInspector(c nodeconfig.Config) *Inspector {
	i := &Inspector{
		ofctl: c.OVSOfctl, bridge: nodeconfig.IntegrationBridge, run: runProgram, rest: inspectionRest,
	}
	if connection, err := c.OpenFlow(); err == nil { // else ovs-ofctl looks where it was built to
		i.bridge = connection.String()
	}
	return i
}

func runProgram(ctx context.Context, program string, args ...string) ([]byte, error) {
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return output, err
}

// Look describes what br-int does with an OpenFlow port; empty where it is too early for a look.
func (i *Inspector) Look(ctx context.Context, port int) string {
	if !i.mu.TryLock() {
		return ""
	}
	defer i.mu.Unlock()
	if time.Since(i.last) < i.rest {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, inspectionTime)
	defer cancel()
	defer func() { i.last = time.Now() }()
	client := goovs.New(goovs.Exec(func(_ string, args ...string) ([]byte, error) { // which asks for ovs-ofctl alone
		return i.run(ctx, i.ofctl, args...)
	}))
	flows, err := client.OpenFlow.DumpFlowsWithFlowArgs(i.bridge, &goovs.MatchFlow{Table: entryTable})
	if err != nil {
		return "its flows could not be looked at: " + i.unreadable(err)
	}
	if len(flows) == 0 {
		return "br-int has no flows: ovn-controller has never programmed it; see its log, and whether ovn-bridge and " +
			"ovn-remote in external_ids of the Open_vSwitch row are right"
	}
	ours := 0
	for _, flow := range flows {
		if flow.InPort == port {
			ours++
		}
	}
	if ours == 0 {
		return fmt.Sprintf("br-int has flows for other ports (%d in table %d), none for OpenFlow port %d: ovn-controller "+
			"has not claimed the logical port; `weft sbctl find Port_Binding` tells whether the Southbound has it, for this "+
			"chassis", len(flows), entryTable, port)
	}
	text := fmt.Sprintf("br-int has %d flows for OpenFlow port %d: the port is claimed, but ovn-controller has not "+
		"finished", ours, port)
	if stats, err := client.OpenFlow.DumpPort(i.bridge, fmt.Sprint(port)); err == nil {
		text += fmt.Sprintf(" (%d packets from the pod, %d to it)", stats.Received.Packets, stats.Transmitted.Packets)
	}
	return text
}

// unreadable tells an operator what to do about ovs-ofctl.
func (i *Inspector) unreadable(err error) string {
	var failed *goovs.Error
	if !errors.As(err, &failed) {
		return err.Error() // the answer is not what go-openvswitch reads
	}
	switch output := strings.TrimSpace(string(failed.Out)); {
	case errors.Is(failed.Err, exec.ErrNotFound), errors.Is(failed.Err, fs.ErrNotExist):
		return fmt.Sprintf("there is no program %s; install Open vSwitch's tools, or set ovs-ofctl to its path", i.ofctl)
	case errors.Is(failed.Err, context.DeadlineExceeded):
		return fmt.Sprintf("ovs-vswitchd did not answer ovs-ofctl within %v", inspectionTime)
	case output != "":
		return output
	}
	return failed.Err.Error()
}

// explain adds to the failure of a port that got no flows in time what the bridge says about it.
func (a *Attacher) explain(ctx context.Context, attachment cni.Attachment, failure error) error {
	device, attached := a.ovs.AttachedDevice(attachment)
	if !errors.Is(failure, context.DeadlineExceeded) || !attached || device.Ofport == nil || *device.Ofport <= 0 {
		return failure // nobody waits any more, or the failure is before the flows
	}
	if seen := a.inspector.Look(context.WithoutCancel(ctx), *device.Ofport); seen != "" {
		return fmt.Errorf("%w; %s", failure, seen)
	}
	return failure
}
