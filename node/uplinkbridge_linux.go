package node

import (
	"context"
	"fmt"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// uplinkBridge is the [UplinkBridge] of the node's Open vSwitch.
type uplinkBridge struct {
	ovs    *openVSwitch
	config nodeconfig.Config
	limit  time.Duration // of ovs-vswitchd
}

func (b uplinkBridge) Ensure(ctx context.Context, u platform.Uplink) error {
	if err := b.change(ctx, func(root *vswitch.OpenvSwitch) ([]libovsdb.Operation, error) {
		existed := b.ovs.bridge(u.Host) != nil
		operations := b.ovs.ensureBridge(root, uplinkBridgeSettings(b.config, u))
		if !existed {
			return operations, nil
		}
		own, err := b.ovs.ensurePort(b.config.Owner(), u.Host, u.Host, deviceSettings{kind: typeInternal, mtu: u.MTU})
		return append(operations, own...), err
	}); err != nil {
		return fmt.Errorf("make bridge %s: %w", u.Host, err)
	}
	return b.ovs.awaitPorts(ctx, b.limit, u.Host)
}

func (b uplinkBridge) Join(ctx context.Context, u platform.Uplink) error {
	if err := b.change(ctx, func(*vswitch.OpenvSwitch) ([]libovsdb.Operation, error) {
		return b.ovs.ensurePort(b.config.Owner(), u.Host, u.Adapter, deviceSettings{})
	}); err != nil {
		return fmt.Errorf("make device %s a port of bridge %s: %w", u.Adapter, u.Host, err)
	}
	return b.ovs.awaitPorts(ctx, b.limit, u.Adapter)
}

func (b uplinkBridge) Leave(ctx context.Context, u platform.Uplink) error {
	err := b.change(ctx, func(root *vswitch.OpenvSwitch) ([]libovsdb.Operation, error) {
		bridge := b.ovs.bridge(u.Host)
		if bridge == nil {
			return nil, nil
		}
		if bridge.ExternalIDs[ovsdb.OwnerMark] == string(b.config.Owner()) {
			return []libovsdb.Operation{mutateRow(vswitch.OpenvSwitchTable, root.UUID, removeFrom("bridges", bridge.UUID))}, nil
		}
		operations := []libovsdb.Operation{}
		if port := b.ovs.port(u.Adapter); port != nil && b.Holder(u.Adapter) == u.Host {
			operations = append(operations, mutateRow(vswitch.BridgeTable, bridge.UUID, removeFrom("ports", port.UUID)))
		}
		if mutations := setKeys("other_config", bridge.OtherConfig, map[string]string{"hwaddr": ""}); len(mutations) > 0 {
			operations = append(operations, mutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
		}
		return operations, nil
	})
	if err != nil {
		return fmt.Errorf("take device %s from bridge %s: %w", u.Adapter, u.Host, err)
	}
	return nil
}

func (b uplinkBridge) Holder(device string) string {
	port := b.ovs.port(device)
	if port == nil {
		return ""
	}
	if holder := b.ovs.bridgeOf(port.UUID); holder != nil {
		return holder.Name
	}
	return ""
}

func (b uplinkBridge) Made() (platform.Uplink, bool) {
	bridge := b.ovs.uplinkBridge(b.config.Owner())
	if bridge == nil {
		return platform.Uplink{}, false
	}
	device := bridge.ExternalIDs[switchKey]
	return platform.Uplink{Switch: device, Adapter: device, Host: bridge.Name}, true
}

// change writes what is missing, and waits for ovs-vswitchd to take it up.
func (b uplinkBridge) change(ctx context.Context, missing func(*vswitch.OpenvSwitch) ([]libovsdb.Operation, error)) error {
	b.ovs.bridges.Lock()
	defer b.ovs.bridges.Unlock()
	if !b.ovs.Connected() { // what is known may be history
		return ovsdb.ErrDisconnected
	}
	root, err := b.ovs.root()
	if err != nil {
		return err
	}
	operations, err := missing(root)
	if err != nil || len(operations) == 0 {
		return err
	}
	if err := b.ovs.apply(ctx, operations); err != nil {
		return err
	}
	return b.ovs.roundTrip(ctx, b.limit)
}
