package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/ovsdb"
)

// releaseWindows gives the host its adapter back while the agent does not run, and says what it has done. The
// bridges go first, since ovs-vswitchd ends over one without its switch, and the network goes whatever has become
// of them. unreachable is why ovs is nil, where it is.
func releaseWindows(ctx context.Context, config Config, platform *Windows, ovs *openVSwitch, unreachable error) (string, error) {
	_, saved, err := platform.releasable(ctx)
	if err != nil && (saved == nil || errors.Is(err, errForeignNetwork)) {
		return "", err
	}
	removed, left := false, fmt.Errorf("start it and repeat this: %w", unreachable)
	if ovs != nil {
		if removed, left = ovs.removeOwn(ctx, config); removed && left == nil {
			if err := ovs.roundTrip(ctx, takeUpTime); err != nil { // it may be dead
				slog.WarnContext(ctx, "the switch goes before Open vSwitch has left it", "error", err)
			}
		}
	}
	if err := platform.ReleaseUplink(ctx); err != nil {
		return "", err
	}
	if left != nil {
		return "", fmt.Errorf("the host has its adapter for itself, but weft's bridges are still in Open vSwitch's database: %w", left)
	}
	if saved == nil {
		if removed {
			return "the host has its adapters for itself, and weft's bridges are gone", nil
		}
		return "nothing is shared: the host has its adapters for itself", nil
	}
	// Addresses that the host gets later on are its own business.
	if err := platform.saved.remove(); err != nil {
		return "", err
	}
	return fmt.Sprintf("the host has adapter %s for itself again, with the addresses %v", saved.Adapter, saved.Addresses), nil
}

// removeOwn removes the bridges that the agent has made for its node, with all their ports, and its settings. It
// says whether there were any. It does not wait for ovs-vswitchd, which may not run.
func (o *openVSwitch) removeOwn(ctx context.Context, config Config) (removed bool, err error) {
	o.bridges.Lock()
	defer o.bridges.Unlock()
	root, err := o.root()
	if errors.Is(err, errNoRoot) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var operations []libovsdb.Operation
	own := ovsdb.List(o.Client, func(b *vswitch.Bridge) bool { return b.ExternalIDs[ovsdb.OwnerMark] == string(config.owner()) })
	for _, bridge := range own {
		operations = append(operations, mutateRow(vswitch.OpenvSwitchTable, root.UUID, removeFrom("bridges", bridge.UUID)))
	}
	if mutations := setKeys("external_ids", root.ExternalIDs, withoutChassisSettings(config, root.ExternalIDs)); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.OpenvSwitchTable, root.UUID, mutations...))
	}
	return len(operations) > 0, o.apply(ctx, operations)
}

// withoutChassisSettings takes back chassisSettings. Bridge mappings that somebody else has made stay, and so
// does the identity of a chassis that no chassis host has named.
func withoutChassisSettings(config Config, now map[string]string) map[string]string {
	if now[mappingsKey] == "" && now["ovn-remote"] == "" {
		return nil
	}
	want := chassisSettings(config, Uplink{}, now)
	for key := range want {
		want[key] = ""
	}
	want["ovn-bridge-mappings"], want[mappingsKey] = withMappings(now["ovn-bridge-mappings"], now[mappingsKey], nil)
	return want
}
