package node

import (
	"context"
	"fmt"
	"slices"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/nodeconfig"
)

// flowsKey marks a bridge that has flows of the agent's.
const flowsKey = "weft.net/flows"

// patchName is how ovn-controller names the bridge's port to the node's gateway router.
func patchName(node string) string { return "patch-localnet-" + node + "-to-br-int" }

// dividing returns what a bridge needs beside its flows: the mark, and, where host and gateway router share
// an address, that NORMAL switches nothing between their ports. Each would answer for the other's address.
func (o *openVSwitch) dividing(bridge *vswitch.Bridge, patch string, shared bool) []libovsdb.Operation {
	operations := o.protecting(bridge, patch, shared)
	if mutations := setKeys("external_ids", bridge.ExternalIDs, map[string]string{flowsKey: "true"}); len(mutations) > 0 {
		operations = append(operations, mutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
	}
	return operations
}

func (o *openVSwitch) undividing(bridge *vswitch.Bridge, patch string) []libovsdb.Operation {
	mutations := setKeys("external_ids", bridge.ExternalIDs, map[string]string{flowsKey: ""})
	return append(o.protecting(bridge, patch, false), mutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
}

// protecting sets whether the host's port and the gateway router's are protected from each other.
func (o *openVSwitch) protecting(bridge *vswitch.Bridge, patch string, protected bool) []libovsdb.Operation {
	var operations []libovsdb.Operation
	for _, name := range []string{bridge.Name, patch} {
		port := o.port(name)
		if port != nil && port.Protected != protected && slices.Contains(bridge.Ports, port.UUID) {
			operations = append(operations, updateRow(vswitch.PortTable, port.UUID, libovsdb.Row{"protected": protected}))
		}
	}
	return operations
}

// holds says whether a bridge has a port of that name.
func (o *openVSwitch) holds(bridge *vswitch.Bridge, name string) bool {
	port := o.port(name)
	return port != nil && slices.Contains(bridge.Ports, port.UUID)
}

// clearFlows removes a bridge's flows, and what else it has had for them.
func (o *openVSwitch) clearFlows(ctx context.Context, c nodeconfig.Config, installer *extbridge.Installer, b *vswitch.Bridge) error {
	installer.Keep = false
	if _, err := installer.Apply(ctx, c.BridgeTarget(b.Name), nil); err != nil {
		return err
	}
	if err := o.apply(ctx, o.undividing(b, patchName(c.NodeName))); err != nil {
		return fmt.Errorf("bridge %s has no flows any more: %w", b.Name, err)
	}
	return nil
}
