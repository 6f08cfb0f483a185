package node

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/node/nodeconfig"
)

// TestWhereTheSwitchTakesCommands: ovs-control says so, whatever ovs-database is.
func TestWhereTheSwitchTakesCommands(t *testing.T) {
	for _, c := range []struct {
		database, control string
		want              []string
	}{
		{"tcp:127.0.0.1:16640", "", nil},
		{"tcp:127.0.0.1:16640", "tcp:127.0.0.1:16654", []string{"tcp:127.0.0.1:16654"}},
		{"tcp:127.0.0.1:16640", `unix:C:\openvswitch\ovs-vswitchd.ctl`, []string{`C:\openvswitch\ovs-vswitchd.ctl`}},
		{"unix:/run/openvswitch/db.sock", "unix:/run/other.ctl", []string{"/run/other.ctl"}},
	} {
		config := nodeconfig.Config{OVSDatabase: c.database, OVSControl: c.control, Chassis: nodeconfig.ChassisHosted}
		if got := switchSockets(config); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
		if asked := daemonsOf(config, true); (len(asked) > 0) != (len(c.want) > 0) {
			t.Errorf("%+v: metrics are of %+v", c, asked)
		}
		for _, asked := range daemonsOf(config, false) {
			if asked.Name == "ovs-vswitchd" {
				t.Errorf("%+v: it is asked before it has a bridge, which would end it on Windows", c)
			}
		}
	}
}
