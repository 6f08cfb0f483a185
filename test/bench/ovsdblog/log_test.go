package ovsdblog

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	portA  = "00000000-0000-4000-8000-00000000000a"
	portB  = "00000000-0000-4000-8000-00000000000b"
	netz   = "00000000-0000-4000-8000-00000000000c"
	web    = "00000000-0000-4000-8000-00000000000d"
	schema = "../../../models/schemas/ovn-nb.ovsschema"
)

// TestRead follows a Northbound that ovsdb-tool writes, which logs as the server does.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nb.db")
	tool(t, "create", file, schema)
	began := time.Now().Truncate(time.Millisecond)
	transact(t, file,
		`{"op":"insert","table":"Logical_Switch","uuid":"`+netz+`","row":{"name":"n1","ports":["set",[["uuid","`+portA+
			`"],["uuid","`+portB+`"]]]}}`,
		`{"op":"insert","table":"Logical_Switch_Port","uuid":"`+portA+`","row":{"name":"a","addresses":"dynamic"}}`,
		`{"op":"insert","table":"Logical_Switch_Port","uuid":"`+portB+
			`","row":{"name":"b","addresses":["set",["one","two"]]}}`,
		`{"op":"insert","table":"Load_Balancer","uuid":"`+web+
			`","row":{"name":"web","vips":["map",[["v:1","x"],["v:2","y"]]]}}`,
		`{"op":"comment","comment":"first"}`)
	transact(t, file,
		`{"op":"mutate","table":"Logical_Switch","where":[],"mutations":[["ports","delete",["uuid","`+portA+`"]]]}`,
		`{"op":"mutate","table":"Logical_Switch_Port","where":[["name","==","b"]],"mutations":[["addresses","insert","three"],["addresses","delete","one"]]}`,
		`{"op":"update","table":"Load_Balancer","where":[],"row":{"name":"renamed","vips":["map",[["v:2","z"],["v:3","w"]]]}}`)
	transact(t, file, `{"op":"update","table":"Load_Balancer","where":[],"row":{"name":"renamed"}}`) // changes nothing

	db, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(db.Records); n != 2 {
		t.Fatalf("%d records, want the two transactions that changed something", n)
	}
	first, second := db.Records[0], db.Records[1]
	if !strings.Contains(first.Comment, "first") || first.Time.Before(began) || first.Time.After(time.Now()) {
		t.Errorf("first record is of %v with comment %q", first.Time, first.Comment)
	}
	if got, want := first.Changes["Logical_Switch_Port"], (Counts{Inserted: 2}); got != want {
		t.Errorf("first record's ports: %+v, want %+v", got, want)
	}
	// A port that no switch has is garbage, which the server collects in the same transaction.
	if got, want := second.Changes["Logical_Switch_Port"], (Counts{Modified: 1, Deleted: 1}); got != want {
		t.Errorf("second record's ports: %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		table, id, column string
		want              Value
	}{
		{"Logical_Switch", netz, "ports", Value{portB: ""}},
		{"Logical_Switch_Port", portB, "addresses", Value{"two": "", "three": ""}},
		{"Load_Balancer", web, "vips", Value{"v:2": "z", "v:3": "w"}},
		{"Load_Balancer", web, "name", Value{"renamed": ""}},
	} {
		if got := db.Tables[c.table][c.id][c.column]; !maps.Equal(got, c.want) {
			t.Errorf("%s.%s is %v, want %v", c.table, c.column, got, c.want)
		}
	}
	if _, there := db.Tables["Logical_Switch_Port"][portA]; there {
		t.Error("the deleted port is still there")
	}
}

// A reader may come while the server is writing.
func TestReadHalfARecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nb.db")
	tool(t, "create", file, schema)
	transact(t, file, `{"op":"insert","table":"Logical_Switch","row":{"name":"n1"}}`)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, 40, len(text) - 10} {
		if err := os.WriteFile(file, text[:len(text)-cut], 0o644); err != nil {
			t.Fatal(err)
		}
		db, err := Read(file)
		if err != nil {
			t.Fatalf("without its last %d bytes: %v", cut, err)
		}
		if len(db.Records) != 0 {
			t.Errorf("without its last %d bytes the log has %d records, want none", cut, len(db.Records))
		}
	}
}

func transact(t *testing.T, file string, operations ...string) {
	t.Helper()
	answer := tool(t, "transact", file, fmt.Sprintf(`["OVN_Northbound",%s]`, strings.Join(operations, ",")))
	if strings.Contains(answer, "error") {
		t.Fatalf("ovsdb-tool transact: %s", answer)
	}
}

func tool(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join("../../../bin/lab/ovn/bin", "ovsdb-tool")
	if dir := os.Getenv("WEFT_OVN_BIN"); dir != "" {
		path = filepath.Join(dir, "ovsdb-tool")
	} else if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath("ovsdb-tool"); err != nil {
			t.Fatal("ovsdb-tool is neither in bin/lab/ovn/bin nor in PATH; run `make ovn`")
		}
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ovsdb-tool %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}
