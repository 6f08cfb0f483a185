package statefile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/weftnet/weft/node/nodetest"
)

// TestReplaceWaitsForAReader that does not share the file.
func TestReplaceWaitsForAReader(t *testing.T) {
	path := filepath.Join(nodetest.Folder(t), "state")
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, 0,
		0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".moved"); err == nil {
		t.Fatal("the file was moved while a program had it open: the test shows nothing")
	}
	timer := time.AfterFunc(300*time.Millisecond, func() { _ = windows.CloseHandle(reader) })
	defer timer.Stop()
	if err := Replace(path, []byte("new")); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "new" {
		t.Errorf("the file has %q: %v", content, err)
	}
}
