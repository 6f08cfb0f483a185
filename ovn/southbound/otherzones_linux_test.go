package southbound

import (
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestNodesOfOtherZones: all zones have one authority, so a node may come to the guard of another zone. There its
// chassis is a remote one, which a zone's own controller writes.
func TestNodesOfOtherZones(t *testing.T) {
	s := newSouthbound(t)
	s.guard.patience = time.Millisecond
	ovsdbtest.Run(t, "ovn-sbctl", append([]string{"--db=" + s.server.Endpoint}, strings.Fields(
		`-- --id=@e create Encap chassis_name=l9 type=geneve ip=192.0.2.9
		 -- --id=@c create Chassis name=l9 hostname=l9 encaps=@e other_config:is-remote=true other_config:datapath-type=system`)...)...)
	list := func(table, of string) string {
		return strings.TrimSpace(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=_uuid", "find",
			table, of))
	}
	chassis, encap := list("Chassis", "name=l9"), list("Encap", "chassis_name=l9")
	s.until("the guard does not see the chassis", func() bool { return s.guard.replica.hasChassis("l9", true) })
	// An administrator has made that of a machine which is no Node.
	ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--id=@e", "create", "Encap", "chassis_name=l7",
		"type=geneve", "ip=192.0.2.77", "--", "create", "Chassis", "name=l7", "encaps=@e")
	s.until("the guard does not see the machine", func() bool { return s.guard.replica.hasChassis("l7", false) })
	names := strings.NewReplacer("{l9}", chassis, "{encap of l9}", encap)
	ends := map[string]string{"l2": s.as("l2"), "l7": s.as("l7"), "l8": s.as("l8"), "l9": s.as("l9")}
	const noPort = "has not given Node l9 its port mgmt-l9 yet"
	for _, c := range []struct{ node, command, refused string }{
		{"l2", "set Chassis {l2} other_config:is-remote=true", "is-remote of a Chassis is none that a node writes"},
		{"l2", "set Chassis {l2} other_config:is-remote=false", "is-remote of a Chassis is none that a node writes"},
		{"l2", "destroy Chassis {l2} -- create Chassis name=l2 other_config:is-remote=true", "is-remote of a Chassis"},
		{"l2", "set Chassis {l2} other_config:datapath-type=netdev", ""},
		{"l2", "set Chassis {l9} other_config:is-remote=false", "another node's"},
		{"l2", "set Port_Binding {pod2} chassis={l9}", "another node's"},
		{"l7", "create Chassis_Private name=l7", ""},
		{"l8", "create Chassis name=l8", "has not given Node l8 its port mgmt-l8 yet"},
		{"l9", "create Chassis_Private name=l9", noPort},
		{"l9", "create Encap chassis_name=l9 type=geneve ip=192.0.2.9", noPort},
		{"l9", "create MAC_Binding logical_port=gw2 datapath={datapath of gw2} ip=192.0.2.7 mac=unknown", noPort},
		{"l9", "create FDB dp_key=1 port_key=2 mac=f7", noPort},
		{"l9", "remove Chassis {l9} other_config is-remote", "another node's"},
		{"l9", "set Chassis {l9} other_config:datapath-type=netdev", "another node's"},
		{"l9", "set Chassis {l9} hostname=l99", "another node's"},
		{"l9", "destroy Chassis {l9}", "another node's"},
		{"l9", "set Encap {encap of l9} options:csum=false", "another node's"},
		{"l9", "set Port_Binding {free} chassis={l9}", "another node's"},
	} {
		s.forgive()
		args := append([]string{"--timeout=100", "--db=" + ends[c.node]},
			strings.Fields(s.names.Replace(names.Replace(c.command)))...)
		_, err := ovsdbtest.Try(t, "ovn-sbctl", args...)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %s: %v; want %q", c.node, c.command, err, c.refused)
		}
	}
	// The node comes to this zone: its controller takes the remote chassis away and gives the node its port.
	ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "destroy", "Chassis", "l9", "--", "destroy", "Encap", encap,
		"--", "create", "Port_Binding", s.names.Replace("datapath={datapath of pod1}"), "tunnel_key=9",
		"logical_port=mgmt-l9", "options:requested-chassis=l9", "external_ids:weft.net/tunnel-addresses=192.0.2.9")
	s.until("the guard does not see the port", func() bool {
		_, err := s.guard.replica.management("l9")
		return err == nil && !s.guard.replica.hasChassis("l9", true)
	})
	ovsdbtest.Run(t, "ovn-sbctl", "--timeout=100", "--db="+ends["l9"], "--id=@e", "create", "Encap", "chassis_name=l9",
		"type=geneve", "ip=192.0.2.9", "--", "create", "Chassis", "name=l9", "encaps=@e")
}
