package openvswitch

import (
	"context"
	"fmt"
	"slices"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/nodeconfig"
)

// FlowsKey is the key in external_ids of a Bridge: the bridge has flows of the agent.
const FlowsKey = "weft.net/flows"

// localnetPort is ovn-controller's key in external_ids of the ports that it makes for a network outside, on both
// bridges: the logical port.
const localnetPort = "ovn-localnet-port"

// PatchName is how ovn-controller names the bridge's port to the node's gateway router.
func PatchName(node string) string { return "patch-localnet-" + node + "-to-br-int" }

// Dividing returns what a bridge needs beside its flows: the mark, and, where host and gateway router share
// an address, that NORMAL switches nothing between their ports. Each would answer for the other's address.
func (o *Database) Dividing(bridge *vswitch.Bridge, patch string, shared bool) []libovsdb.Operation {
	operations := o.protecting(bridge, patch, shared)
	if mutations := SetKeys("external_ids", bridge.ExternalIDs, map[string]string{FlowsKey: "true"}); len(mutations) > 0 {
		operations = append(operations, MutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
	}
	return operations
}

func (o *Database) Undividing(bridge *vswitch.Bridge, patch string) []libovsdb.Operation {
	mutations := SetKeys("external_ids", bridge.ExternalIDs, map[string]string{FlowsKey: ""})
	return append(o.protecting(bridge, patch, false), MutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
}

// protecting sets whether the host's port and the gateway router's are protected from each other.
func (o *Database) protecting(bridge *vswitch.Bridge, patch string, protected bool) []libovsdb.Operation {
	var operations []libovsdb.Operation
	for _, name := range []string{bridge.Name, patch} {
		port := o.Port(name)
		if port != nil && port.Protected != protected && slices.Contains(bridge.Ports, port.UUID) {
			operations = append(operations, UpdateRow(vswitch.PortTable, port.UUID, libovsdb.Row{"protected": protected}))
		}
	}
	return operations
}

// Holds says whether a bridge has a port of that name.
func (o *Database) Holds(bridge *vswitch.Bridge, name string) bool {
	port := o.Port(name)
	return port != nil && slices.Contains(bridge.Ports, port.UUID)
}

// ClearFlows removes a bridge's flows, and what else it has had for them.
func (o *Database) ClearFlows(
	ctx context.Context, c nodeconfig.Config, installer *extbridge.Installer, b *vswitch.Bridge,
) error {
	installer.Keep = false
	if _, err := installer.Apply(ctx, c.BridgeTarget(b.Name), nil); err != nil {
		return err
	}
	if err := o.Apply(ctx, o.Undividing(b, PatchName(c.NodeName))); err != nil {
		return fmt.Errorf("bridge %s has no flows any more: %w", b.Name, err)
	}
	return nil
}
