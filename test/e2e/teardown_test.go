//go:build cluster

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/test/lab/labtest"
)

// TestLabLeavesNothing brings up a second lab beside the first, kills it the hard way, and looks for
// what it has left; the first goes on.
func TestLabLeavesNothing(t *testing.T) {
	long(t)
	second := labtest.Lab{Name: "weft-test-second"}
	dir := filepath.Join(t.TempDir(), "state")
	flags := func(args ...string) []string { return append([]string{"--state-dir", dir}, args...) }
	t.Cleanup(func() { _, _ = second.Try(flags("down")...) })
	if out, err := second.Try(flags("up", "--linux", "1")...); err != nil {
		t.Fatal(out, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(processesOf(t, dir)) == 0 {
		t.Fatal("the lab has no process that names its state directory; this test would see nothing")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "all its processes are gone", func() error {
		if left := processesOf(t, dir); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	if out, err := second.Try(flags("down")...); err != nil {
		t.Fatal(out, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its state is left: %v", err)
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(path), second.Name) {
			t.Errorf("its cgroup is left: %s", path)
		}
		return nil // other cgroups come and go meanwhile
	})
	if err != nil {
		t.Fatal(err)
	}
	if host, err := get(web("l1"), podAddresses(t, web("l2"))[0], 8080, "hostname"); err != nil || host != web("l2") {
		t.Errorf("the first lab: %q answered: %v", host, err)
	}
}

// processesOf are the command lines of processes that name a directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), dir) { // an error is a process that has just ended
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}
