package lab

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/test/lab/machine"
)

func TestReadProcesses(t *testing.T) {
	dir := t.TempDir()
	if _, err := readProcesses(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a lab that is just starting: %v", err)
	}
	populate(t, dir, map[string]string{pidFile: "4711"})
	if lab, err := readProcesses(dir); err != nil || lab.pid != 4711 {
		t.Errorf("the first process is %d, %v", lab.pid, err)
	}
	populate(t, dir, map[string]string{pidFile: "soon"})
	if _, err := readProcesses(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, pidFile)) {
		t.Errorf("of a damaged lab: %v", err)
	}
}

// A machine's process ID is one of the lab's namespace.
func TestProcessesOfMachines(t *testing.T) {
	lab := processes{t.TempDir(), 4711}
	if _, err := lab.machine("l1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a machine that does not run: %v", err)
	}
	file, err := filepath.Rel(lab.dir, machine.PIDFile(lab.dir, "l1"))
	if err != nil {
		t.Fatal(err)
	}
	populate(t, lab.dir, map[string]string{file: "42"})
	if got, err := lab.machine("l1"); err != nil || got != "/proc/4711/root/proc/42" {
		t.Errorf("the process of l1 is %s, %v", got, err)
	}
}
