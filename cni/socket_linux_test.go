package cni_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/cni"
)

func testSocket(t *testing.T) string { return filepath.Join(t.TempDir(), "weft", "cni.sock") }

// prime is for named pipes.
func prime(*testing.T, string) {}

func TestSocketIsForOneUserOnly(t *testing.T) {
	socket := serve(t, &agent{})
	for path, want := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
	if _, err := cni.Listen(socket); err == nil {
		t.Error("a second agent took the socket of the first")
	}
}

func TestSocketInSharedFolderIsRefused(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if listener, err := cni.Listen(filepath.Join(folder, "cni.sock")); err == nil {
		listener.Close()
		t.Error("listens in a folder that everybody may enter")
	}
	if info, _ := os.Stat(folder); info.Mode().Perm() != 0o755 {
		t.Error("changed the mode of a folder that is not its own")
	}
}

func TestSocketOfDeadAgentIsTakenOver(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "weft", "cni.sock")
	for range 2 {
		listener, err := cni.Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		if unix, ok := listener.(interface{ SetUnlinkOnClose(bool) }); ok {
			unix.SetUnlinkOnClose(false) // as after SIGKILL
		}
		listener.Close()
	}
}
