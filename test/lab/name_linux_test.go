package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTwoLabsHaveTwoNames, wherever their directories are. A name is free again when its lab has ended.
func TestTwoLabsHaveTwoNames(t *testing.T) {
	names := filepath.Join(t.TempDir(), "names")
	if taken, err := isNameTaken(names, "weft"); taken || err != nil {
		t.Errorf("before any lab, it is taken: %v, %v", taken, err)
	}
	first, err := takeName(names, "weft", "/labs/a long name")
	if err != nil {
		t.Fatal(err)
	}
	const want = `a lab with the name "weft" runs already, in "/labs/a long name": give this one another name by --name`
	if _, err := takeName(names, "weft", "/labs/two"); err == nil || err.Error() != want {
		t.Errorf("the second lab of a name: %v", err)
	}
	if other, err := takeName(names, "weft2", "/labs/two"); err != nil {
		t.Error(err)
	} else {
		other.Close()
	}
	if taken, err := isNameTaken(names, "weft"); !taken || err != nil {
		t.Errorf("it is taken: %v, %v", taken, err)
	}
	first.Close()
	again, err := takeName(names, "weft", "/labs/b")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := takeName(names, "weft", "/labs/two"); err == nil || !strings.Contains(err.Error(), `in "/labs/b"`) {
		t.Errorf("the file has the end of a longer name: %v", err)
	}
}

// TestCgroupsOfARunningLabStay when what another lab of its name has left is removed.
func TestCgroupsOfARunningLabStay(t *testing.T) {
	names, dir, cgroup := filepath.Join(t.TempDir(), "names"), t.TempDir(), filepath.Join(t.TempDir(), "weftlab-weft-l1")
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		t.Fatal(err)
	}
	populate(t, dir, map[string]string{"lab.json": someLab, "cgroups": cgroup + "\n"})
	running, err := takeName(names, "weft", "/labs/other")
	if err != nil {
		t.Fatal(err)
	}
	if err := removeCgroups(names, dir); err != nil || !exists(cgroup) {
		t.Errorf("they are there: %v, %v", exists(cgroup), err)
	}
	running.Close()
	if err := removeCgroups(names, dir); err != nil || exists(cgroup) {
		t.Errorf("nobody has them, and they are there: %v, %v", exists(cgroup), err)
	}
}
