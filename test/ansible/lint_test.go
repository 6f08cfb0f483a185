//go:build ansible

package ansible

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

var linted = regexp.MustCompile(`Passed with production profile: 0 failure\(s\), 0 warning\(s\) on (\d+) files`)

// TestThePlaybooksAreClean by ansible-lint's strictest profile, and all of them have been looked at.
func TestThePlaybooksAreClean(t *testing.T) {
	collection := filepath.Join(repository(), "ansible")
	var written int
	for _, pattern := range []string{"playbooks/*.yml", "roles/*/*/*.yml"} {
		files, err := filepath.Glob(filepath.Join(collection, pattern))
		if err != nil {
			t.Fatal(err)
		}
		written += len(files)
	}
	lint := exec.Command("ansible-lint", "--offline", "--strict", "--nocolor")
	lint.Dir = collection
	out, err := lint.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passed := linted.FindSubmatch(out)
	if passed == nil {
		t.Fatalf("ansible-lint says\n%s", out)
	}
	if n, _ := strconv.Atoi(string(passed[1])); n < written || written == 0 {
		t.Errorf("of %d files ansible-lint has looked at %d", written, n)
	}
}
