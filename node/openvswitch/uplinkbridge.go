package openvswitch

import (
	"context"
	"errors"
	"fmt"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// UplinkBridge is the [platform.UplinkBridge] of the node's Open vSwitch.
type UplinkBridge struct {
	ovs    *Database
	config nodeconfig.Config
	limit  time.Duration // of ovs-vswitchd
}

var _ platform.UplinkBridge = UplinkBridge{}

// NewUplinkBridge is of the node that the configuration is about. The limit is how long ovs-vswitchd may take.
func NewUplinkBridge(ovs *Database, c nodeconfig.Config, limit time.Duration) UplinkBridge {
	return UplinkBridge{ovs, c, limit}
}

func (b UplinkBridge) Ensure(ctx context.Context, u platform.Uplink) error {
	if err := b.change(ctx, func(root *vswitch.OpenvSwitch) ([]libovsdb.Operation, error) {
		return b.missing(root, u, "")
	}); err != nil {
		return fmt.Errorf("make bridge %s: %w", u.Host, err)
	}
	return b.ovs.AwaitPorts(ctx, b.limit, u.Host)
}

func (b UplinkBridge) Join(ctx context.Context, u platform.Uplink) error {
	if err := b.change(ctx, func(*vswitch.OpenvSwitch) ([]libovsdb.Operation, error) {
		return b.missingPort(u)
	}); err != nil {
		return fmt.Errorf("make device %s a port of bridge %s: %w", u.Adapter, u.Host, err)
	}
	return b.ovs.AwaitPorts(ctx, b.limit, u.Adapter)
}

func (b UplinkBridge) Leave(ctx context.Context, u platform.Uplink) error {
	err := b.change(ctx, func(root *vswitch.OpenvSwitch) ([]libovsdb.Operation, error) {
		bridge := b.ovs.Bridge(u.Host)
		if bridge == nil {
			return nil, nil
		}
		if bridge.ExternalIDs[ovsdb.OwnerMark] == string(b.config.Owner()) {
			return []libovsdb.Operation{removeBridge(root, bridge)}, nil
		}
		operations := []libovsdb.Operation{}
		if port := b.ovs.Port(u.Adapter); port != nil && b.Holder(u.Adapter) == u.Host {
			operations = append(operations, MutateRow(vswitch.BridgeTable, bridge.UUID, RemoveFrom("ports", port.UUID)))
		}
		if mutations := SetKeys("other_config", bridge.OtherConfig, map[string]string{"hwaddr": ""}); len(mutations) > 0 {
			operations = append(operations, MutateRow(vswitch.BridgeTable, bridge.UUID, mutations...))
		}
		return operations, nil
	})
	if err != nil {
		return fmt.Errorf("take device %s from bridge %s: %w", u.Adapter, u.Host, err)
	}
	return nil
}

func (b UplinkBridge) Holder(device string) string {
	port := b.ovs.Port(device)
	if port == nil {
		return ""
	}
	if holder := b.ovs.BridgeOf(port.UUID); holder != nil {
		return holder.Name
	}
	return ""
}

func (b UplinkBridge) Made() (platform.Uplink, bool) {
	bridge := b.ovs.UplinkBridge(b.config.Owner())
	if bridge == nil {
		return platform.Uplink{}, false
	}
	device := bridge.ExternalIDs[SwitchKey]
	return platform.Uplink{Switch: device, Adapter: device, Host: bridge.Name}, true
}

// change writes what is missing, and waits for ovs-vswitchd to take it up.
func (b UplinkBridge) change(
	ctx context.Context, missing func(*vswitch.OpenvSwitch) ([]libovsdb.Operation, error),
) error {
	b.ovs.changing.Lock()
	defer b.ovs.changing.Unlock()
	if !b.ovs.Connected() { // what is known may be history
		return ovsdb.ErrDisconnected
	}
	root, err := b.ovs.Root()
	if err != nil {
		return err
	}
	operations, err := missing(root)
	if err != nil || len(operations) == 0 {
		return err
	}
	if err := b.ovs.Apply(ctx, operations); err != nil {
		return err
	}
	return b.ovs.RoundTrip(ctx, b.limit)
}

// setUp returns what is missing of the bridge that has the adapter and the host's interface.
func (b UplinkBridge) setUp(root *vswitch.OpenvSwitch, u platform.Uplink) ([]libovsdb.Operation, error) {
	bridge, problem := b.missing(root, u, u.Adapter)
	port, err := b.missingPort(u)
	return append(bridge, port...), errors.Join(problem, err)
}

// missing returns what is missing of the bridge and its own port. A bridge that is yet to be made has the device from
// its first moment, if one is named. It passes packets as a learning switch does without any controller: the host
// depends on it.
func (b UplinkBridge) missing(
	root *vswitch.OpenvSwitch, u platform.Uplink, device string,
) ([]libovsdb.Operation, error) {
	settings := BridgeSettings{
		Owner: b.config.Owner(), Name: u.Host, datapath: b.config.DatapathType, FailMode: vswitch.BridgeFailModeStandalone,
		IDs: map[string]string{SwitchKey: u.Switch}, Device: device, mtu: u.MTU,
	}
	if u.MAC != "" {
		settings.config = map[string]string{"hwaddr": u.MAC}
	}
	operations := b.ovs.EnsureBridge(root, settings)
	if u.MTU == 0 {
		return operations, nil
	}
	own, err := b.ovs.ensurePort(b.config.Owner(), u.Host, u.Host, DeviceSettings{kind: TypeInternal, mtu: u.MTU})
	return append(operations, own...), err
}

// missingPort returns what is missing of the adapter's port; nothing while there is no bridge.
func (b UplinkBridge) missingPort(u platform.Uplink) ([]libovsdb.Operation, error) {
	return b.ovs.ensurePort(b.config.Owner(), u.Host, u.Adapter, DeviceSettings{})
}
