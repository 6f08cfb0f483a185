package nodetest

import (
	"os"
	"testing"
)

// Folder is a folder that goes with the test as far as the system lets it: Wine 8 cannot remove folders.
func Folder(t testing.TB) string {
	t.Helper()
	path, err := os.MkdirTemp("", "weft-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Log(err)
		}
	})
	return path
}
