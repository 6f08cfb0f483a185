package extbridge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/digitalocean/go-openvswitch/ovs"
)

// RefusedFlows are flows that a bridge does not take; each error has the flow and Open vSwitch's reason.
type RefusedFlows []error

func (r RefusedFlows) Error() string {
	return fmt.Sprintf("the bridge refuses %d of its flows, the others are in force: %v", len(r), errors.Join(r...))
}

// Unwrap returns what is wrong with each.
func (r RefusedFlows) Unwrap() []error { return r }

func (r RefusedFlows) error() error {
	if len(r) == 0 {
		return nil
	}
	return r
}

// A table of the bridge by which no packet comes, and a cookie that no flow in force has: to try flows.
const (
	tableTrial  = 250
	cookieTrial = 0x7766 << 48
)

// findRefused looks for flows that the bridge does not take, and says whether it has found any. ovs-vswitchd refuses a
// transaction for one flow of it. The trials are transactions that add flows where no packet comes by, and remove them
// again: the bridge goes on with what it has.
func (i *Installer) findRefused(ctx context.Context, bridge string, flows []*ovs.Flow) bool {
	if i.try(ctx, bridge, nil) != nil {
		return false // it takes nothing at all
	}
	before := len(i.refused)
	i.bisect(ctx, bridge, flows)
	return len(i.refused) > before
}

func (i *Installer) bisect(ctx context.Context, bridge string, flows []*ovs.Flow) {
	err := i.try(ctx, bridge, flows)
	if err == nil || ctx.Err() != nil {
		return
	}
	if half := len(flows) / 2; half > 0 {
		i.bisect(ctx, bridge, flows[:half])
		i.bisect(ctx, bridge, flows[half:])
		return
	}
	if i.refused == nil {
		i.refused = map[uint64]error{}
	}
	reason, _, _ := strings.Cut(err.Error(), "\n")
	i.refused[flows[0].Cookie] = errors.New(strings.TrimPrefix(reason, "pipe error: exit status 1: "))
}

// try says whether the bridge takes the flows.
func (i *Installer) try(ctx context.Context, bridge string, flows []*ovs.Flow) error {
	return i.client(ctx).OpenFlow.AddFlowBundle(bridge, func(tx *ovs.FlowTransaction) error {
		tx.Add(&ovs.Flow{Table: tableTrial, Cookie: cookieTrial, Actions: []ovs.Action{ovs.Drop()}})
		for _, flow := range flows {
			trial := *flow
			trial.Table, trial.Cookie = tableTrial, cookieTrial
			tx.Add(&trial)
		}
		tx.Delete(&ovs.MatchFlow{Cookie: cookieTrial, Table: ovs.AnyTable})
		return tx.Commit()
	})
}
