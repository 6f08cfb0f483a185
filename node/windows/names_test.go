package windows_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/ovsdriver"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/node/windows/windowstest"
)

// Open vSwitch looks for an adapter that has a port's name anywhere in its own, and the driver compares two names as
// far as the former one goes.
func TestNamesOfPortsAreNotAlike(t *testing.T) {
	names := append([]string{cni.HostInterface(cni.Attachment{ContainerID: "a", IfName: "eth0"}),
		cni.HostInterface(cni.Attachment{ContainerID: "b", IfName: "eth0"})}, hostnet.InternalPorts...)
	if !slices.Contains(names, nodeconfig.IntegrationBridge) || !slices.Contains(names, platform.ManagementDevice) {
		t.Errorf("the ports %v are not all", names)
	}
	for _, one := range names {
		if strings.ContainsAny(one, `%_[]^'"\`) || one != strings.ToLower(one) || len(one) > 15 {
			t.Errorf("%q has characters that mean something to WMI, or too many", one)
		}
		for _, other := range names {
			if one != other && strings.Contains(one, other) {
				t.Errorf("%q has %q in it", one, other)
			}
		}
	}
}

// An adapter that Open vSwitch would take for its own is told before anything has changed.
func TestAdaptersWhoseNamesOpenVSwitchWouldTake(t *testing.T) {
	for _, alias := range []string{"weft-uplink", "My WEFT-Uplink 2", "br-int", "old weft-mp0"} {
		t.Run(alias, func(t *testing.T) {
			b := windowstest.New(t)
			b.AddAdapter(hostnet.Adapter{Alias: alias, Kind: hostnet.Physical, MAC: hnstest.MAC("02:00:00:00:00:78")})
			before := b.Dump()
			_, err := b.Windows.EnsureUplink(t.Context(), nil)
			if !errors.Is(err, platform.ErrNoUplink) || !strings.Contains(err.Error(), `"`+alias+`"`) ||
				!strings.Contains(err.Error(), "Rename-NetAdapter") {
				t.Errorf("error %v", err)
			}
			if after := b.Dump(); after != before {
				t.Errorf("changed from\n%sto\n%s", before, after)
			}
		})
	}
	b := windowstest.New(t)
	for _, alias := range []string{"vEthernet (weft-mp0)", "br-int"} { // Open vSwitch's own of an earlier time
		b.AddAdapter(hostnet.Adapter{Alias: alias, Kind: hostnet.Virtual, MAC: hnstest.MAC("02:00:00:00:00:79")})
	}
	b.EnsureUplink()
}

// The vNIC has its name before Open vSwitch has anything to do with the switch: by it the port is found.
func TestHostAdapterIsNamedBeforeTheExtensionIsEnabled(t *testing.T) {
	b := windowstest.New(t)
	b.Fail("EnableExtension", func() error {
		if adapters, _ := b.Adapters(); !b.Tunnels(hostnet.HostAdapter) {
			t.Errorf("adapters %s", windows.Aliases(adapters))
		}
		return nil
	})
	b.EnsureUplink()
}

// misname changes Hyper-V's name of the host's adapter, and leaves its alias.
func misname(b *windowstest.Bench) {
	b.Helper()
	if err := b.RenameVMAdapter(b.Context(), b.Config.Network, hnstest.MAC(hnstest.NodeMAC), "HNS's own"); err != nil {
		b.Fatal(err)
	}
	adapters, err := b.Adapters()
	host, ok := hostnet.Named(adapters, "vEthernet (HNS's own)")
	if err != nil || !ok {
		b.Fatalf("%v\n%s", err, b.Dump())
	}
	if err := b.Rename(host, hostnet.HostAdapter); err != nil {
		b.Fatal(err)
	}
}

// Only Hyper-V's name may be another one, as HNS gives it after a boot: it is right before Open vSwitch has to do with
// the switch again.
func TestHyperVsNameIsLookedAtByEachProcess(t *testing.T) {
	b := windowstest.New(t)
	b.EnsureUplink()
	misname(b)
	b.DisableExtensions()
	b.Fail("EnableExtension", func() error {
		if !b.Tunnels(hostnet.HostAdapter) {
			t.Errorf("the extension is enabled before the name is right\n%s", b.Dump())
		}
		return nil
	})
	asked := 0
	b.Fail("VMAdapter", func() error { asked++; return nil })
	b.Restart()
	for range 2 {
		b.EnsureUplink()
		b.Reachable(hostnet.HostAdapter)
		b.Windows.ForgetUplink()
	}
	if asked != 2 || !b.Tunnels(hostnet.HostAdapter) { // and read back
		t.Errorf("Hyper-V was asked %d times\n%s", asked, b.Dump())
	}
}

// A node that works does not depend on Hyper-V's management, which is asked again after a while.
func TestHyperVIsSilentAboutTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := windowstest.New(t)
		b.EnsureUplink()
		misname(b)
		asked := 0
		b.Fail("VMAdapter", func() error { asked++; return errors.New("vmms is stopped") })
		b.Restart()
		for range 3 {
			b.EnsureUplink()
			b.Windows.ForgetUplink()
		}
		if asked != 1 || b.Tunnels(hostnet.HostAdapter) {
			t.Errorf("asked %d times\n%s", asked, b.Dump())
		}
		b.Fail("VMAdapter", nil)
		time.Sleep(windows.NamePeriod - time.Second)
		b.EnsureUplink() // and the network is in order
		time.Sleep(time.Second)
		b.EnsureUplink()
		if !b.Tunnels(hostnet.HostAdapter) {
			t.Errorf("it has another name still\n%s", b.Dump())
		}
	})
}

// The extension is that of the driver that is installed, or that the user names.
func TestUplinkTakesTheDriverThatIsThere(t *testing.T) {
	dbosoft := ovsdriver.Kinds[len(ovsdriver.Kinds)-1]
	for name, test := range map[string]struct {
		key      string
		upstream bool
		want     string // the kind
		problem  string
	}{
		"the only one":                {"", false, "dbosoft", ""},
		"two":                         {"", true, "", "ovs-driver"},
		"two, of which one is named":  {"dbosoft", true, "dbosoft", ""},
		"two, and the other is named": {"upstream", true, "upstream", ""},
		"one that is not there":       {"antrea", false, "", "not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := windowstest.New(t, func(c *windows.Config) { c.Driver = test.key })
			b.Driver, b.Other = test.upstream, dbosoft.Extension
			before := b.Dump()
			uplink, err := b.Windows.EnsureUplink(t.Context(), nil)
			if test.problem != "" {
				if name == "two" && (slices.Contains(b.Calls(), "CreateNetwork") || b.Dump() != before) {
					t.Errorf("the host lost its connections before the drivers were counted\n%s", b.Dump())
				}
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("uplink %+v, error %v", uplink, err)
				}
				b.Reachable("Ethernet")
				return
			}
			if err != nil || b.Windows.LastDriver().Name != test.want || !b.Windows.UplinkHolds(t.Context()) {
				t.Errorf("driver %+v, error %v\n%s", b.Windows.LastDriver(), err, b.Dump())
			}
			b.DisableExtensions()
			if b.Windows.UplinkHolds(t.Context()) {
				t.Error("an extension that is off is not seen")
			}
		})
	}
}
