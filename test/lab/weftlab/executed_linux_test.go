package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/lab"
)

// TestExecutedRefusesTheLinuxDatapath once, however many Windows nodes the lab has.
func TestExecutedRefusesTheLinuxDatapath(t *testing.T) {
	dir := t.TempDir()
	config, err := json.Marshal(lab.Config{Name: "weft", Linux: 1, Windows: 3, WindowsDatapath: lab.DatapathLinux})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"lab.json": string(config), "pid": "1", "lock": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := os.Open(filepath.Join(dir, "lock")) // a lab is up while its first process has it
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"--state-dir", dir, "executed"})
	err = root.ExecuteContext(t.Context())
	if err == nil || strings.Count(err.Error(), "no emulated extension") != 1 || out.Len() > 0 {
		t.Errorf("it prints %q, and the error is: %v", out.String(), err)
	}
}
