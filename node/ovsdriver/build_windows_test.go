package ovsdriver

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows/registry"

	"github.com/weftnet/weft/node/nodetest"
)

// A driver is where its service says, in whichever way.
func TestFile(t *testing.T) {
	kind := Kinds[0]
	root := os.Getenv("SystemRoot")
	for image, want := range map[string]string{
		`\SystemRoot\System32\drivers\OVSExt.sys`:       root + `\System32\drivers\OVSExt.sys`,
		`system32\drivers\OVSExt.sys`:                   root + `\system32\drivers\OVSExt.sys`,
		`\??\C:\Windows\DriverStore\x\OVSExt.sys`:       `C:\Windows\DriverStore\x\OVSExt.sys`,
		`\systemroot\System32\DriverStore\x\OVSExt.sys`: root + `\System32\DriverStore\x\OVSExt.sys`,
		"": root + `\System32\drivers\OVSExt.sys`,
	} {
		if got := File(kind, image); !strings.EqualFold(got, want) {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

// The build is that of the file which the registry names for the driver's service.
func TestInstalledBuild(t *testing.T) {
	kind := Kinds[0]
	kind.Service = "weft-driver-test"
	if _, err := InstalledBuild(kind); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such service: %v", err)
	}
	path := filepath.Join(nodetest.Folder(t), "OVSExt.sys")
	want := Build{Version: Version{3, 5}}
	if err := os.WriteFile(path, program(resources(want.Version, 0x3f, 0x8)), 0o600); err != nil {
		t.Fatal(err)
	}
	name := `SYSTEM\CurrentControlSet\Services\` + kind.Service
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, name, registry.SET_VALUE)
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("needs an administrator")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = registry.DeleteKey(registry.LOCAL_MACHINE, name) }()
	defer key.Close()
	if err := key.SetStringValue("ImagePath", `\??\`+path); err != nil {
		t.Fatal(err)
	}
	if got, err := InstalledBuild(kind); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
