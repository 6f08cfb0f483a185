package windows_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/node/windows/windowstest"
)

// A driver that stops the machine is refused while the host has its connections still.
func TestUnsoundDriverIsRefusedBeforeAnythingChanges(t *testing.T) {
	for _, kind := range []string{"", "upstream", "antrea"} {
		b := windowstest.New(t, func(c *windows.Config) { c.Driver = kind })
		b.DriverVersion = ovsdriver.Version{Major: 3, Minor: 5}
		before := b.Dump()
		_, err := b.Windows.EnsureUplink(t.Context(), nil)
		if !errors.Is(err, platform.ErrNoUplink) || !errors.Is(err, ovsdriver.ErrUnsound) ||
			!strings.Contains(err.Error(), "OVSExt") || b.Dump() != before {
			t.Errorf("%q: %v\n%s", kind, err, b.Dump())
		}
	}
}

// Its extension is not enabled on a switch that is there already, as it is after a reboot. The host keeps its network.
func TestExtensionOfAnUnsoundDriverStaysDisabled(t *testing.T) {
	b := windowstest.New(t)
	b.EnsureUplink()
	b.DisableExtensions()
	b.Restart()
	b.DriverVersion = ovsdriver.Version{Major: 3, Minor: 0}
	if _, err := b.Windows.EnsureUplink(t.Context(), nil); !errors.Is(err, ovsdriver.ErrUnsound) || b.Extension() {
		t.Errorf("%v; the extension is enabled: %t", err, b.Extension())
	}
	b.Reachable(hostnet.HostAdapter)
	b.DriverVersion = ovsdriver.FirstSound
	b.EnsureUplink()
}

// Where the version cannot be read, or the driver is another than the one that is old, nothing is refused.
func TestDriversThatAreNotRefused(t *testing.T) {
	for name, change := range map[string]func(*windows.Config){
		"no version": func(c *windows.Config) {
			c.DriverBuild = func(kind ovsdriver.Kind) (ovsdriver.Build, error) {
				if kind.Extension == hnstest.OVSExtension {
					return ovsdriver.Build{}, nil
				}
				return ovsdriver.Build{}, fs.ErrNotExist
			}
		},
		"a file that cannot be read": func(c *windows.Config) {
			c.DriverBuild = func(ovsdriver.Kind) (ovsdriver.Build, error) { return ovsdriver.Build{}, context.DeadlineExceeded }
		},
		"an old one beside it": func(c *windows.Config) {
			c.Driver = "upstream"
			c.DriverBuild = func(kind ovsdriver.Kind) (ovsdriver.Build, error) {
				if kind.Extension == hnstest.OVSExtension {
					return ovsdriver.Build{Version: ovsdriver.FirstSound}, nil
				}
				return ovsdriver.Build{Version: ovsdriver.Version{Major: 2, Minor: 17}}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) { windowstest.New(t, change).EnsureUplink() })
	}
}
