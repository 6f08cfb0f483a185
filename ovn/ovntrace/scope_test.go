package ovntrace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// threeNodes is a network like Weft's, whose datapaths have their names for UUIDs.
func threeNodes() *network {
	var datapaths, ports []libovsdb.Row
	datapath := func(name string) {
		datapaths = append(datapaths, libovsdb.Row{"_uuid": libovsdb.UUID{GoUUID: name},
			"external_ids": libovsdb.OvsMap{GoMap: map[any]any{"name": name}}})
	}
	port := func(name, datapath, peer, mac string) {
		ports = append(ports, libovsdb.Row{"logical_port": name, "datapath": libovsdb.UUID{GoUUID: datapath}, "mac": mac,
			"options": libovsdb.OvsMap{GoMap: map[any]any{"peer": peer}}})
	}
	link := func(router, address, to string) {
		port(router+"-"+to, router, to+"-"+router, "0a:58:00:00:00:01 "+address)
		port(to+"-"+router, to, router+"-"+to, "router")
	}
	datapath("cluster")
	datapath("join")
	link("cluster", "100.64.0.1/16", "join")
	for i := range 3 {
		node := fmt.Sprint("l", i+1)
		gateway, outside := "gr-"+node, "ext-"+node
		for _, name := range []string{node, gateway, outside} {
			datapath(name)
		}
		link("cluster", fmt.Sprintf("10.244.%d.1/24", i), node)
		link(gateway, fmt.Sprintf("100.64.0.%d/16", i+2), "join")
		link(gateway, fmt.Sprintf("192.0.2.%d/24", i+10), outside)
	}
	port("nowhere", "l1", "", "0a:58:00:00:00:02 10.9.0.1/24")
	return newNetwork(datapaths, ports)
}

func text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestScopeFollowsThePacket: another run is made as long as the packet meets what is out of the scope.
func TestScopeFollowsThePacket(t *testing.T) {
	for _, c := range []struct {
		name, to, output, first, wider string
	}{
		{"a pod", "10.244.1.5", text(t, "denied.txt"), "cluster l1 l2", ""},
		{"a Service", "10.96.0.10", text(t, "service.txt"), "cluster l1", "cluster l1 l2"},
		{"an address outside", "198.51.100.1", `ingress(dp="cluster", inport="cluster-l1")
------------------------------------------
egress(dp="join", inport="join-cluster", outport="join-gr-l1")
--------------------------------------------------------------
ingress(dp="gr-l1", inport="gr-l1-join")
----------------------------------------
`, "cluster l1", "cluster ext-l1 gr-l1 join l1"},
		{"a network that nodes share", "100.64.0.3", "", "cluster l1", ""},
		{"no output", "10.244.1.5", "", "cluster l1 l2", ""},
	} {
		p := web()
		p.Src, p.Dst = netip.MustParseAddr("10.244.0.5"), netip.MustParseAddr(c.to)
		s := newScope(threeNodes(), p)
		s.enters("l1")
		if got := strings.Join(slices.Sorted(maps.Keys(s.datapaths)), " "); got != c.first {
			t.Errorf("%s: begins with %s, want %s", c.name, got, c.first)
		}
		wider := s.widened(c.output)
		if wider == nil != (c.wider == "") {
			t.Errorf("%s: another run: %t", c.name, wider != nil)
		}
		if wider == nil {
			continue
		}
		if got := strings.Join(slices.Sorted(maps.Keys(wider.datapaths)), " "); got != c.wider {
			t.Errorf("%s: goes on with %s, want %s", c.name, got, c.wider)
		}
		if wider.widened(c.output) != nil {
			t.Errorf("%s: the same output widens the scope again", c.name)
		}
	}
}

// TestAddressesThatComeOnTheWay: a set may have had them, and then the run is made again with them.
func TestAddressesThatComeOnTheWay(t *testing.T) {
	output := text(t, "two-endpoints.txt")
	trace, err := Parse(output)
	if err != nil {
		t.Fatal(err)
	}
	endpoints := trace.Endpoints()
	if len(endpoints) != 2 {
		t.Fatalf("the output has the endpoints %v", endpoints)
	}
	for member, again := range map[string]bool{endpoints[0].Addr().String(): true, endpoints[1].Addr().String(): true,
		netip.PrefixFrom(endpoints[1].Addr(), 30).String(): true, "10.1.2.3": false, "10.1.2.0/24": false,
		"0a:58:00:00:00:01": false} {
		s := newScope(&network{}, web())
		if s.keepsMember(member) != strings.HasPrefix(member, "0a:") {
			t.Errorf("%s is in the scope: %t", member, s.keepsMember(member))
		}
		wider := s.widened(output)
		if (wider != nil) != again {
			t.Errorf("a set without %s: another run: %t", member, wider != nil)
		}
		if wider != nil && !wider.keepsMember(member) {
			t.Errorf("%s is out of the scope of the run that was made for it", member)
		}
	}
}

// TestAsk: of all tables, ovn-trace is to read less of logical flows alone.
func TestAsk(t *testing.T) {
	s := newScope(&network{}, web())
	s.datapaths["one"], s.datapaths["two"] = true, true
	const monitor = `{"method":"%s","id":7,"params":["OVN_Southbound",["monid","x"],{"Logical_Flow":[{"columns":["match"]%s}],` +
		`"Port_Binding":[{"columns":["mac"]}]}%s]}`
	const where = `,"where":[["logical_dp_group","!=",["set",[]]],["logical_datapath","==",["uuid","one"]],` +
		`["logical_datapath","==",["uuid","two"]]]`
	var asked, want strings.Builder
	for _, c := range []struct{ method, where, more string }{{"monitor_cond_since", where, `,"00000000-0000"`},
		{"monitor_cond", where, ""}, {"monitor", "", ""}, {"transact", "", ""}} {
		fmt.Fprintf(&asked, monitor, c.method, "", c.more)
		fmt.Fprintf(&want, monitor, c.method, c.where, c.more)
	}
	const others = `{"method":"echo","id":"echo","params":[]}{"id":"echo","result":[],"error":null}` +
		`{"method":"monitor_cond","id":1,"params":[]}`
	asked.WriteString(others)
	want.WriteString(others)
	var got bytes.Buffer
	if err := s.ask(&got, strings.NewReader(asked.String())); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	values := func(text string) (list []string) {
		for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
			var value any
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			plain, _ := json.Marshal(value)
			list = append(list, string(plain))
		}
		return list
	}
	if got, want := values(got.String()), values(want.String()); !slices.Equal(got, want) {
		t.Errorf("the server is asked\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, broken := range []string{`[]`, `{"method":"monitor_cond","params":{}}`, `{"method":"monitor_cond","params":[1,2,3]}`} {
		if err := s.ask(io.Discard, strings.NewReader(broken)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", broken, err)
		}
	}
}
