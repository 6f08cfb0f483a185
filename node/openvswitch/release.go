package openvswitch

import (
	"context"
	"errors"
	"fmt"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// RemoveOwn removes the bridges that the agent has made for its node, with all their ports, and its settings. It
// says whether there were any. It does not wait for ovs-vswitchd, which may not run.
func (o *Database) RemoveOwn(ctx context.Context, config nodeconfig.Config) (removed bool, err error) {
	o.changing.Lock()
	defer o.changing.Unlock()
	root, err := o.Root()
	if errors.Is(err, errNoRoot) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var operations []libovsdb.Operation
	own := ovsdb.List(o.Client, func(b *vswitch.Bridge) bool {
		return b.ExternalIDs[ovsdb.OwnerMark] == string(config.Owner())
	})
	for _, bridge := range own {
		operations = append(operations, removeBridge(root, bridge))
	}
	for _, datapath := range ovsdb.List[vswitch.Datapath](o.Client, nil) {
		operations = append(operations, NewZones(o, config).releasing(datapath)...)
	}
	if mutations := SetKeys("external_ids", root.ExternalIDs,
		withoutChassisSettings(config, root.ExternalIDs)); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.OpenvSwitchTable, root.UUID, mutations...))
	}
	return len(operations) > 0, o.Apply(ctx, operations)
}

// withoutChassisSettings takes back chassisSettings. Bridge mappings that somebody else has made stay, and so
// does the identity of a chassis that no chassis host has named.
func withoutChassisSettings(config nodeconfig.Config, now map[string]string) map[string]string {
	if now[mappingsKey] == "" && now["ovn-remote"] == "" {
		return nil
	}
	want := chassisSettings(config, platform.Uplink{}, now)
	for key := range want {
		want[key] = ""
	}
	want["ovn-bridge-mappings"], want[mappingsKey] = withMappings(now["ovn-bridge-mappings"], now[mappingsKey], nil)
	return want
}

// ReleaseFlows clears the bridges that stay, as somebody else has made them: what nobody keeps any more would lead
// NodePorts nowhere. A gateway router that is still there would answer for the host without its flows.
func (o *Database) ReleaseFlows(ctx context.Context, config nodeconfig.Config, limit time.Duration) error {
	for _, b := range ovsdb.List(o.Client, func(b *vswitch.Bridge) bool { return b.ExternalIDs[FlowsKey] != "" }) {
		if o.Holds(b, PatchName(config.NodeName)) {
			return fmt.Errorf("bridge %s keeps its flows as long as it has the port of the node's gateway router: stop "+
				"ovn-controller and run `ovs-vsctl del-port %s`, or delete the Node; then repeat this", b.Name,
				PatchName(config.NodeName))
		}
		installer := &extbridge.Installer{Program: config.OVSOfctl, Timeout: limit}
		if err := o.ClearFlows(ctx, config, installer, b); err != nil {
			return fmt.Errorf("the host has its devices, but bridge %s is not cleared: %w", b.Name, err)
		}
	}
	return nil
}
