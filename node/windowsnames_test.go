package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/ovsdriver"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
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
			b := newWinBench(t)
			b.AddAdapter(hostnet.Adapter{Alias: alias, Kind: hostnet.Physical, MAC: hnstest.MAC("02:00:00:00:00:78")})
			before := b.Dump()
			_, err := b.windows.EnsureUplink(t.Context())
			if !errors.Is(err, platform.ErrNoUplink) || !strings.Contains(err.Error(), `"`+alias+`"`) || !strings.Contains(err.Error(), "Rename-NetAdapter") {
				t.Errorf("error %v", err)
			}
			if after := b.Dump(); after != before {
				t.Errorf("changed from\n%sto\n%s", before, after)
			}
		})
	}
	b := newWinBench(t)
	for _, alias := range []string{"vEthernet (weft-mp0)", "br-int"} { // Open vSwitch's own of an earlier time
		b.AddAdapter(hostnet.Adapter{Alias: alias, Kind: hostnet.Virtual, MAC: hnstest.MAC("02:00:00:00:00:79")})
	}
	b.ensureUplink()
}

// The vNIC has its name before Open vSwitch has anything to do with the switch: by it the port is found.
func TestHostAdapterIsNamedBeforeTheExtensionIsEnabled(t *testing.T) {
	b := newWinBench(t)
	b.Fail("EnableExtension", func() error {
		if adapters, _ := b.Adapters(); !b.Tunnels(hostnet.HostAdapter) {
			t.Errorf("adapters %s", aliases(adapters))
		}
		return nil
	})
	b.ensureUplink()
	b.Fail("VMAdapter", func() error { return errors.New("PowerShell takes seconds") })
	b.restart()
	b.ensureUplink()
}

// Without Hyper-V's management nobody can name the vNIC, and Open vSwitch could open no port.
func TestWithoutHyperVsManagement(t *testing.T) {
	s := newFirstStart(t)
	s.NoVMMS = true
	problem := s.start()
	if problem == nil || !strings.Contains(problem.Error(), "Install-WindowsFeature Hyper-V") {
		t.Errorf("the problem is %v", problem)
	}
	s.alone()
	s.NoVMMS = false
	s.whole(s.start())
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
			b := newWinBench(t, func(c *WindowsConfig) { c.Driver = test.key })
			b.Driver, b.Other = test.upstream, dbosoft.Extension
			uplink, err := b.windows.EnsureUplink(t.Context())
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("uplink %+v, error %v", uplink, err)
				}
				b.Reachable("Ethernet")
				return
			}
			if err != nil || b.windows.lastSeen().driver.Name != test.want || !b.windows.uplinkHolds(t.Context()) {
				t.Errorf("driver %+v, error %v\n%s", b.windows.lastSeen().driver, err, b.Dump())
			}
			b.DisableExtensions()
			if b.windows.uplinkHolds(t.Context()) {
				t.Error("an extension that is off is not seen")
			}
		})
	}
}

// former leaves the node as a version did that took the names as Windows gives them.
func (s *firstStart) former() {
	s.Helper()
	s.whole(s.start())
	s.daemon.set(func(d *extensionDaemon) { d.dead = true })
	adapters, err := s.Adapters()
	host, ok := hostnet.Named(adapters, hostnet.HostAdapter)
	if err != nil || !ok {
		s.Fatal(s.Dump())
	}
	if err := s.RenameVMAdapter(s.Context(), "weft", host.MAC, "Ethernet"); err != nil {
		s.Fatal(err)
	}
	saved, err := s.windows.saved.Read()
	if err != nil {
		s.Fatal(err)
	}
	saved.Host = ""
	if err := s.windows.saved.Write(*saved); err != nil {
		s.Fatal(err)
	}
	root, err := s.n.ovs.Root()
	if err != nil {
		s.Fatal(err)
	}
	bridge := s.n.ovs.UplinkBridge(s.n.config.Owner())
	want := openvswitch.BridgeSettings{Owner: ovsdb.Owner(bridge.ExternalIDs[ovsdb.OwnerMark]), Name: "vEthernet (Ethernet)",
		FailMode: *bridge.FailMode, IDs: map[string]string{openvswitch.SwitchKey: bridge.ExternalIDs[openvswitch.SwitchKey]}, Device: "Ethernet"}
	if err := s.n.ovs.Apply(s.Context(), s.n.ovs.Removing(hostnet.HostAdapter)); err != nil {
		s.Fatal(err)
	}
	s.n.until(func() bool { return s.n.ovs.Bridge(hostnet.HostAdapter) == nil && s.n.ovs.Device("Ethernet") == nil })
	if err := s.n.ovs.Apply(s.Context(), s.n.ovs.EnsureBridge(root, want)); err != nil {
		s.Fatal(err)
	}
	s.Reachable("vEthernet (Ethernet)")
}

func TestANodeWithFormerNamesGetsOver(t *testing.T) {
	for name, mends := range map[string]bool{"with Hyper-V's management": true, "once it has Hyper-V's management": false} {
		t.Run(name, func(t *testing.T) {
			s := newFirstStart(t)
			s.former()
			if !mends {
				s.NoVMMS = true
				if problem := s.start(); problem == nil || !strings.Contains(problem.Error(), hostnet.HostAdapter) {
					t.Errorf("the problem is %v", problem)
				}
				s.Reachable("vEthernet (Ethernet)")
				if s.n.ovs.Bridge("vEthernet (Ethernet)") == nil {
					t.Error("the bridge that the host depends on has gone")
				}
				s.NoVMMS = false
			}
			go func() { // ovs-vswitchd is started again when the names are right
				s.n.until(func() bool { return s.Tunnels(hostnet.HostAdapter) })
				s.daemon.set(func(d *extensionDaemon) { d.dead = false })
			}()
			s.whole(s.start())
			if s.n.ovs.Bridge("vEthernet (Ethernet)") != nil {
				t.Error("the former bridge is still there")
			}
		})
	}
}
