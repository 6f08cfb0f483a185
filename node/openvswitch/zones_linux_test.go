package openvswitch_test

import (
	"bytes"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// An Open vSwitch before 3.3 has no limits of zones. Who asks for none is not told so.
func TestZonesOfAnOldOpenVSwitch(t *testing.T) {
	database := ovsdbtest.OpenVSwitch(t)
	database.Schema = bytes.Replace(database.Schema, []byte(`"limit"`), []byte(`"quota"`), 1)
	ovs := &openvswitch.Database{
		Client: ovsdbtest.Connect(t, database, ovsdbtest.Server(t, database).Endpoint, openvswitch.Tables...),
	}
	empty := libovsdb.Row{"external_ids": openvswitch.StringMap(nil)}
	if err := ovs.Apply(t.Context(), []libovsdb.Operation{
		openvswitch.InsertRow(vswitch.OpenvSwitchTable, "", empty)}); err != nil {
		t.Fatal(err)
	}
	if err := ovs.WaitFor(t.Context(), func() bool {
		return len(ovsdb.List[vswitch.OpenvSwitch](ovs.Client, nil)) == 1
	}); err != nil {
		t.Fatal(err)
	}
	z := newZones(t, ovs)
	z.datapath(empty)
	if err := z.bound(100); err == nil || !strings.Contains(err.Error(), "3.3") {
		t.Errorf("bounded: %v", err)
	}
	if err := z.bound(0); err != nil {
		t.Errorf("not bounded: %v", err)
	}
}
