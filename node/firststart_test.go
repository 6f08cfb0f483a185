package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/node/windows/windowstest"
	"github.com/weftnet/weft/ovsdb"
)

// extensionDaemon is a stand-in for the ovs-vswitchd of Windows, on a machine: it ends over a bridge without the
// enabled extension, and Windows starts it again. An internal port is the vNIC of that name; it makes one where
// there is none, and removes the one of a port that goes.
type extensionDaemon struct {
	n       *bareNode
	machine *windowstest.Bench
	broken  func(device string) bool // it cannot open the device; nil opens all
	dead    bool
	mu      sync.Mutex
	vNICs   map[string]bool // of its ports
	rests   <-chan struct{} // it does nothing until this is closed
}

// set changes what it does wrong.
func (d *extensionDaemon) set(change func(*extensionDaemon)) {
	d.mu.Lock()
	change(d)
	d.mu.Unlock()
	d.once(d.n.t.Context())
}

func (d *extensionDaemon) run(ctx context.Context) {
	woken := make(chan struct{}, 1)
	go func() {
		_ = d.machine.Watch(ctx, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	for ctx.Err() == nil {
		changed := d.n.ovs.Changed()
		d.once(ctx)
		d.mu.Lock()
		d.rests = changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-woken:
		case <-ctx.Done():
		}
	}
}

// idle says whether it has seen all that the database has, and does nothing until that changes.
func (d *extensionDaemon) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	root, err := d.n.ovs.Root()
	return err == nil && root.CurCfg == root.NextCfg && d.rests == d.n.ovs.Changed()
}

func (d *extensionDaemon) once(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bridges := ovsdb.List[vswitch.Bridge](d.n.ovs.Client, nil)
	root, err := d.n.ovs.Root()
	if err != nil || d.dead || len(bridges) > 0 && !d.machine.Extension() {
		d.vNICs = nil // it has ended, and does not know what it had
		return
	}
	now := map[string]bool{}
	for _, device := range ovsdb.List[vswitch.Interface](d.n.ovs.Client, nil) {
		port := 7
		switch {
		case d.broken != nil && d.broken(device.Name):
			port = -1
		case device.Type == openvswitch.TypeInternal:
			if !d.vNICs[device.Name] && d.machine.CreateWMIPort(device.Name) != nil {
				port = -1
				break
			}
			now[device.Name] = true
		}
		if device.Ofport == nil || *device.Ofport != port {
			_, _ = d.n.ovs.Transact(ctx, openvswitch.UpdateRow(vswitch.InterfaceTable, device.UUID,
				libovsdb.Row{"ofport": port}))
		}
	}
	for name := range d.vNICs {
		if !now[name] {
			d.machine.DeleteWMIPort(name)
		}
	}
	d.vNICs = now
	if root.CurCfg != root.NextCfg {
		_, _ = d.n.ovs.Transact(ctx, openvswitch.UpdateRow(vswitch.OpenvSwitchTable, root.UUID,
			libovsdb.Row{"cur_cfg": root.NextCfg}))
	}
}

// firstStart is a Windows node whose Open vSwitch and HNS know each other.
type firstStart struct {
	*windowstest.Bench
	n          *bareNode
	daemon     *extensionDaemon
	takeUpTime time.Duration // for ovs-vswitchd
	silent     bool          // the database does not answer
}

func newFirstStart(t *testing.T) *firstStart {
	t.Helper()
	s := &firstStart{n: newUplinkNode(t, nil), takeUpTime: nodetest.Patience,
		Bench: windowstest.New(t, func(c *windows.Config) { c.AddressTime = 500 * time.Millisecond })}
	s.daemon = &extensionDaemon{n: s.n, machine: s.Bench}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.daemon.run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s
}

// start runs a fresh agent's first pass over the uplink, and the chassis host that it lets in.
func (s *firstStart) start() error {
	s.Helper()
	if s.silent {
		return s.startWithoutDatabase()
	}
	a := s.agent()
	a.gateway.ReconcileUplinkOnce(s.Context())
	s.chassisHost(a)
	return a.health.Problems()[health.Uplink]
}

// startInVain is start where ovs-vswitchd may do nothing, for which nobody waits long.
func (s *firstStart) startInVain() error {
	s.Helper()
	patient := s.takeUpTime
	s.takeUpTime = 300 * time.Millisecond
	defer func() { s.takeUpTime = patient }()
	return s.start()
}

func (s *firstStart) agent() *agent {
	s.Helper()
	s.Restart()
	return s.agentOver(s.Windows)
}

func (s *firstStart) agentOver(system *windows.Platform) *agent {
	s.Helper()
	config := s.n.config
	config.Chassis, config.EncapAddress = nodeconfig.ChassisHosted, hnstest.NodeAddress
	a, err := newAgent(config, system, s.n.ovs, s.n.client, nil)
	if err != nil {
		s.Fatal(err)
	}
	a.gateway.Times.TakeUp = s.takeUpTime
	return a
}

// chassisHost has its ovn-controller make br-int where it gets a way to the database.
func (s *firstStart) chassisHost(a *agent) {
	if a.gateway.SwitchReady() == nil && s.n.ovs.Bridge(nodeconfig.IntegrationBridge) == nil {
		s.bridge()
	}
}

// bridge makes br-int as ovn-controller does.
func (s *firstStart) bridge() {
	s.Helper()
	root, err := s.n.ovs.Root()
	if err != nil {
		s.Fatal(err)
	}
	want := openvswitch.BridgeSettings{Owner: "ovn-controller", Name: nodeconfig.IntegrationBridge,
		FailMode: vswitch.BridgeFailModeSecure}
	if err := s.n.ovs.Apply(s.Context(), s.n.ovs.EnsureBridge(root, want)); err != nil {
		s.Fatal(err)
	}
}

// whole: the host has its addresses on the switch, and the bridge works.
func (s *firstStart) whole(problem error) {
	s.Helper()
	if problem != nil || s.NetworkCount() != 1 || !s.Extension() {
		s.Fatalf("%v\n%s", problem, s.Dump())
	}
	uplink := s.n.ovs.UplinkBridge(s.n.config.Owner())
	if uplink == nil {
		s.Fatal("there is no bridge")
	}
	s.Reachable(uplink.Name)
	if !s.Tunnels(uplink.Name) {
		s.Fatalf("the driver does not find the port %s of the tunnels' packets\n%s", uplink.Name, s.Dump())
	}
}

// alone: the host has its addresses on its own adapter, and ovs-vswitchd finds nothing that it would end over, once it
// has a database.
func (s *firstStart) alone() {
	s.Helper()
	bridges := ovsdb.List[vswitch.Bridge](s.n.ovs.Client, nil)
	if s.NetworkCount() != 0 || len(bridges) != 0 && !s.silent {
		s.Errorf("bridges %d, left:\n%s", len(bridges), s.Dump())
	}
	s.Reachable("Ethernet")
}

// calls numbers those of the platform, and returns what f makes of each.
func (s *firstStart) calls(f func(nth int, call string) error) {
	var mu sync.Mutex
	count := 0
	s.FailAny(func(call string) error {
		mu.Lock()
		count++
		nth := count
		mu.Unlock()
		return f(nth, call)
	})
}

// callsOfAFirstStart are those of the platform, in their order.
func callsOfAFirstStart(t *testing.T, moves bool, change ...func(*firstStart)) []string {
	t.Helper()
	s := newFirstStart(t)
	s.Moves = moves
	for _, c := range change {
		c(s)
	}
	calls := []string{}
	s.calls(func(_ int, call string) error { calls = append(calls, call); return nil })
	problem := s.start()
	s.FailAny(nil)
	s.whole(problem)
	return calls
}

// Whatever fails in a first start, the host is reachable after it, and the next start finds nothing in its way.
func TestFirstStartThatFailsAtAnyCall(t *testing.T) {
	for _, moves := range []bool{true, false} {
		for i, name := range callsOfAFirstStart(t, moves) {
			for _, every := range []bool{false, true} {
				if every && !moves && slices.Contains([]string{"Adapters", "Routes", "AddAddress", "AddRoute", "SetDNS"}, name) {
					continue // nobody could give the host back what Windows does not move
				}
				t.Run(fmt.Sprintf("moves %v, call %d %s, always %v", moves, i+1, name, every), func(t *testing.T) {
					t.Parallel()
					s := newFirstStart(t)
					s.Moves = moves
					s.calls(func(nth int, call string) error {
						if nth == i+1 || every && nth > i && call == name {
							return fmt.Errorf("%s fails today", call)
						}
						return nil
					})
					problem := s.start()
					s.FailAny(nil)
					if problem == nil {
						s.whole(nil)
					} else {
						s.alone()
					}
					s.whole(s.start())
				})
			}
		}
	}
}

// Open vSwitch, its driver and Hyper-V's management fail the host no less than HNS.
func TestFirstStartWithoutOpenVSwitch(t *testing.T) {
	for name, test := range map[string]struct{ fail, mend func(*firstStart) }{
		"ovs-vswitchd does not run": {
			func(s *firstStart) { s.daemon.set(func(d *extensionDaemon) { d.dead = true }) },
			func(s *firstStart) { s.daemon.set(func(d *extensionDaemon) { d.dead = false }) },
		},
		"vmms makes no vNIC": {
			func(s *firstStart) {
				s.daemon.set(func(d *extensionDaemon) { d.broken = func(device string) bool { return device != "Ethernet" } })
			},
			func(s *firstStart) { s.daemon.set(func(d *extensionDaemon) { d.broken = nil }) },
		},
		"the adapter is refused": {
			func(s *firstStart) {
				s.daemon.set(func(d *extensionDaemon) { d.broken = func(device string) bool { return device == "Ethernet" } })
			},
			func(s *firstStart) { s.daemon.set(func(d *extensionDaemon) { d.broken = nil }) },
		},
		"there is no driver": {func(s *firstStart) { s.Driver = false }, func(s *firstStart) { s.Driver = true }},
		"the extension is not enabled": {func(s *firstStart) { s.Disobeys = true },
			func(s *firstStart) { s.Disobeys = false }},
		"an earlier br-int is there too": {func(s *firstStart) { s.Driver = false; s.bridge() },
			func(s *firstStart) { s.Driver = true; s.bridge() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFirstStart(t)
			test.fail(s)
			if problem := s.startInVain(); problem == nil {
				t.Error("it succeeds")
			}
			s.alone()
			test.mend(s)
			s.whole(s.start())
		})
	}
}

// loss is what a first start loses beside calls, until it is mended.
type loss struct{ lose, mend func(*firstStart) }

// losses are those of Hyper-V's management, of the extension and of ovs-vswitchd.
func losses() map[string]loss {
	machine := func(change func(*hnstest.Machine)) func(*firstStart) {
		return func(s *firstStart) {
			s.Set(change)
			s.daemon.set(func(*extensionDaemon) {}) // it sees that at once
		}
	}
	daemon := func(dead bool) func(*firstStart) {
		return func(s *firstStart) { s.daemon.set(func(d *extensionDaemon) { d.dead = dead }) }
	}
	return map[string]loss{
		"vmms": {
			machine(func(m *hnstest.Machine) { m.NoVMMS = true }),
			machine(func(m *hnstest.Machine) { m.NoVMMS = false }),
		},
		"the extension": {func(s *firstStart) {
			s.DisableExtensions()
			machine(func(m *hnstest.Machine) { m.Disobeys = true })(s)
		}, machine(func(m *hnstest.Machine) { m.Disobeys = false })},
		"ovs-vswitchd": {daemon(true), daemon(false)},
	}
}

// soonGivenUp: addresses that Windows does not move are not waited for; there are fewer calls then.
func soonGivenUp(s *firstStart) { s.Config.AddressTime = 100 * time.Millisecond }

// What works beside HNS may be lost at any call of a first start: the host is reachable when the
// start has ended, and the next one succeeds as soon as it is mended.
func TestFirstStartThatLosesSomethingAtAnyCall(t *testing.T) {
	for _, moves := range []bool{true, false} {
		for i, name := range callsOfAFirstStart(t, moves, soonGivenUp) {
			for what, loss := range losses() {
				t.Run(fmt.Sprintf("moves %v, call %d %s, without %s", moves, i+1, name, what), func(t *testing.T) {
					t.Parallel()
					s := newFirstStart(t)
					s.Moves = moves
					soonGivenUp(s)
					s.calls(func(nth int, _ string) error {
						if nth == i+1 {
							loss.lose(s)
						}
						return nil
					})
					problem := s.startInVain()
					s.FailAny(nil)
					if problem == nil {
						s.whole(nil)
					} else {
						s.alone()
					}
					loss.mend(s)
					s.whole(s.start())
				})
			}
		}
	}
}

// tidying runs a first start that fails at the extension, and f says of each call after that whether it fails too.
func (s *firstStart) tidying(f func(nth int, call string) error) {
	s.Helper()
	failed, after := false, 0
	s.calls(func(_ int, call string) error {
		if !failed {
			if failed = call == "EnableExtension"; failed {
				return errors.New("access is denied")
			}
			return nil
		}
		after++
		return f(after, call)
	})
	if problem := s.start(); problem == nil {
		s.Error("it succeeds")
	}
	s.FailAny(nil)
}

// A second failure, of any call by which the host gets its adapter back, is outlived, too.
func TestFirstStartWhoseTidyingFailsAtAnyCall(t *testing.T) {
	for _, moves := range []bool{true, false} {
		s := newFirstStart(t)
		s.Moves = moves
		var names []string
		s.tidying(func(_ int, call string) error { names = append(names, call); return nil })
		s.alone()
		for i, name := range names {
			t.Run(fmt.Sprintf("moves %v, call %d %s", moves, i+1, name), func(t *testing.T) {
				t.Parallel()
				s := newFirstStart(t)
				s.Moves = moves
				s.tidying(func(nth int, call string) error {
					if nth == i+1 {
						return fmt.Errorf("%s fails, too", call)
					}
					return nil
				})
				s.alone()
				s.whole(s.start())
			})
		}
	}
}

// Where HNS leaves the switch behind, or does not delete the network at all, Hyper-V removes the switch.
func TestFirstStartWhoseSwitchIsLeft(t *testing.T) {
	for name, fail := range map[string]func(s *firstStart){
		"with the adapter": func(s *firstStart) { s.LeavesSwitch = true },
		"by HNS": func(s *firstStart) {
			s.Fail("DeleteNetwork",
				func() error { return errors.New("RPC is gone") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFirstStart(t)
			fail(s)
			s.tidying(func(int, string) error { return nil })
			s.Reachable("Ethernet")
			s.LeavesSwitch = false
			s.Fail("DeleteNetwork", nil)
			if problem := s.start(); problem != nil { // the network without the host's vNIC goes
				s.alone()
				s.whole(s.start())
			}
		})
	}
}

// Whatever cannot be removed after a failure is removed by the next start.
func TestFirstStartWhoseTidyingFails(t *testing.T) {
	s := newFirstStart(t)
	s.daemon.set(func(d *extensionDaemon) { d.broken = func(device string) bool { return device == "Ethernet" } })
	s.Fail("DeleteNetwork", func() error { return errors.New("RPC is gone") })
	if problem := s.startInVain(); problem == nil {
		t.Error("it succeeds")
	}
	s.Fail("DeleteNetwork", nil)
	s.daemon.set(func(d *extensionDaemon) { d.broken = nil })
	if problem := s.start(); problem != nil { // the network without the host's vNIC goes
		s.alone()
		s.whole(s.start())
	}
}

// The bridge of a lost switch goes before the next switch's vNIC of the same name comes.
func TestLostNetworkIsMadeAgainWithItsVNIC(t *testing.T) {
	s := newFirstStart(t)
	s.whole(s.start())
	before := s.n.ovs.UplinkBridge(s.n.config.Owner())
	s.LoseNetworks()
	s.whole(s.start())
	after := s.n.ovs.UplinkBridge(s.n.config.Owner())
	if after.ExternalIDs[openvswitch.SwitchKey] == before.ExternalIDs[openvswitch.SwitchKey] {
		t.Error("the bridge is the lost switch's")
	}
}
