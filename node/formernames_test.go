package node

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/ovsdb"
)

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
	file := platform.SavedHost[windows.HostSettings]{Path: s.Config.StateFile}
	saved, err := file.Read()
	if err != nil {
		s.Fatal(err)
	}
	saved.Host = ""
	if err := file.Write(*saved); err != nil {
		s.Fatal(err)
	}
	root, err := s.n.ovs.Root()
	if err != nil {
		s.Fatal(err)
	}
	bridge := s.n.ovs.UplinkBridge(s.n.config.Owner())
	want := openvswitch.BridgeSettings{Owner: ovsdb.Owner(bridge.ExternalIDs[ovsdb.OwnerMark]),
		Name:     "vEthernet (Ethernet)",
		FailMode: *bridge.FailMode,
		IDs:      map[string]string{openvswitch.SwitchKey: bridge.ExternalIDs[openvswitch.SwitchKey]}, Device: "Ethernet"}
	if err := s.n.ovs.Apply(s.Context(), s.n.ovs.Removing(hostnet.HostAdapter)); err != nil {
		s.Fatal(err)
	}
	s.n.Until(func() bool { return s.n.ovs.Bridge(hostnet.HostAdapter) == nil && s.n.ovs.Device("Ethernet") == nil })
	if err := s.n.ovs.Apply(s.Context(), s.n.ovs.EnsureBridge(root, want)); err != nil {
		s.Fatal(err)
	}
	s.Reachable("vEthernet (Ethernet)")
}

// An ovs-vswitchd that starts over a vNIC that Hyper-V calls by another name makes one of its own, and disables the
// host's. Where the agent comes first the name is right, and where it comes later the network is made again.
func TestHyperVHasAnotherNameForTheUplink(t *testing.T) {
	for name, first := range map[string]bool{"the agent comes first": true, "ovs-vswitchd comes first": false} {
		t.Run(name, func(t *testing.T) {
			s := newFirstStart(t)
			s.whole(s.start())
			s.daemon.set(func(d *extensionDaemon) { d.dead = true })
			if err := s.RenameVMAdapter(s.Context(), "weft", hnstest.MAC(hnstest.NodeMAC), "Ethernet"); err != nil {
				t.Fatal(err)
			}
			adapters, err := s.Adapters()
			host, ok := hostnet.Named(adapters, "vEthernet (Ethernet)")
			if err != nil || !ok {
				t.Fatal(s.Dump())
			}
			if err := s.Rename(host, hostnet.HostAdapter); err != nil {
				t.Fatal(err)
			}
			if first {
				s.whole(s.start())
			}
			s.daemon.set(func(d *extensionDaemon) { d.dead = false })
			if problem := s.start(); problem != nil {
				s.alone()
			}
			s.whole(s.start())
		})
	}
}

func TestANodeWithFormerNamesGetsOver(t *testing.T) {
	for name, mends := range map[string]bool{"with Hyper-V's management": true,
		"once it has Hyper-V's management": false} {
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
				s.n.Until(func() bool { return s.Tunnels(hostnet.HostAdapter) })
				s.daemon.set(func(d *extensionDaemon) { d.dead = false })
			}()
			s.whole(s.start())
			if s.n.ovs.Bridge("vEthernet (Ethernet)") != nil {
				t.Error("the former bridge is still there")
			}
		})
	}
}
