package openvswitch

import (
	"context"
	"log/slog"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/ovsdb"
)

// reopenTime bounds telling ovs-vswitchd to open ports again.
const reopenTime = 5 * time.Second

// Refused lists the ports with a type of the platform's that Open vSwitch has tried to open in vain.
func (o *Database) Refused(kind string) []string {
	var names []string
	for _, device := range ovsdb.List(o.Client, func(d *vswitch.Interface) bool {
		return d.Type == kind && d.Ofport != nil && *d.Ofport <= 0
	}) {
		names = append(names, device.Name)
	}
	return names
}

// Reopen has ovs-vswitchd try again to open the ports of a type that it could not open. It does so by itself only
// when its database changes, while Hyper-V's management, which makes their vNICs, may have come back since. Whoever
// waits for the ports sees what comes of it.
func (o *Database) Reopen(ctx context.Context, kind string) {
	ports := o.Refused(kind)
	if len(ports) == 0 || !o.Connected() {
		return
	}
	root, err := o.Root()
	if err != nil {
		return
	}
	slog.InfoContext(ctx, "ovs-vswitchd is to open ports that it could not open before", "ports", ports)
	ctx, cancel := context.WithTimeout(ctx, reopenTime)
	defer cancel()
	if _, err := o.Transact(ctx, MutateRow(vswitch.OpenvSwitchTable, root.UUID,
		libovsdb.Mutation{Column: "next_cfg", Mutator: libovsdb.MutateOperationAdd, Value: 1})); err != nil {
		slog.WarnContext(ctx, "ovs-vswitchd cannot be told to open ports again", "ports", ports, "error", err)
	}
}
