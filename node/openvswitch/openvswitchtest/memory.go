// Package openvswitchtest gives tests a node's Open_vSwitch database in memory, and a stand-in for those who read it.
package openvswitchtest

import (
	"context"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// New is a database that the openvswitch service has just made.
func New(t testing.TB) *openvswitch.Database {
	t.Helper()
	database := ovsdbtest.OpenVSwitch(t)
	ovs := &openvswitch.Database{
		Client: ovsdbtest.Connect(t, database, ovsdbtest.Memory(t, database), openvswitch.Tables...),
	}
	insert := openvswitch.InsertRow(vswitch.OpenvSwitchTable, "", libovsdb.Row{})
	if _, err := ovs.Transact(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	err := ovs.WaitFor(t.Context(), func() bool {
		return len(ovsdb.List[vswitch.OpenvSwitch](ovs.Client, nil)) == 1
	})
	if err != nil {
		t.Fatal(err)
	}
	return ovs
}

// Vswitchd is a stand-in for ovs-vswitchd: it takes up what is in the database.
type Vswitchd struct {
	Refuses string // a device that it cannot open
}

// Run does its work until ctx ends.
func (d *Vswitchd) Run(ctx context.Context, ovs *openvswitch.Database) {
	for ctx.Err() == nil {
		changed := ovs.Changed()
		for _, device := range ovsdb.List[vswitch.Interface](ovs.Client, nil) {
			port := 7
			if device.Name == d.Refuses {
				port = -1
			}
			if device.Ofport == nil || *device.Ofport != port {
				_, _ = ovs.Transact(ctx, openvswitch.UpdateRow(vswitch.InterfaceTable, device.UUID, libovsdb.Row{"ofport": port}))
			}
		}
		if root, err := ovs.Root(); err == nil && root.CurCfg != root.NextCfg {
			_, _ = ovs.Transact(ctx,
				openvswitch.UpdateRow(vswitch.OpenvSwitchTable, root.UUID, libovsdb.Row{"cur_cfg": root.NextCfg}))
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// InstallFlows does what ovs-vswitchd and ovn-controller do for each of the devices, until ctx ends: a pod's gets
// flows when its port has the platform's type.
func InstallFlows(
	ctx context.Context, ovs *openvswitch.Database, portType func() string, devices func() []*vswitch.Interface,
) {
	for ctx.Err() == nil {
		changed := ovs.Changed()
		for _, device := range devices() {
			want := "true"
			if _, pod := openvswitch.AttachmentOf(device); pod && device.Type != portType() {
				want = "" // Open vSwitch has not opened the device
			}
			if device.ExternalIDs[openvswitch.InstalledKey] != want {
				_, _ = ovs.Transact(ctx, openvswitch.MutateRow(vswitch.InterfaceTable, device.UUID,
					openvswitch.SetKeys("external_ids", device.ExternalIDs, map[string]string{openvswitch.InstalledKey: want})...))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
