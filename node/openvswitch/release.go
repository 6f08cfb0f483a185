package openvswitch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	want[bridgeMappings], want[mappingsKey] = withMappings(now[bridgeMappings], now[mappingsKey], nil)
	return want
}

// ReleaseBridges takes the bridges that stay, as somebody else has made them, from OVN and clears them: what nobody
// keeps any more would lead NodePorts nowhere. OVN loses them first. A gateway router that is still there would answer
// for the host without the flows.
func (o *Database) ReleaseBridges(ctx context.Context, config nodeconfig.Config, limit time.Duration) error {
	divided := ovsdb.List(o.Client, func(b *vswitch.Bridge) bool { return b.ExternalIDs[FlowsKey] != "" })
	err := o.unmap(ctx, func(mapping string, own bool) bool {
		network, bridge, _ := strings.Cut(mapping, ":")
		return own || network == config.GatewayNetwork &&
			slices.ContainsFunc(divided, func(b *vswitch.Bridge) bool { return b.Name == bridge })
	})
	if err != nil {
		return fmt.Errorf("take bridges from OVN: %w", err)
	}
	if len(divided) == 0 {
		return nil
	}
	if err := o.RoundTrip(ctx, limit); err != nil {
		return fmt.Errorf("OVN has lost its bridges, but they still have flows: %w", err)
	}
	for _, b := range divided {
		installer := &extbridge.Installer{Program: config.OVSOfctl, Timeout: limit}
		if err := o.ClearFlows(ctx, config, installer, b); err != nil {
			return fmt.Errorf("OVN has lost bridge %s, but it is not cleared: %w", b.Name, err)
		}
	}
	return nil
}

// unmap removes entries of ovn-bridge-mappings that are to go; own ones are the agent's. The ports that ovn-controller
// has made on their bridges, and on those with flows, go in the same transaction: ovn-controller makes a port again as
// long as it reads the entry. Where somebody else has an entry for another network on the bridge, it makes that one's
// port again.
func (o *Database) unmap(ctx context.Context, goes func(mapping string, own bool) bool) error {
	o.changing.Lock()
	defer o.changing.Unlock()
	root, err := o.Root()
	if errors.Is(err, errNoRoot) {
		return nil
	}
	if err != nil {
		return err
	}
	own := splitMappings(root.ExternalIDs[mappingsKey])
	kept, left := []string{}, map[string]bool{}
	for _, mapping := range splitMappings(root.ExternalIDs[bridgeMappings]) {
		if goes(mapping, slices.Contains(own, mapping)) {
			_, bridge, _ := strings.Cut(mapping, ":")
			left[bridge] = true
		} else {
			kept = append(kept, mapping)
		}
	}
	own = slices.DeleteFunc(own, func(mapping string) bool { return !slices.Contains(kept, mapping) })
	var operations []libovsdb.Operation
	if mutations := SetKeys("external_ids", root.ExternalIDs, map[string]string{
		bridgeMappings: strings.Join(kept, ","), mappingsKey: strings.Join(own, ","),
	}); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.OpenvSwitchTable, root.UUID, mutations...))
	}
	for _, bridge := range ovsdb.List[vswitch.Bridge](o.Client, nil) {
		if left[bridge.Name] || bridge.ExternalIDs[FlowsKey] != "" {
			operations = append(operations, o.removingPatches(bridge)...)
		}
	}
	return o.Apply(ctx, operations)
}

// SuspendRouter takes the node's gateway router off a gateway's bridge that has lost its flows, until the agent starts:
// it writes its entries of ovn-bridge-mappings again. That of the gateway's network may be somebody else's.
func (o *Database) SuspendRouter(ctx context.Context, config nodeconfig.Config) error {
	err := o.unmap(ctx, func(mapping string, own bool) bool {
		network, bridge, _ := strings.Cut(mapping, ":")
		return bridge == config.GatewayBridge && (own || network == config.GatewayNetwork)
	})
	if err != nil {
		return fmt.Errorf("take bridge %s from OVN: %w", config.GatewayBridge, err)
	}
	return nil
}

// removingPatches returns what takes away the patch ports that ovn-controller has made on a bridge, with their ends on
// the integration bridge.
func (o *Database) removingPatches(bridge *vswitch.Bridge) []libovsdb.Operation {
	var operations []libovsdb.Operation
	for _, uuid := range bridge.Ports {
		port, ok := ovsdb.Get[vswitch.Port](o.Client, uuid)
		if !ok || port.ExternalIDs[localnetPort] == "" {
			continue
		}
		operations = append(operations, MutateRow(vswitch.BridgeTable, bridge.UUID, RemoveFrom("ports", port.UUID)))
		device := o.Device(port.Name)
		if device == nil {
			continue
		}
		if peer := o.Port(device.Options["peer"]); peer != nil {
			if holder := o.BridgeOf(peer.UUID); holder != nil {
				operations = append(operations, MutateRow(vswitch.BridgeTable, holder.UUID, RemoveFrom("ports", peer.UUID)))
			}
		}
	}
	return operations
}
