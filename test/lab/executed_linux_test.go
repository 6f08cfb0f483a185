package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/test/lab/machine"
)

// TestExecuted: the record is of all starts of a node, and what the table forbids is an error.
func TestExecuted(t *testing.T) {
	l := &Lab{files: files{dir: t.TempDir()}}
	l.Windows = 1
	if names, err := l.Executed("w1"); err != nil || len(names) != 0 {
		t.Fatalf("before its start: %v, %v", names, err)
	}
	file := filepath.Join(machine.Dir(l.dir, "w1"), "hyperv", "executed")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("output\nct\noutput\nset ipv4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	names, err := l.Executed("w1")
	if err != nil || !slices.Equal(names, []string{"ct", "output", "set ipv4"}) {
		t.Errorf("%q, %v", names, err)
	}
	if err := Forbidden("w1", names); err != nil {
		t.Error(err)
	}
	if err := Forbidden("w1", append(names, "clone")); err == nil || !strings.Contains(err.Error(), `w1 met "clone"`) {
		t.Errorf("clone: %v", err)
	}
	if _, err := l.Executed("l1"); err == nil {
		t.Error("a Linux node has a record")
	}
}
