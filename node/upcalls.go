package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/dpctl"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/unixctl"
)

// Periods of the question whether packets reach ovs-vswitchd.
const (
	// upcallsAwait is for a datapath whose packets have not been seen to reach it.
	upcallsAwait = 10 * time.Second
	// upcallsProbe is for all others: a datapath that counts from zero again, as after its module was loaded anew. The
	// answer has a line for each port, and takes ovs-vswitchd milliseconds on a node with hundreds of pods.
	upcallsProbe = 10 * time.Minute
)

// upcalls judges by a datapath's counters whether packets reach ovs-vswitchd.
type upcalls struct {
	lost bool // all were, as of the last look
}

// judge says after what time to look again, and what is wrong. That all are lost has to be seen twice: the datapath may
// have had packets before its ovs-vswitchd listened.
func (u *upcalls) judge(datapaths []dpctl.Datapath) (next time.Duration, problem error) {
	i := slices.IndexFunc(datapaths, dpctl.Datapath.UpcallsLost)
	before := u.lost
	u.lost = i >= 0
	switch {
	case u.lost && before:
		return upcallsAwait, fmt.Errorf("no packet reaches ovs-vswitchd: datapath %s has lost all that it had no flow for, "+
			"so neither the host's bridges nor pods have a network; restart ovs-vswitchd (systemctl restart ovs-vswitchd), "+
			"and install Open vSwitch 3.1.1 or later: 3.1.0 does this if it starts in the first 10 seconds after the boot",
			datapaths[i].Name)
	case !u.lost && slices.ContainsFunc(datapaths, dpctl.Datapath.Used):
		return upcallsProbe, nil
	}
	return upcallsAwait, nil
}

// watchUpcalls keeps the note of whether packets reach ovs-vswitchd, until ctx ends.
func (a *agent) watchUpcalls(ctx context.Context) error {
	var u upcalls
	for ctx.Err() == nil {
		signal.Sleep(ctx, a.lookAtUpcalls(ctx, &u))
	}
	return nil
}

// lookAtUpcalls says after what time to look again.
func (a *agent) lookAtUpcalls(ctx context.Context, u *upcalls) (next time.Duration) {
	datapaths, err := a.datapaths(ctx)
	if err != nil { // it has no bridge yet, starts, or is dead, which others tell
		return upcallsAwait
	}
	next, problem := u.judge(datapaths)
	a.health.Note(health.Upcalls, upcallsLost, problem)
	return next
}

// datapaths are those of the node's ovs-vswitchd.
func (a *agent) datapaths(ctx context.Context) ([]dpctl.Datapath, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTime)
	defer cancel()
	err := errors.New("ovs-vswitchd has no control socket")
	for _, socket := range a.switchSockets() {
		var answer string
		if answer, err = unixctl.Call(ctx, socket, dpctl.Show); err == nil {
			return dpctl.ParseShow(answer)
		}
	}
	return nil, err
}
