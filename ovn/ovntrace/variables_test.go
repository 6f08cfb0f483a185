package ovntrace

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nodeOne are the variables of a node.
var nodeOne = Variables{"NODEIP4_1": netip.MustParseAddr("192.0.2.1"), "NODEIP4_12": netip.MustParseAddr("192.0.2.12"),
	"NODEIP6_0": netip.MustParseAddr("2001:db8::1")}

// TestExpander: whatever the parts are in which it comes, a text is the same with values in it, and without what is out
// of the scope.
func TestExpander(t *testing.T) {
	const one, two, three = `["uuid","11111111-2222-3333-4444-555555555555"]`, `["uuid","21111111-2222-3333-4444-555555555555"]`,
		`["uuid","31111111-2222-3333-4444-555555555555"]`
	of := newScope(&network{}, web())
	of.datapaths["11111111-2222-3333-4444-555555555555"], of.datapaths["31111111-2222-3333-4444-555555555555"] = true, true
	for text, want := range map[string]string{
		`{"match":"ip4.dst == ^NODEIP4_1 && tcp.dst == 80"}`:       `{"match":"ip4.dst == 192.0.2.1 && tcp.dst == 80"}`,
		`["^NODEIP4_12","^NODEIP4_1:80"]`:                          `["192.0.2.12","192.0.2.1:80"]`,
		`["xxreg1 = ^NODEIP6_0; next;"]`:                           `["xxreg1 = 2001:db8::1; next;"]`,
		`["^NODEIP4_2","^","^^NODEIP4_1"]`:                         `["^NODEIP4_2","^","^192.0.2.1"]`,
		`{"actions":"ct_snat;"}`:                                   `{"actions":"next;"}`,
		`["ct_snat(192.0.2.9);","ct_snat","ct_snat; next;"]`:       `["ct_snat(192.0.2.9);","ct_snat","ct_snat; next;"]`,
		`["nd_ns { nd.target = xxreg0; output; }; output;"]`:       `[" output;"]`,
		`["nd_ns { nd.target = xxreg1; output; }; output;"]`:       `["nd_ns { nd.target = xxreg1; output; }; output;"]`,
		`["commit_lb_aff(timeout = 60); /* drop */","/* drop */"]`: `["commit_lb_aff(timeout = 60); next;","/* drop */"]`,
		`["10.0.0.0/8 //* drop */", "/* drop */"]`:                 `["10.0.0.0/8 //* drop */", "/* drop */"]`,
		`{"name":"NODEIP4_1"}`:                                     `{"name":"NODEIP4_1"}`,
		// The packet goes from 10.244.0.3 to 10.244.1.3.
		`{"addresses":["set",["10.244.0.3","10.244.0.4","10.244.1.3"]],"name":"a"}`: `{"addresses":["set",["10.244.0.3",` +
			`"10.244.1.3"]],"name":"a"}`,
		`{"addresses":["set",["10.244.0.4","10.244.0.30"]],"name":"a"}`:       `{"addresses":["set",[]],"name":"a"}`,
		`{"addresses":["set",[ "10.244.0.4" , "10.244.0.0/24" ]],"name":"a"}`: `{"addresses":["set",["10.244.0.0/24"]],"name":"a"}`,
		`{"addresses":["set",["0a:58:0a:f4:00:09","a\"]","10.0.0.0/8"]],"x":"^NODEIP4_1"}`: `{"addresses":["set",[` +
			`"0a:58:0a:f4:00:09","a\"]","10.0.0.0/8"]],"x":"192.0.2.1"}`,
		`{"addresses":["set",["2001:db8::1","2001:db8::/64"]],"name":"a"}`: `{"addresses":["set",[]],"name":"a"}`,
		`{"datapaths":["set",[` + one + `,` + two + `,` + three + `]],"x":"ct_snat;"}`: `{"datapaths":["set",[` + one + `,` +
			three + `]],"x":"next;"}`,
		`{"datapaths":["set",[` + two + ` , ` + two + `]]}`:     `{"datapaths":["set",[]]}`,
		`{"datapaths":` + two + `}`:                             `{"datapaths":` + two + `}`,
		`{"datapaths":["set",[["named-uuid","x"]]]}`:            `{"datapaths":["set",[["named-uuid","x"]]]}`,
		`{"addresses":"10.244.0.4","name":"a"}`:                 `{"addresses":"10.244.0.4","name":"a"}`,
		`{"nat_addresses":["set",["10.244.0.4","10.244.0.5"]]}`: `{"nat_addresses":["set",["10.244.0.4","10.244.0.5"]]}`,
		`{"external_ids":["map",[["\"addresses\":[\"set\",[","10.244.0.4"]]]}`: `{"external_ids":["map",[["\"addresses\":` +
			`[\"set\",[","10.244.0.4"]]]}`,
	} {
		for size := 1; size <= len(text); size++ {
			var got bytes.Buffer
			e := &expander{variables: nodeOne, to: &got, trimmer: trimmer{scope: of}}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := e.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
					t.Fatalf("%d of %d bytes, %v", n, size, err)
				}
			}
			if got.String() != want {
				t.Errorf("%s in parts of %d bytes: got %s, want %s", text, size, got.String(), want)
			}
		}
	}
}

// TestUnexpanded: a match is asked for as the Southbound has it.
func TestUnexpanded(t *testing.T) {
	for match, want := range map[string]string{
		"ct.new && ip4.dst == 192.0.2.1 && tcp.dst == 80": "ct.new && ip4.dst == ^NODEIP4_1 && tcp.dst == 80",
		"ip4.dst == {192.0.2.12, 192.0.2.121}":            "ip4.dst == {^NODEIP4_12, 192.0.2.121}",
		"ip6.dst == 2001:db8::1":                          "ip6.dst == ^NODEIP6_0",
		"ip6.dst == 2001:db8::11":                         "ip6.dst == 2001:db8::11",
	} {
		if got := nodeOne.Unexpanded(match); got != want {
			t.Errorf("%s: got %s, want %s", match, got, want)
		}
	}
}

// TestRelayGoesWithItsRun: nobody else enters the folder of its socket, and nothing is left of it.
func TestRelayGoesWithItsRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	socket := filepath.Join(t.TempDir(), "sb.sock")
	server, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r, err := newRelay(t.Context(), "unix:"+socket, nodeOne, newScope(&network{}, web()))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(r.folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info, err)
	}
	client, err := net.Dial("unix", strings.TrimPrefix(r.endpoint(), "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	database, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	for _, side := range []struct {
		from, to  net.Conn
		said, has string
	}{{client, database, `{"method":"^NODEIP4_1"}`, `{"method":"^NODEIP4_1"}`}, {database, client, `["^NODEIP4_1"]`, `["192.0.2.1"]`}} {
		if _, err := side.from.Write([]byte(side.said)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(side.has))
		if _, err := io.ReadFull(side.to, got); err != nil || string(got) != side.has {
			t.Errorf("of %s comes %s, %v, want %s", side.said, got, err, side.has)
		}
	}
	r.close() // while both are connected
	if n, err := client.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes come after its end", n)
	}
	if _, err := os.Stat(r.folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}
