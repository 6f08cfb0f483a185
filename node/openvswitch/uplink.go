package openvswitch

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

// TakeUpTime is how long ovs-vswitchd may take for what was written to its database.
const TakeUpTime = 20 * time.Second

// SwitchKey is the key in external_ids of a Bridge that has the uplink: the switch that the bridge was made for
// ([platform.Uplink.Switch]). On Windows this is the ID of the HNS network, and on Linux the network device.
const SwitchKey = "weft.net/switch"

// Removing returns what takes a bridge away, whoever has made it.
func (o *Database) Removing(name string) []libovsdb.Operation {
	root, err := o.Root()
	bridge := o.Bridge(name)
	if err != nil || bridge == nil {
		return nil
	}
	return []libovsdb.Operation{removeBridge(root, bridge)}
}

// removeBridge takes a bridge from those of ovs-vswitchd; its rows go with it.
func removeBridge(root *vswitch.OpenvSwitch, bridge *vswitch.Bridge) libovsdb.Operation {
	return MutateRow(vswitch.OpenvSwitchTable, root.UUID, RemoveFrom("bridges", bridge.UUID))
}

// UplinkBridge is the bridge that the agent has made for an uplink.
func (o *Database) UplinkBridge(owner ovsdb.Owner) *vswitch.Bridge {
	return first(ovsdb.List(o.Client, func(b *vswitch.Bridge) bool {
		_, marked := b.ExternalIDs[SwitchKey]
		return marked && b.ExternalIDs[ovsdb.OwnerMark] == string(owner)
	}))
}

// ClearingUplink returns what makes a switch void for Open vSwitch. With ports it is one whose vNICs go with it; keep
// leaves the uplink's bridge.
func (o *Database) ClearingUplink(owner ovsdb.Owner, ports, keep bool) []libovsdb.Operation {
	root, err := o.Root()
	if err != nil {
		return nil
	}
	var operations []libovsdb.Operation
	if bridge := o.UplinkBridge(owner); bridge != nil && !keep {
		operations = append(operations, removeBridge(root, bridge))
	}
	integration := o.Bridge(nodeconfig.IntegrationBridge)
	if integration == nil || !ports {
		return operations
	}
	if device := o.Device(platform.ManagementDevice); device != nil {
		operations = append(operations, o.unplugging(integration, device)...)
	}
	for _, device := range o.Attached() {
		operations = append(operations, Leaving(device)...)
	}
	return operations
}

// RoundTrip returns when ovs-vswitchd has done all that is in its database now, as ovs-vsctl waits
// for it: by a number that one side raises and the other copies.
func (o *Database) RoundTrip(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	root, err := o.Root()
	if err != nil {
		return err
	}
	target := root.NextCfg + 1
	_, err = o.Transact(ctx, MutateRow(vswitch.OpenvSwitchTable, root.UUID,
		libovsdb.Mutation{Column: "next_cfg", Mutator: libovsdb.MutateOperationAdd, Value: 1}))
	if err != nil {
		return err
	}
	err = o.WaitFor(ctx, func() bool {
		now, err := o.Root()
		return err == nil && now.CurCfg >= target
	})
	if err != nil {
		return fmt.Errorf("ovs-vswitchd has not taken up its database within %v", limit)
	}
	return nil
}

// AwaitPorts returns when ovs-vswitchd uses the devices.
func (o *Database) AwaitPorts(ctx context.Context, limit time.Duration, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var problem error
	err := o.WaitFor(ctx, func() bool {
		for _, name := range names {
			device := o.Device(name)
			if device == nil {
				problem = fmt.Errorf("device %s is no port", name)
				return false
			}
			// The bridge's own port has OpenFlow port 65534, other numbers are from 1.
			if device.Ofport == nil || *device.Ofport <= 0 {
				problem = fmt.Errorf("device %s cannot be used by Open vSwitch: %s", name, DeviceProblem(device))
				return false
			}
		}
		return true
	})
	if err != nil {
		return problem
	}
	return nil
}
