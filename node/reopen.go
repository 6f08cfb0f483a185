package node

import (
	"context"
	"log/slog"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/openvswitch"
)

// keepPortsOpen looks again at ports in error until ctx ends.
func (a *agent) keepPortsOpen(ctx context.Context) error {
	if a.platform.PortType() == "" {
		return nil
	}
	tick := time.NewTicker(a.reopenPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.reopenPorts(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// reopenPorts has ovs-vswitchd try again to open the ports that it could not open. It does so by itself only when its
// database changes, while Hyper-V's management, which makes their vNICs, may have come back since. Whoever waits for
// the ports sees what comes of it.
func (a *agent) reopenPorts(ctx context.Context) {
	ports := a.ovs.Refused(a.platform.PortType())
	if len(ports) == 0 || !a.ovs.Connected() {
		return
	}
	root, err := a.ovs.Root()
	if err != nil {
		return
	}
	slog.InfoContext(ctx, "ovs-vswitchd is to open ports that it could not open before", "ports", ports)
	ctx, cancel := context.WithTimeout(ctx, reopenTime)
	defer cancel()
	if _, err := a.ovs.Transact(ctx, openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID,
		libovsdb.Mutation{Column: "next_cfg", Mutator: libovsdb.MutateOperationAdd, Value: 1})); err != nil {
		slog.WarnContext(ctx, "ovs-vswitchd cannot be told to open ports again", "ports", ports, "error", err)
	}
}

const reopenTime = 5 * time.Second
