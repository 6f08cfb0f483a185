package lab

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The record is of all starts of a node.
func TestReadRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "executed")
	if _, err := readRecord(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a record: %v", err)
	}
	if err := os.WriteFile(file, []byte("output\nct\noutput\nset ipv4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if names, err := readRecord(file); err != nil || !slices.Equal(names, []string{"ct", "output", "set ipv4"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// A record proves something if it has what each node's packets meet, and all that the emulator knows.
func TestCheckRecord(t *testing.T) {
	whole := []string{"ct", "output", "recirc", "set ipv4"}
	for name, c := range map[string]struct {
		record []string
		told   string
		want   string // of the error; empty: none
	}{
		"whole":                             {whole, `{"ct":3,"output":9,"recirc":3,"set ipv4":1}`, ""},
		"an emulator that has just started": {whole, `{}`, ""},
		"empty":                             {nil, `{}`, `lacks ["ct" "output" "recirc"]`},
		"of no pod's packets":               {[]string{"output"}, `{"output":9}`, `lacks ["ct" "recirc"]`},
		"of another path":                   {nil, `{"ct":3,"output":9,"recirc":3}`, "not the emulated extension's"},
		"not all written down":              {whole, `{"clone":1,"output":9}`, `lacks ["clone"]`},
		"no answer":                         {whole, ``, "says"},
	} {
		err := checkRecord(c.record, []byte(c.told))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only Windows nodes on the emulated extension have a record, and while they run.
func TestExecutedOfNodesWithoutARecord(t *testing.T) {
	for _, datapath := range []string{DatapathHyperV, DatapathLinux} {
		windows := emulatedWindows(t, datapath)
		if names, err := windows.Executed(t.Context()); err == nil {
			t.Errorf("%s: %q", datapath, names)
		}
	}
}

// What the table forbids is an error.
func TestForbidden(t *testing.T) {
	names := []string{"ct", "output", "set ipv4"}
	if err := Forbidden("w1", names); err != nil {
		t.Error(err)
	}
	if err := Forbidden("w1", append(names, "clone")); err == nil || !strings.Contains(err.Error(), `w1 met "clone"`) {
		t.Errorf("clone: %v", err)
	}
}
