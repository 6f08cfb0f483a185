package doctor

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"
)

// What Windows' service manager is told of a service is what the doctor reads, the services that it waits for among it.
func TestServiceAsWindowsHasIt(t *testing.T) {
	manager, err := mgr.Connect()
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		t.Skip("needs an administrator")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Disconnect() }()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, waits := range map[string][]string{"weft-doctor-none": nil, "weft-doctor-two": {"ovsdb-server", "vmms"}} {
		made, err := manager.CreateService(name, program, mgr.Config{StartType: mgr.StartManual, Dependencies: waits})
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close()
		defer func() { _ = made.Delete() }()
		found, err := (nativeHost{}).Service(name)
		if err != nil || found.State != "stopped" || found.Start != "manual" || !slices.Equal(found.DependsOn, waits) {
			t.Errorf("%s: %+v, %v; it waits for %q", name, found, err, waits)
		}
	}
	if _, err := (nativeHost{}).Service("weft-doctor-nowhere"); !errors.Is(err, errAbsent) {
		t.Errorf("a service that is not there: %v", err)
	}
}
