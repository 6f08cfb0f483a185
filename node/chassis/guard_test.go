//go:build linux

package chassis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

func testGuard() *guard {
	return &guard{node: "win1", claimed: func(address netip.Addr) string {
		if address == netip.MustParseAddr("192.0.2.99") {
			return "linux1"
		}
		return ""
	}}
}

// throughGuard returns what is left of text.
func throughGuard(g *guard, text string) (left string, trusted bool, err error) {
	near, far := net.Pipe()
	go func() {
		_, _ = io.WriteString(far, text) // the guard may end first
		far.Close()
	}()
	conn := g.through(near, func() { trusted = true })
	defer conn.Close()
	all, err := io.ReadAll(conn)
	return string(all), trusted, err
}

// update2 is as ovsdb-server(7) has it, with the root row's external_ids.
func update2(kind string, settings ...string) string {
	var pairs []any
	for i := 0; i+1 < len(settings); i += 2 {
		pairs = append(pairs, []string{settings[i], settings[i+1]})
	}
	text, err := json.Marshal(map[string]any{"method": "update2", "id": nil, "params": []any{"monid", map[string]any{
		"Open_vSwitch": map[string]any{"8f6a": map[string]any{kind: map[string]any{"external_ids": []any{"map", pairs}}}},
	}}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestWhatANodesDatabaseMayNotHave(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"another chassis's name", update2("initial", "system-id", "linux1"), "set it to win1"},
		{"another chassis's name, later", update2("modify", "system-id", "linux1"), "set it to win1"},
		{"another bridge, which may have a path for a name", update2("initial", "ovn-bridge", "../../openvswitch/br-int"),
			"br-int"},
		{"a bridge of the chassis host's", update2("insert", "ovn-bridge-remote", "unix:/run/openvswitch/br-int.mgmt"),
			"remove the key"},
		{"a Southbound by socket, which asks for no certificate", update2("initial", "ovn-remote",
			"unix:/run/ovn/ovnsb_db.sock"), "ssl:HOST:PORT"},
		{"a Southbound that listens", update2("modify", "ovn-remote", "ssl:192.0.2.1:6642,ptcp:6642"), "ssl:HOST:PORT"},
		{"another node's tunnel address", update2("initial", "ovn-encap-ip", "192.0.2.10,192.0.2.99"), "Node linux1"},
		{"the same in IPv6's clothes", update2("initial", "ovn-encap-ip", "::ffff:192.0.2.99"), "Node linux1"},
		{"no single host's address", update2("initial", "ovn-encap-ip", "127.0.0.1"), "one host has"},
		{"every host's address", update2("initial", "ovn-encap-ip", "224.0.0.1"), "one host has"},
		{"no address", update2("initial", "ovn-encap-ip", "linux1"), "not an IP address"},
		{"in a reply", `{"id":1,"error":null,"result":[false,"0",{"Open_vSwitch":{"1":{"initial":{"external_ids":["map",[["system-id","x"]]]}}}}]}`, "win1"},
		{"in the first version's update",
			`{"method":"update","id":null,"params":[null,{"Open_vSwitch":{"1":{"new":{"external_ids":["map",[["system-id","x"]]]}}}}]}`, "win1"},
		{"with escapes", `{"params":["m",{"Open\u005fvSwitch":{"1":{"initial":{"external\u005fids":["map",[["system\u002did","x"]]]}}}}]}`, "win1"},
		{"hidden behind a double key",
			`{"params":["m",{"Open_vSwitch":{},"Open_vSwitch":{"1":{"initial":{"external_ids":["map",[["system-id","x"]]]}}}}]}`,
			"win1"},
		{"no map", `{"params":["m",{"Open_vSwitch":{"1":{"initial":{"external_ids":["set",[["system-id","x"]]]}}}}]}`,
			"no map"},
		{"pairs of three", `{"params":["m",{"Open_vSwitch":{"1":{"initial":{"external_ids":["map",[["system-id","win1","x"]]]}}}}]}`, "no map"},
		{"a message without a floor", strings.Repeat(`{"Open_vSwitch":`, 5000) + "1" + strings.Repeat("}", 5000), "levels"},
		{"a message without an end", strings.Repeat(" ", longestJSON+1), "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			left, trusted, err := throughGuard(testGuard(), c.text)
			if refused := new(refusedDatabase); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) ||
				left != "" || trusted {
				t.Errorf("%v, trusted %v, left %q; want a refusal with %q", err, trusted, left, c.says)
			}
		})
	}
}

func TestWhatOfANodesDatabaseReachesOVNController(t *testing.T) {
	forced, onlyTLS := testGuard(), testGuard()
	forced.southbound, onlyTLS.onlyTLS = "ssl:192.0.2.1:6642", true
	for _, c := range []struct {
		name       string
		guard      *guard
		text, want string
	}{
		{"what is about the node alone", testGuard(), update2("initial", "system-id", "win1", "ovn-bridge", "br-int",
			"ovn-encap-ip", "192.0.2.10", "weft.net/x", "y"),
			update2("initial", "system-id", "win1", "ovn-encap-ip", "192.0.2.10")},
		{"nothing with a chassis's name, which would go first", testGuard(), update2("modify", "ovn-remote-win1", "unix:/x",
			"ovn-encap-ip-win1", "192.0.2.99", "hostname", "win1"),
			update2("modify", "hostname", "win1")},
		{"the node's Southbound", testGuard(), update2("initial", "ovn-remote", "tcp:192.0.2.1:6642,ssl:[2001:db8::1]:6642"),
			update2("initial", "ovn-remote", "tcp:192.0.2.1:6642,ssl:[2001:db8::1]:6642")},
		{"the host's Southbound", forced, update2("initial", "ovn-remote", "unix:/x", "hostname", "win1"),
			update2("initial", "hostname", "win1", "ovn-remote", "ssl:192.0.2.1:6642")},
		{"the host's Southbound in a row without settings", forced, `{"params":["m",{"Open_vSwitch":{"1":{"insert":{}}}}]}`,
			`{"params":["m",{"Open_vSwitch":{"1":{"insert":{"external_ids":["map",[["ovn-remote","ssl:192.0.2.1:6642"]]]}}}}]}`},
		{"the host's Southbound against a change", forced, update2("modify", "ovn-remote", "ssl:203.0.113.1:6642", "hostname",
			"x"), update2("modify", "hostname", "x")},
		{"no paths of credentials", testGuard(),
			`{"params":["m",{"SSL":{"1":{"initial":{"private_key":"/etc/x","bootstrap_ca_cert":true}}},"Bridge":{"2":{"modify":{"name":"br-int"}}}}]}`,
			`{"params":["m",{"Bridge":{"2":{"modify":{"name":"br-int"}}}}]}`},
		{"other tables' settings as they are", testGuard(),
			`{"params":["m",{"Interface":{"1":{"initial":{"external_ids":["map",[["system-id","x"]]],"ofport":65533}}}}]}`,
			`{"params":["m",{"Interface":{"1":{"initial":{"external_ids":["map",[["system-id","x"]]],"ofport":65533}}}}]}`},
		{"numbers digit by digit", testGuard(), `{"id":18446744073709551615,"result":[1.50]}`,
			`{"id":18446744073709551615,"result":[1.50]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			left, _, err := throughGuard(c.guard, c.text)
			if err != nil || canonical(t, left) != canonical(t, c.want) {
				t.Errorf("%v\n%s\nwant\n%s", err, left, c.want)
			}
		})
	}
	if _, _, err := throughGuard(onlyTLS, update2("initial", "ovn-remote", "tcp:192.0.2.1:6642")); err == nil ||
		!strings.Contains(err.Error(), "clear") {
		t.Errorf("a host with credentials sends in clear: %v", err)
	}
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(again)
}

// FuzzGuard: whatever a node's settings are, what ovn-controller reads of them is harmless.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{`["map",[["system-id","linux1"]]]`,
		`["map",[["ovn-remote","unix:/x"],["hostname","a"]]]`, `["map",[["ovn-remote","ssl:a:1"]]]`, `["set",[]]`,
		`{}},"SSL":{"2":{`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, column string) {
		left, _, _ := throughGuard(testGuard(),
			`{"method":"update2","params":["m",{"Open_vSwitch":{"1":{"initial":{"external_ids":`+column+`}}}}]}`)
		decoder := json.NewDecoder(strings.NewReader(left))
		for {
			var message struct {
				Params []any `json:"params"`
			}
			if decoder.Decode(&message) != nil {
				return
			}
			for _, params := range message.Params {
				tables, _ := params.(map[string]any)
				if tables["SSL"] != nil {
					t.Errorf("table SSL in %s", left)
				}
				rows, _ := tables["Open_vSwitch"].(map[string]any)
				for _, row := range rows {
					changes, _ := row.(map[string]any)
					initial, _ := changes["initial"].(map[string]any)
					harmless(t, initial["external_ids"])
				}
			}
		}
	})
}

// harmless reads a column as lib/ovsdb-data.c does.
func harmless(t *testing.T, column any) {
	t.Helper()
	datum, _ := column.([]any)
	if len(datum) != 2 || datum[0] != "map" {
		return // no map, which ovn-controller passes over
	}
	for _, one := range datum[1].([]any) {
		key, value := one.([]any)[0].(string), one.([]any)[1].(string)
		switch {
		case key == "system-id" && value != "win1", key != remoteKey && !slices.Contains(passedKeys, key),
			key == remoteKey && !strings.HasPrefix(value, "ssl:") && !strings.HasPrefix(value, "tcp:"):
			t.Errorf("%s=%q got through", key, value)
		}
	}
}

func TestWhoHasAnAddress(t *testing.T) {
	node := func(name string, age int, addresses ...string) any {
		facts := contract.NodeFacts{Chassis: name}
		for _, a := range addresses {
			facts.Addresses = append(facts.Addresses, netip.MustParseAddr(a))
		}
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(-age), 0)),
			Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)},
		}}
	}
	said := node("d", 4).(*corev1.Node) // its kubelet alone, as on a machine where weft does not run
	said.Annotations = nil
	said.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.4"}}
	var nodes []any // as the informer keeps them
	for _, full := range []any{node("a", 1, "192.0.2.1"), node("b", 3, "192.0.2.2"),
		node("c", 2, "192.0.2.3", "192.0.2.2"), said} {
		kept, err := keepFacts(full)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, kept)
	}
	for _, c := range []struct{ name, address, want string }{
		{"a", "192.0.2.1", ""}, {"a", "192.0.2.9", ""}, {"a", "192.0.2.3", "c"}, {"a", "192.0.2.4", "d"},
		{"b", "192.0.2.2", ""}, {"c", "192.0.2.2", "b"},
	} {
		if got := claimed(nodes, c.name, netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%s asks for %s: it is %q's, want %q", c.name, c.address, got, c.want)
		}
	}
}

// TestANodeThatWouldBeAnother has the database of a node whose agent is somebody else's.
func TestANodeThatWouldBeAnother(t *testing.T) {
	m := newMixed(t)
	if _, err := m.admin.CoreV1().Nodes().Create(t.Context(), claimant("linux1", "192.0.2.99"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stolen := filepath.Join(t.TempDir(), "written.pem")
	own := m.ovn.VS("get", "open_vswitch", ".", "external_ids")
	m.ovn.VS("--", "--id=@s", "create", "SSL", "private_key="+stolen, "certificate="+stolen, "ca_cert="+stolen,
		"bootstrap_ca_cert=true", "--", "set", "open_vswitch", ".", "ssl=@s",
		"external_ids:ovn-remote=ssl:127.0.0.1:1", "external_ids:ovn-remote-"+windows+"=ssl:127.0.0.1:1",
		"external_ids:ovn-encap-ip-"+windows+"=192.0.2.99",
		"external_ids:ovn-bridge-remote-"+windows+"=unix:/nowhere")
	a := startProgram(t, m.config("a"))
	a.awaitState(windows, "connected")
	m.plug()
	for _, pid := range processesIn(a.config.RunDir) {
		if score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); err != nil ||
			strings.TrimSpace(string(score)) != "500" {
			t.Errorf("oom_score_adj %s %v", score, err)
		}
	}
	if encaps := m.ovn.Run("ovn-sbctl", "--db="+m.ovn.Southbound(), "--bare", "--columns=ip", "list",
		"encap"); encaps != "192.0.2.3" {
		t.Errorf("tunnel addresses %q", encaps)
	}
	if _, err := os.Stat(stolen); err == nil {
		t.Error("the database's SSL table was obeyed")
	}
	for setting, says := range map[string]string{
		"system-id=linux1": "set it to " + windows, "ovn-encap-ip=192.0.2.99": "an address of Node linux1",
		"ovn-bridge-remote=unix:/nowhere": "remove the key", "ovn-bridge=br-ex": "br-int",
	} {
		m.ovn.VS("set", "open_vswitch", ".", "external_ids:"+setting)
		a.awaitState(windows, string(unreachable), string(badDatabase), says)
		nodetest.Eventually(t, 20*time.Second, func() error {
			events, err := m.admin.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
			for _, e := range events.Items {
				if e.Reason == "ChassisDatabaseRefused" && e.InvolvedObject.Name == windows && strings.Contains(e.Message, says) {
					return nil
				}
			}
			return fmt.Errorf("no Event with %q: %v %v", says, events.Items, err)
		})
		if chassis := m.ovn.Run("ovn-sbctl", "--db="+m.ovn.Southbound(), "--bare", "--columns=name", "list",
			"chassis"); chassis != windows {
			t.Errorf("%s: the Southbound has chassis %q", setting, chassis)
		}
		m.ovn.VS("set", "open_vswitch", ".", "external_ids="+own)
		a.awaitState(windows, "connected")
	}
	m.plug()
}

func claimant(name, address string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
		Annotations: map[string]string{
			contract.NodeFactsAnnotation: contract.Format(contract.NodeFacts{Chassis: name,
				Addresses: []netip.Addr{netip.MustParseAddr(address)}}),
		}}}
}
