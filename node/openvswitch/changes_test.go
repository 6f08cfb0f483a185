package openvswitch

import (
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
)

func TestWhatIsChangedIsTold(t *testing.T) {
	has := map[string]string{"ovn-remote": "tcp:192.0.2.1:1", "kept": "yes"}
	want := map[string]string{"ovn-remote": "ssl:192.0.2.1:6642", "ovn-encap-ip": "192.0.2.7", "kept": "yes"}
	got := changed([]libovsdb.Operation{
		MutateRow(vswitch.OpenvSwitchTable, "root", SetKeys("external_ids", has, want)...),
		{Op: libovsdb.OperationInsert, Table: vswitch.BridgeTable, UUID: "new", Row: libovsdb.Row{"name": "br-int"}},
		MutateRow(vswitch.OpenvSwitchTable, "root", libovsdb.Mutation{Column: "bridges",
			Mutator: libovsdb.MutateOperationInsert, Value: libovsdb.UUID{GoUUID: "new"}}),
		{Op: libovsdb.OperationUpdate, Table: vswitch.InterfaceTable, Row: libovsdb.Row{"mtu_request": 1400}},
	})
	const told = "Interface mtu_request, Open_vSwitch bridges, Open_vSwitch external_ids:ovn-encap-ip, " +
		"Open_vSwitch external_ids:ovn-remote, insert Bridge br-int"
	if got != told {
		t.Errorf("told is %q\nwant %q", got, told)
	}
}
