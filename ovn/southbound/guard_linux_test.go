package southbound

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// southbound is a real server with two chassis and ports, and a guard before it.
type southbound struct {
	testing.TB
	server *ovsdbtest.Process
	guard  *Guard
	names  *strings.Replacer // l1 and so on in braces are those chassis' UUIDs, and names of ports theirs
}

const populate = `
-- --id=@e1 create Encap chassis_name=l1 type=geneve ip=192.0.2.1 -- --id=@l1 create Chassis name=l1 encaps=@e1
-- --id=@e2 create Encap chassis_name=l2 type=geneve ip=192.0.2.2 -- --id=@l2 create Chassis name=l2 encaps=@e2
-- create Chassis_Private name=l1 chassis=@l1 -- create Chassis_Private name=l2 chassis=@l2
-- --id=@d create Datapath_Binding tunnel_key=1
-- create Port_Binding datapath=@d tunnel_key=1 logical_port=pod1 options:requested-chassis=l1 chassis=@l1
-- create Port_Binding datapath=@d tunnel_key=2 logical_port=pod2 options:requested-chassis=l2
-- create Port_Binding datapath=@d tunnel_key=3 logical_port=gw1 type=l3gateway options:l3gateway-chassis=l1
-- create Port_Binding datapath=@d tunnel_key=4 logical_port=gw2 type=l3gateway options:l3gateway-chassis=l2
-- create Port_Binding datapath=@d tunnel_key=5 logical_port=free
-- create Port_Binding datapath=@d tunnel_key=6 logical_port=taken chassis=@l1
-- --id=@h1 create HA_Chassis chassis=@l1 -- --id=@h2 create HA_Chassis chassis=@l2
-- --id=@g1 create HA_Chassis_Group name=one ha_chassis=@h1 -- --id=@g2 create HA_Chassis_Group name=both ha_chassis=@h2
-- create Port_Binding datapath=@d tunnel_key=7 logical_port=cr1 type=chassisredirect ha_chassis_group=@g1
-- create Port_Binding datapath=@d tunnel_key=8 logical_port=cr2 type=chassisredirect ha_chassis_group=@g2
-- --id=@router create Datapath_Binding tunnel_key=2 -- --id=@s1 create Datapath_Binding tunnel_key=3 external_ids:logical-switch=s1
-- create Port_Binding datapath=@router tunnel_key=1 logical_port=rtos-l1 type=patch options:peer=stor-l1
-- create Port_Binding datapath=@s1 tunnel_key=1 logical_port=stor-l1 type=patch options:peer=rtos-l1
-- create Port_Binding datapath=@s1 tunnel_key=2 logical_port=pod3 options:requested-chassis=l1
-- create Port_Binding datapath=@s1 tunnel_key=3 logical_port=idle
-- --id=@ext create Datapath_Binding tunnel_key=4 external_ids:logical-switch=ext
-- create Port_Binding datapath=@ext tunnel_key=1 logical_port=etor2 type=l3gateway options:peer=gw2 options:l3gateway-chassis=l2
-- create Port_Binding datapath=@ext tunnel_key=2 logical_port=localnet2 type=localnet options:network_name=office
-- --id=@near create Datapath_Binding tunnel_key=5 external_ids:logical-switch=near -- --id=@far create Datapath_Binding tunnel_key=6 external_ids:logical-switch=far
-- create Port_Binding datapath=@router tunnel_key=2 logical_port=office type=patch options:peer=near options:chassis-redirect-port=cr1
-- create Port_Binding datapath=@near tunnel_key=1 logical_port=near type=patch options:peer=office
-- create Port_Binding datapath=@near tunnel_key=2 logical_port=localnet3 type=localnet options:network_name=office
-- create Port_Binding datapath=@router tunnel_key=3 logical_port=dmz type=patch options:peer=far options:chassis-redirect-port=cr1
-- create Port_Binding datapath=@far tunnel_key=1 logical_port=far type=patch options:peer=dmz
-- create Port_Binding datapath=@far tunnel_key=2 logical_port=localnet4 type=localnet options:network_name=dmz
-- --id=@yard create Datapath_Binding tunnel_key=90 external_ids:logical-switch=yard -- --id=@ours create Datapath_Binding tunnel_key=91 external_ids:logical-switch=ours
-- create Port_Binding datapath=@router tunnel_key=5 logical_port=yard type=patch options:peer=toyard options:chassis-redirect-port=cr1
-- create Port_Binding datapath=@yard tunnel_key=1 logical_port=toyard type=patch options:peer=yard
-- create Port_Binding datapath=@yard tunnel_key=2 logical_port=localnet5 type=localnet options:network_name=yard
-- create Port_Binding datapath=@ours tunnel_key=1 logical_port=etor3 type=l3gateway options:peer=gw2 options:l3gateway-chassis=l2
-- create Port_Binding datapath=@ours tunnel_key=2 logical_port=localnet6 type=localnet options:network_name=dmz external_ids:weft.net/owner=Node/l2 external_ids:weft.net/granted-network=""
-- create Port_Binding datapath=@ours tunnel_key=3 logical_port=localnet7 type=localnet options:network_name=yard external_ids:weft.net/owner=Node/l2 external_ids:weft.net/granted-network=yard
-- --id=@join create Datapath_Binding tunnel_key=7 external_ids:logical-switch=join
-- create Port_Binding datapath=@router tunnel_key=4 logical_port=rtoj type=patch options:peer=jtor
-- create Port_Binding datapath=@join tunnel_key=1 logical_port=jtor type=patch options:peer=rtoj
-- create Port_Binding datapath=@join tunnel_key=2 logical_port=jtor-gw1 type=l3gateway options:l3gateway-chassis=l1
-- --id=@host create Datapath_Binding tunnel_key=8 external_ids:logical-switch=host
-- create Port_Binding datapath=@host tunnel_key=1 logical_port=mgmt-l1 options:requested-chassis=l1 external_ids:weft.net/tunnel-addresses="192.0.2.1"
-- create Port_Binding datapath=@host tunnel_key=2 logical_port=mgmt-l2 options:requested-chassis=l2 external_ids:weft.net/tunnel-addresses="{tunnels}"
-- create MAC_Binding datapath=@d logical_port=gw1 ip=192.0.2.9 mac=m9
-- create MAC_Binding datapath=@d logical_port=gw2 ip=192.0.2.9 mac=m9
-- create MAC_Binding datapath=@router logical_port=rtos-l1 ip=192.0.2.9 mac=m9
-- create FDB dp_key=1 port_key=1 mac=f1 -- create FDB dp_key=1 port_key=2 mac=f2
-- create BFD logical_port=gw1 dst_ip=192.0.2.9 src_port=50000 disc=1 status=down chassis_name=l1
`

// tunnels are the addresses that Node l2 has.
var tunnels = func() []string {
	list := []string{"192.0.2.2", "2001:db8::2"}
	for i := range bounds["Encap"].rows {
		list = append(list, fmt.Sprint("198.51.100.", i))
	}
	return list
}()

func newSouthbound(t testing.TB) *southbound {
	return newSouthboundBy(t, func(server string) (endpoint string) { return server })
}

// newSouthboundBy has the guard reach the server in another way.
func newSouthboundBy(t testing.TB, way func(server string) (endpoint string)) *southbound {
	database := ovsdbtest.Southbound(t)
	s := &southbound{TB: t, server: ovsdbtest.Server(t, database)}
	ovsdbtest.Run(t, "ovn-sbctl", append([]string{"--db=" + s.server.Endpoint},
		strings.Fields(strings.Replace(populate, "{tunnels}", strings.Join(tunnels, ","), 1))...)...)
	endpoint := way(s.server.Endpoint)
	client := ovsdbtest.Connect(t, database, endpoint, tables...)
	s.guard = &Guard{replica: &replica{Client: client}, metrics: newMetrics(), log: ovsdbtest.Logger(t),
		patience: patience, dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", strings.TrimPrefix(endpoint, "unix:"))
		}}
	var pairs []string
	for _, list := range [][2]string{{"Chassis", "name,_uuid"}, {"Encap", "chassis_name,_uuid"},
		{"Port_Binding", "logical_port,_uuid,datapath"},
		{"MAC_Binding", "logical_port,_uuid"}, {"FDB", "mac,_uuid"}} {
		kind := map[string]string{"Encap": "encap of ", "MAC_Binding": "neighbour of "}[list[0]]
		for _, line := range strings.Split(strings.TrimSpace(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint,
			"--format=csv", "--no-headings", "--data=bare", "--columns="+list[1], "list", list[0])), "\n") {
			words := strings.Split(strings.TrimSpace(line), ",")
			pairs = append(pairs, "{"+kind+words[0]+"}", words[1])
			if len(words) > 2 {
				pairs = append(pairs, "{datapath of "+words[0]+"}", words[2])
			}
		}
	}
	s.names = strings.NewReplacer(pairs...)
	return s
}

// as is where the guard takes who connects for a node.
func (s *southbound) as(node string) (endpoint string) {
	path := filepath.Join(s.TempDir(), node+".sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				if err := s.guard.carry(ctx, conn, node); err != nil && ctx.Err() == nil {
					s.Logf("%s: %v", node, err)
				}
			})
		}
	})
	s.Cleanup(func() {
		cancel()
		listener.Close()
		all.Wait()
	})
	return "unix:" + path
}

// until waits for what comes soon, on a busy machine less so.
func (s *southbound) until(what string, condition func() bool) {
	s.Helper()
	for deadline := time.Now().Add(nodetest.Patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal(what)
		}
	}
}

// TestNodesWriteTheirOwnAlone asks with OVN's own program what a node needs, and what it may not have.
func TestNodesWriteTheirOwnAlone(t *testing.T) {
	s := newSouthbound(t)
	db := s.as("l2")
	for _, c := range []struct{ command, refused string }{
		{"set Chassis {l2} other_config:datapath-type=netdev", ""},
		{"set Chassis_Private l2 nb_cfg=7", ""},
		{"set Port_Binding {pod2} chassis={l2} up=true", ""},
		{"clear Port_Binding {pod2} chassis", ""},
		{"set Port_Binding {gw2} chassis={l2}", ""},
		{"set Port_Binding {cr2} chassis={l2}", ""},
		{"set Port_Binding {free} chassis={l2}", ""},
		{"create MAC_Binding logical_port=gw2 datapath={datapath of gw2} ip=192.0.2.7 mac=unknown", ""},
		{"set MAC_Binding {neighbour of gw2} mac=ma timestamp=7", ""},
		{"create MAC_Binding logical_port=rtoj datapath={datapath of rtoj} ip=192.0.2.7 mac=unknown",
			"no neighbours on the node"},
		// by gw2's network
		{"create MAC_Binding logical_port=office datapath={datapath of office} ip=192.0.2.7 mac=unknown", ""},
		// an administrator has granted it
		{"create MAC_Binding logical_port=yard datapath={datapath of yard} ip=192.0.2.7 mac=unknown", ""},
		// it says itself that it is there
		{"create MAC_Binding logical_port=dmz datapath={datapath of dmz} ip=192.0.2.7 mac=unknown",
			"no neighbours on the node"},
		{"create MAC_Binding logical_port=rtos-l1 datapath={datapath of rtos-l1} ip=192.0.2.7 mac=unknown",
			"no neighbours on the node"},
		{"create MAC_Binding logical_port=gw1 datapath={datapath of gw1} ip=192.0.2.7 mac=unknown",
			"no neighbours on the node"},
		{"create MAC_Binding logical_port=gw2 datapath={datapath of pod3} ip=192.0.2.7 mac=unknown", "is of its datapath"},
		{"create MAC_Binding logical_port=pod2 datapath={datapath of pod2} ip=192.0.2.7 mac=unknown",
			"no neighbours on the node"},
		{"create MAC_Binding logical_port=nobody datapath={datapath of pod2} ip=192.0.2.7 mac=unknown",
			"Port_Binding has no row"},
		{"set MAC_Binding {neighbour of gw1} mac=ma", "of port gw1 of table MAC_Binding is another node's"},
		{"set MAC_Binding {neighbour of gw1} timestamp=7", "another node's"},
		// Each ovn-controller says when a packet of the neighbour has last met its flows.
		{"set MAC_Binding {neighbour of rtos-l1} timestamp=7", ""},
		{"set MAC_Binding {neighbour of rtos-l1} mac=ma timestamp=7", "of port rtos-l1 of table MAC_Binding is another"},
		{"set MAC_Binding {neighbour of rtos-l1} mac=ma", "of port rtos-l1 of table MAC_Binding is another"},
		{"set MAC_Binding {neighbour of gw2} logical_port=gw1", "column logical_port"},
		{"destroy MAC_Binding {neighbour of gw1}", "deletes no row"},
		{"create FDB dp_key=1 port_key=2 mac=f3", ""},
		{"create FDB dp_key=1 port_key=1 mac=f4", "of port pod1 on the node"},
		{"create FDB dp_key=4 port_key=2 mac=f4", "of port localnet2 on the node"},
		{"set FDB {f2} timestamp=7", ""},
		{"set FDB {f1} timestamp=7", "another node's"},
		{"set FDB {f2} port_key=1", "another node's"},
		{"set FDB {f1} port_key=2", ""}, // it has moved here
		{"destroy FDB {f1}", "deletes no row"},
		{"create Controller_Event event_type=empty_lb_backends chassis={l2}",
			"table Controller_Event is none that a node writes"},
		{"set Port_Binding {pod2} encap={encap of l2} additional_chassis={l2}", ""},
		{"set Port_Binding {pod2} encap={encap of l1}", "another node's"},
		{"set Port_Binding {pod2} additional_chassis={l1}", "another node's"},
		{"set Chassis {l2} encaps={encap of l1}", "another node's"},
		{"set Port_Binding {pod2} options:additional-chassis-activated=l2", ""},
		{"set Port_Binding {pod2} options:requested-chassis=l1", "option requested-chassis"},
		{"remove Port_Binding {pod2} options requested-chassis", "option requested-chassis"},
		{"clear Port_Binding {pod2} options", "option requested-chassis"},
		{"set Port_Binding {rtoj} chassis={l2}", "another node's"},
		{"set Port_Binding {localnet2} up=true", "another node's"},
		{"create Chassis_Private name=l2b", "another node's"},
		{"create Chassis name=l3", "another node's"},
		{"create Encap chassis_name=l1 type=geneve ip=192.0.2.3", "another node's"},
		{"set Encap {encap of l2} type=vxlan", "nodes speak geneve"},
		{"--id=@e create Encap chassis_name=l2 type=vxlan ip=192.0.2.2 -- add Chassis {l2} encaps @e", "nodes speak geneve"},
		{"--id=@e create Encap chassis_name=l2 type=geneve ip=198.51.100.1 options:csum=true options:is_default=true -- " +
			"add Chassis {l2} encaps @e", ""},
		{"--id=@e create Encap chassis_name=l2 type=geneve ip=\"2001:db8::2\" -- add Chassis {l2} encaps @e", ""},
		{"--id=@e create Encap chassis_name=l2 type=geneve ip=flow -- add Chassis {l2} encaps @e", "no unicast address"},
		{"--id=@e create Encap chassis_name=l2 type=geneve ip=\"2001:db8:0::2\" -- add Chassis {l2} encaps @e",
			"no unicast address"},
		{"--id=@e create Encap chassis_name=l2 type=geneve ip=0.0.0.0 -- add Chassis {l2} encaps @e", "no unicast address"},
		{"--id=@e create Encap chassis_name=l2 type=geneve ip=192.0.2.9 -- add Chassis {l2} encaps @e",
			"with the tunnel address 192.0.2.9"},
		{"set Encap {encap of l2} ip=192.0.2.1", "with the tunnel address 192.0.2.1"},
		{"set Encap {encap of l2} ip=flow", "no unicast address"},
		{"set Encap {encap of l2} options:dst_port=53", "option dst_port=53"},
		{"set Encap {encap of l2} options:csum=maybe", "option csum=maybe"},
		{"--id=@e create Encap chassis_name=l2 type=geneve ip=198.51.100.2 options:remote_ip=flow -- add Chassis {l2} " +
			"encaps @e", "option remote_ip=flow"},
		{"set Chassis {l1} other_config:datapath-type=netdev", "another node's"},
		{"set Chassis_Private l1 nb_cfg=7", "another node's"},
		{"destroy Chassis {l1}", "another node's"},
		{"set Chassis {l2} name=l1", "column name"},
		{"set Port_Binding {pod1} chassis={l2}", "row pod1 of table Port_Binding is another node's"},
		{"set Port_Binding {pod1} up=false", "another node's"},
		{"set Port_Binding {pod1} options:requested-chassis=l2", "another node's"},
		{"clear Port_Binding {pod1} chassis", "another node's"},
		{"set Port_Binding {gw1} chassis={l2}", "another node's"},
		{"set Port_Binding {cr1} chassis={l2}", "another node's"},
		{"set Port_Binding {taken} chassis={l2}", "another node's"},
		{"set Port_Binding {pod2} chassis={l1}", "another node's"},
		{"set Port_Binding {pod2} mac=unknown", "column mac"},
		{"destroy Port_Binding {pod2}", "deletes no row"},
		{"set SB_Global . nb_cfg=1", "table SB_Global"},
		{"create RBAC_Role name=mine", "table RBAC_Role"},
	} {
		s.forgive() // on a busy machine so many programs take more of the server's time than a node has
		args := append([]string{"--timeout=100", "--db=" + db}, strings.Fields(s.names.Replace(c.command))...)
		_, err := ovsdbtest.Try(t, "ovn-sbctl", args...)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v; want %q", c.command, err, c.refused)
		}
	}
}

// TestNobodyGetsRoundTheGuard asks by hand what OVN's programs would not.
func TestNobodyGetsRoundTheGuard(t *testing.T) {
	s := newSouthbound(t)
	db := s.as("l2")
	update := func(rest string) string {
		return `["OVN_Southbound",{"table":"Port_Binding","where":[["_uuid","==",["uuid","{pod1}"]]],` + rest + `}]`
	}
	for _, c := range []struct{ what, text string }{
		{"another spelling of a key", update(`"op":"update","Op":"select","row":{"up":false}`)},
		{"a key twice", update(`"op":"select","op":"update","row":{"up":false}`)},
		{"an escaped key", update(`"\u006fp":"update","row":{"up":false}`)},
		{"a set of one chassis",
			`["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","{pod2}"]]],"row":{"chassis":["set",[["uuid","{l1}"]]]}}]`},
		{"a mutation of the chassis",
			`["OVN_Southbound",{"op":"mutate","table":"Port_Binding","where":[["_uuid","==",["uuid","{pod2}"]]],"mutations":[["chassis","insert",["uuid","{l1}"]]]}]`},
		{"a mutation of the chassis that looks like an update",
			`["OVN_Southbound",{"op":"mutate","table":"Port_Binding","where":[["_uuid","==",["uuid","{pod2}"]]],"row":{"chassis":["set",[]]},"mutations":[["chassis","insert",["uuid","{l1}"]]]}]`},
		{"all rows", `["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[],"row":{"up":false}}]`},
		{"rows by another column",
			`["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[["logical_port","==","pod1"]],"row":{"up":false}}]`},
		{"an update that is a mutation, too", update(`"op":"update","row":{},"mutations":[["up","insert",false]]`)},
		{"a mutation of one value",
			`["OVN_Southbound",{"op":"mutate","table":"FDB","where":[["_uuid","==",["uuid","{f2}"]]],"mutations":[["port_key","-=",1]]}]`},
		{"the host name of another node",
			`["OVN_Southbound",{"op":"update","table":"Chassis","where":[["_uuid","==",["uuid","{l2}"]]],"row":{"hostname":"l1"}}]`},
		{"the host name of a node that is yet to come",
			`["OVN_Southbound",{"op":"update","table":"Chassis","where":[["_uuid","==",["uuid","{l2}"]]],"row":{"hostname":"l9"}}]`},
		{"a wait that waits", `["OVN_Southbound",{"op":"wait","table":"Chassis","timeout":60000,"where":[],"columns":["name"],"until":"==","rows":[]}]`},
		{"all neighbours", `["OVN_Southbound",{"op":"delete","table":"MAC_Binding","where":[]}]`},
		{"a UUID of its choice",
			`["OVN_Southbound",{"op":"insert","table":"MAC_Binding","uuid":"{pod1}","row":{"logical_port":"gw2","datapath":["uuid","{datapath of gw2}"],"ip":"192.0.2.7","mac":"m"}}]`},
		{"an address at its own port, that moves",
			`["OVN_Southbound",{"op":"insert","table":"FDB","uuid-name":"f","row":{"dp_key":1,"port_key":2,"mac":"f9"}},{"op":"update","table":"FDB","where":[["_uuid","==",["named-uuid","f"]]],"row":{"port_key":1}}]`},
		{"an address that moves there in two steps",
			`["OVN_Southbound",{"op":"insert","table":"FDB","uuid-name":"f","row":{"dp_key":1,"port_key":2,"mac":"f9"}},{"op":"update","table":"FDB","where":[["_uuid","==",["named-uuid","f"]]],"row":{"timestamp":1}},{"op":"update","table":"FDB","where":[["_uuid","==",["named-uuid","f"]]],"row":{"port_key":1}}]`},
		{"a tunnel that moves", `["OVN_Southbound",{"op":"insert","table":"Encap","uuid-name":"e","row":{"chassis_name":"l2","type":"geneve","ip":"198.51.100.2"}},{"op":"update","table":"Encap","where":[["_uuid","==",["named-uuid","e"]]],"row":{"ip":"flow"}}]`},
		{"a tunnel's option, afterwards",
			`["OVN_Southbound",{"op":"insert","table":"Encap","uuid-name":"e","row":{"chassis_name":"l2","type":"geneve","ip":"198.51.100.2"}},{"op":"mutate","table":"Encap","where":[["_uuid","==",["named-uuid","e"]]],"mutations":[["options","insert",["map",[["dst_port","53"]]]]]}]`},
		{"one name for two rows",
			`["OVN_Southbound",{"op":"insert","table":"FDB","uuid-name":"f","row":{"dp_key":1,"port_key":2,"mac":"f9"}},{"op":"insert","table":"FDB","uuid-name":"f","row":{"dp_key":1,"port_key":2,"mac":"f8"}}]`},
		{"a table as a whole", `["OVN_Southbound",{"op":"select","table":"Logical_Flow","where":[]}]`},
		{"another database", `["_Server",{"op":"comment","comment":"x"}]`},
		{"a member that means nothing to ovn-controller",
			`["OVN_Southbound",{"op":"comment","comment":"x","lock":"ovn_northd"}]`},
		{"a column that is none",
			`["OVN_Southbound",{"op":"insert","table":"FDB","row":{"dp_key":1,"port_key":2,"mac":"f9","_uuid":["uuid","{pod1}"]}}]`},
		{"a second operation", `["OVN_Southbound",{"op":"comment","comment":"x"},{"op":"delete","table":"Chassis","where":[["_uuid","==",["uuid","{l1}"]]]}]`},
	} {
		s.forgive()
		before := ovsdbtest.Run(t, "ovsdb-client", "dump", s.server.Endpoint, "OVN_Southbound")
		out, _ := ovsdbtest.Try(t, "ovsdb-client", "--timeout=100", "transact", db, s.names.Replace(c.text))
		if !strings.Contains(out, "permission error") {
			t.Errorf("%s: %s; want a permission error", c.what, out)
		}
		if after := ovsdbtest.Run(t, "ovsdb-client", "dump", s.server.Endpoint, "OVN_Southbound"); after != before {
			t.Errorf("%s has changed the database", c.what)
		}
	}
	refused := func() float64 {
		var m dto.Metric
		if err := s.guard.metrics.refused.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	before := refused()
	many := `["OVN_Southbound"` + strings.Repeat(`,{"op":"comment","comment":""}`, maxOperations+1) + "]"
	conn, err := net.Dial("unix", strings.TrimPrefix(db, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if out, err := ask(conn, "transact", many); err != nil || !strings.Contains(out, "are more than") {
		t.Errorf("any number of operations: %.200s %v", out, err)
	}
	if out, err := ask(conn, "transact", strings.Replace(many, `{"op":"comment","comment":""},`, "", 1)); err != nil ||
		strings.Contains(out, "are more than") {
		t.Errorf("%d operations: %.200s %v", maxOperations, out, err)
	}
	long := `["OVN_Southbound",{"op":"comment","comment":"` + strings.Repeat("x", maxOperation) + `"}]`
	if out, err := ask(conn, "transact", long); err != nil || !strings.Contains(out, "is larger than") {
		t.Errorf("an operation of any length: %.200s %v", out, err)
	}
	before += 2
	if out, err := ask(conn, "steal", `["ovn_northd"]`); err != nil || strings.Contains(out, "true") ||
		refused() != before+1 {
		t.Errorf("northd's lock was stolen: %s %v", out, err)
	}
	for _, table := range []string{"Chassis", "Port_Binding", "Datapath_Binding"} {
		s.forgive()
		through, direct := ovsdbtest.Run(t, "ovn-sbctl", "--db="+db, "list", table),
			ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "list", table)
		if through != direct {
			t.Errorf("a node does not read what there is in table %s", table)
		}
	}
}

// TestRowsThatAreNewToTheReplica: a node may have seen a row before the guard has.
func TestRowsThatAreNewToTheReplica(t *testing.T) {
	s := newSouthbound(t)
	s.guard.patience = nodetest.Patience
	db := s.as("l2")
	for i := range 20 {
		s.forgive()
		port := fmt.Sprintf("new%d", i)
		ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--id=@d", "create", "Datapath_Binding",
			fmt.Sprintf("tunnel_key=%d", 10+i), "--",
			"create", "Port_Binding", "datapath=@d", "tunnel_key=1", "logical_port="+port, "options:requested-chassis=l2")
		if _, err := ovsdbtest.Try(t, "ovn-sbctl", "--timeout=100", "--db="+db, "set", "Port_Binding", port,
			s.names.Replace("chassis={l2}")); err != nil {
			t.Errorf("%s: %v", port, err)
		}
	}
}
