package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

// manage switches Hyper-V's management without a word to Open vSwitch.
func (s *firstStart) manage(runs bool) {
	s.daemon.mu.Lock()
	defer s.daemon.mu.Unlock()
	s.NoVMMS = !runs
}

// ofport is the OpenFlow port of a device, 0 while there is none.
func (s *firstStart) ofport(name string) int {
	if device := s.n.ovs.Device(name); device != nil && device.Ofport != nil {
		return *device.Ofport
	}
	return 0
}

// What Open vSwitch could not open while Hyper-V's management was away is opened once it is back, although nothing in
// Open vSwitch's database changes with that.
func TestPortsAreOpenedWhenHyperVsManagementIsBack(t *testing.T) {
	s := newFirstStart(t)
	a := s.agent()
	a.gateway.ReconcileUplinkOnce(t.Context())
	s.whole(a.health.Problems()[health.Uplink])
	s.manage(false)
	if err := s.n.ovs.Apply(t.Context(),
		must(s.n.ovs.ManagementPort(a.config,
			platform.Management{Device: platform.ManagementDevice, MTU: 1400}))); err != nil {
		t.Fatal(err)
	}
	s.n.Until(func() bool { return s.ofport(platform.ManagementDevice) == -1 })
	if ports := s.n.ovs.Refused(openvswitch.TypeInternal); !slices.Equal(ports, []string{platform.ManagementDevice}) {
		t.Errorf("the ports in error are %v", ports)
	}
	a.ovs.Reopen(t.Context(), openvswitch.TypeInternal) // too early
	nodetest.Eventually(t, 10*time.Second, func() error {
		if !s.daemon.idle() {
			return errors.New("ovs-vswitchd does not come to rest") // and would look again by itself
		}
		return nil
	})
	s.manage(true)
	if port := s.ofport(platform.ManagementDevice); port != -1 {
		t.Fatalf("it is opened without a word: port %d", port)
	}
	a.gateway.Times.Reopen = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var kept sync.WaitGroup
	kept.Go(func() { _ = a.gateway.KeepPortsOpen(ctx) })
	s.n.Until(func() bool { return s.ofport(platform.ManagementDevice) > 0 })
	if s.ofport(platform.ManagementDevice) <= 0 {
		t.Error("the port is still in error")
	}
	cancel()
	kept.Wait()
	root, err := s.n.ovs.Root()
	if err != nil {
		t.Fatal(err)
	}
	a.ovs.Reopen(t.Context(), openvswitch.TypeInternal)
	if now := must(s.n.ovs.Root()); now.NextCfg != root.NextCfg {
		t.Error("ovs-vswitchd is bothered though nothing is in error")
	}
	if devices := ovsdb.List(s.n.ovs.Client,
		func(d *vswitch.Interface) bool { return d.Ofport != nil && *d.Ofport < 0 }); len(devices) > 0 {
		t.Errorf("in error: %v", devices)
	}
}
