package nodetest

import (
	"bytes"
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testedUnderWine = regexp.MustCompile(`wine-test\.sh ((?: ?\./\S+)+)`)

// TestWineCanRemoveFolders: T.TempDir fails a test whose folder cannot be removed, so no test that runs under Wine has
// its folder from there. `make windows-unit` says which packages these are.
func TestWineCanRemoveFolders(t *testing.T) {
	const root = "../.."
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	recipe := testedUnderWine.FindSubmatch(makefile)
	if recipe == nil {
		t.Fatal("the Makefile runs no package's tests by wine-test.sh")
	}
	windows := build.Default
	windows.GOOS, windows.CgoEnabled = "windows", false
	read := 0
	for _, folder := range strings.Fields(string(recipe[1])) {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if match, err := windows.MatchFile(filepath.Split(file)); err != nil || !match {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if read++; bytes.Contains(source, []byte(".TempDir()")) {
				t.Errorf("%s: use nodetest.Folder in place of TempDir, which fails the test where Wine cannot remove the folder",
					file)
			}
		}
	}
	if read == 0 {
		t.Error("no test is built for Windows")
	}
}
