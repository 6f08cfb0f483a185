package lab

import (
	"os"
	"strings"
	"testing"
	"time"
)

// aLab is one of a Linux and a Windows node, with a directory of its own. It does not run.
func aLab(t *testing.T, windowsDatapath string) *Lab {
	t.Helper()
	c := Config{Name: "weft", Linux: 1, Windows: 1, WindowsDatapath: windowsDatapath, Families: Dual}
	dir := t.TempDir()
	return &Lab{c, newFiles(c, dir), processes{dir: dir}}
}

// emulatedWindows is that of the lab's Windows node.
func emulatedWindows(t *testing.T, datapath string) EmulatedWindows {
	t.Helper()
	windows, err := aLab(t, datapath).EmulatedWindows("w1")
	if err != nil {
		t.Fatal(err)
	}
	return windows
}

func TestOnlyWindowsNodesHaveAnEmulatedWindows(t *testing.T) {
	for node, want := range map[string]string{"l1": "l1 is no Windows node", Central: "central is no Windows node",
		"w2": `no machine "w2"`} {
		if _, err := aLab(t, DatapathHyperV).EmulatedWindows(node); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", node, err)
		}
	}
}

func TestOnlyTheEmulatedExtensionIsToldSomething(t *testing.T) {
	_, err := emulatedWindows(t, DatapathLinux).HyperVCommand("faults")
	if err == nil || !strings.Contains(err.Error(), "--windows-datapath linux") {
		t.Errorf("on the Linux datapath: %v", err)
	}
}

func TestSetClock(t *testing.T) {
	for offset, want := range map[time.Duration]string{2 * time.Hour: "+7200s\n", -30 * time.Minute: "-1800s\n",
		0: "+0s\n"} {
		windows := emulatedWindows(t, DatapathHyperV)
		clock := windows.lab.files.clock("w1")
		if err := os.MkdirAll(windows.lab.files.machine("w1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := windows.SetClock(offset); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(clock); err != nil || string(text) != want {
			t.Errorf("%s: libfaketime reads %q, %v", offset, text, err)
		}
	}
}
