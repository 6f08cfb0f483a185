package windows_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/node/windows/windowstest"
)

// A process may end at any of the calls that it makes on the way to an uplink; the next one finds what
// is there and ends with an uplink and a host that is reachable.
func TestUplinkSurvivesACrashAtEveryStep(t *testing.T) {
	for _, moves := range []bool{true, false} {
		for _, call := range []string{"CreateNetwork", "VMAdapter", "RenameVMAdapter", "Rename", "Switch",
			"EnableExtension", "AddAddress", "AddRoute", "SetDNS"} {
			for _, after := range []bool{false, true} {
				t.Run(strings.Join([]string{map[bool]string{true: "moved", false: "not moved"}[moves],
					map[bool]string{true: "after", false: "at"}[after], call}, " "), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { crashAt(t, moves, call, after) })
				})
			}
		}
	}
}

func crashAt(t *testing.T, moves bool, call string, after bool) {
	b := windowstest.New(t)
	b.Moves = moves
	times := 0
	b.Fail(call, func() error {
		if times++; after && times == 1 {
			return nil
		}
		return errCrash
	})
	// The process does not live to tidy up: all that it does after the crash is refused.
	crashed := &crashing{Machine: b.Machine}
	b.Windows, _ = windows.NewOver(b.Config, crashed, crashed)
	_, err := b.Windows.EnsureUplink(t.Context(), nil)
	if err != nil && !errors.Is(err, errCrash) {
		t.Fatalf("the first process: %v", err)
	}
	b.Fail(call, nil)
	b.Restart()
	b.EnsureUplink()
	b.Reachable(hostnet.HostAdapter)
	if b.NetworkCount() != 1 || !strings.Contains(b.Dump(), "extension true") {
		t.Errorf("left:\n%s", b.Dump())
	}
}

var errCrash = errors.New("the process has crashed")

// crashing refuses to change anything once a call has returned errCrash.
type crashing struct {
	*hnstest.Machine
	dead bool
}

func (c *crashing) change(change func() error) error {
	if c.dead {
		return errCrash
	}
	err := change()
	c.dead = errors.Is(err, errCrash)
	return err
}

func (c *crashing) CreateNetwork(n hns.Network) (created hns.Network, err error) {
	err = c.change(func() error { created, err = c.Machine.CreateNetwork(n); return err })
	return created, err
}

func (c *crashing) Switch(id string) (s hns.Switch, err error) {
	err = c.change(func() error { s, err = c.Machine.Switch(id); return err })
	return s, err
}

func (c *crashing) DeleteNetwork(id string) error {
	return c.change(func() error { return c.Machine.DeleteNetwork(id) })
}

func (c *crashing) EnableExtension(id, extension string) error {
	return c.change(func() error { return c.Machine.EnableExtension(id, extension) })
}

func (c *crashing) AddAddress(a hostnet.Adapter, p netip.Prefix) error {
	return c.change(func() error { return c.Machine.AddAddress(a, p) })
}

func (c *crashing) AddRoute(a hostnet.Adapter, r hostnet.Route) error {
	return c.change(func() error { return c.Machine.AddRoute(a, r) })
}

func (c *crashing) SetDNS(a hostnet.Adapter, d hostnet.DNS) error {
	return c.change(func() error { return c.Machine.SetDNS(a, d) })
}

func (c *crashing) VMAdapter(ctx context.Context, virtualSwitch string, mac net.HardwareAddr) (name string, err error) {
	err = c.change(func() error { name, err = c.Machine.VMAdapter(ctx, virtualSwitch, mac); return err })
	return name, err
}

func (c *crashing) RenameVMAdapter(ctx context.Context, virtualSwitch string, mac net.HardwareAddr, name string) error {
	return c.change(func() error { return c.Machine.RenameVMAdapter(ctx, virtualSwitch, mac, name) })
}

func (c *crashing) Rename(a hostnet.Adapter, alias string) error {
	return c.change(func() error { return c.Machine.Rename(a, alias) })
}

func (c *crashing) Reclaim(ctx context.Context, virtualSwitch, adapter string, dhcp bool) error {
	return c.change(func() error { return c.Machine.Reclaim(ctx, virtualSwitch, adapter, dhcp) })
}

func TestLostUplinkIsRepaired(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(b *windowstest.Bench)
		new  bool // the switch is another one afterwards
	}{
		"network": {lose: func(b *windowstest.Bench) { b.LoseNetworks() }, new: true},
		"network, and the addresses with it": {lose: func(b *windowstest.Bench) {
			b.Moves = false
			b.LoseNetworks()
		}, new: true},
		"extension": {lose: func(b *windowstest.Bench) { b.DisableExtensions() }},
		"addresses": {lose: func(b *windowstest.Bench) {
			adapters, _ := b.Adapters()
			host, _ := hostnet.Named(adapters, hostnet.HostAdapter)
			for _, a := range host.Global() {
				if err := b.DeleteAddress(host, a); err != nil {
					b.Fatal(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := windowstest.New(t)
				before := b.EnsureUplink()
				ctx, cancel := context.WithCancel(t.Context())
				told := make(chan struct{}, 1)
				ended := make(chan error, 1)
				go func() {
					ended <- b.Windows.Watch(ctx, func() {
						select {
						case told <- struct{}{}:
						default:
						}
					})
				}()
				<-told
				begin := time.Now()
				test.lose(b)
				<-told
				if took := time.Since(begin); took > 2*windows.NetworkPeriod {
					t.Errorf("it took %v to notice", took)
				}
				after := b.EnsureUplink()
				if (after.Switch != before.Switch) != test.new || !strings.Contains(b.Dump(), "extension true") {
					t.Errorf("switch %s, then %s\n%s", before.Switch, after.Switch, b.Dump())
				}
				b.Reachable(hostnet.HostAdapter)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestNetworkThatHangsInItsMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := windowstest.New(t, func(c *windows.Config) { c.Metrics = prometheus.NewRegistry() })
		held := make(chan struct{})
		b.Fail("CreateNetwork", func() error { b.Fail("CreateNetwork", nil); <-held; return nil })
		var hung *hns.HungError
		if _, err := b.Windows.EnsureUplink(t.Context(), nil); !errors.As(err, &hung) {
			t.Fatalf("error %v", err)
		}
		b.Reachable("Ethernet")
		close(held) // and now it is made after all
		synctest.Wait()
		b.EnsureUplink()
		b.Reachable(hostnet.HostAdapter)
		if b.NetworkCount() != 1 {
			t.Errorf("left:\n%s", b.Dump())
		}
	})
}

// A removal that HNS does not answer is not asked for again: the host waits a minute for each.
func TestNetworkThatHangsInItsRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := windowstest.New(t)
		b.EnsureUplink()
		b.Calls()
		held := make(chan struct{})
		defer close(held)
		b.Fail("DeleteNetwork", func() error { <-held; return errors.New("too late") })
		begin := time.Now()
		err := b.Windows.ReleaseUplink(t.Context(), nil)
		var hung *hns.HungError
		if !errors.As(err, &hung) {
			t.Errorf("error %v", err)
		}
		b.Reachable("Ethernet")
		if took := time.Since(begin); took > 90*time.Second {
			t.Errorf("the host had no network for %v", took)
		}
		calls := slices.DeleteFunc(b.Calls(), func(call string) bool { return call != "DeleteNetwork" })
		if len(calls) != 1 {
			t.Errorf("HNS was asked %d times", len(calls))
		}
	})
}

// What was never given back to the end is given to the adapter that had it, and to no other that has the address now.
func TestAddressThatHasMovedIsNotSetTwice(t *testing.T) {
	for name, call := range map[string]func(*windowstest.Bench) error{
		"an uplink": func(b *windowstest.Bench) error {
			_, err := b.Windows.EnsureUplink(b.Context(), nil)
			return err
		},
		"without a bridge": func(b *windowstest.Bench) error { return b.Windows.RestoreHost(b.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := windowstest.New(t, func(c *windows.Config) { c.Adapter = "Management" })
			adapters, _ := b.Adapters()
			old, _ := hostnet.Named(adapters, "Ethernet")
			other, _ := hostnet.Named(adapters, "Management")
			if err := (platform.SavedHost[windows.HostSettings]{Path: b.Config.StateFile}).Write(windows.HostSettings{
				Adapter: "Ethernet", MAC: hnstest.NodeMAC, Addresses: old.Global()}); err != nil {
				t.Fatal(err)
			}
			address := netip.MustParsePrefix("172.30.0.3/24")
			if err := errors.Join(b.DeleteAddress(old, address), b.AddAddress(other, address)); err != nil {
				t.Fatal(err)
			}
			if err := call(b); err != nil {
				t.Error(err)
			}
			if adapters, _ = b.Adapters(); slices.ContainsFunc(adapters, func(a hostnet.Adapter) bool {
				return a.Alias == "Ethernet" && a.Has(address.Addr())
			}) {
				t.Errorf("the address is there twice\n%s", b.Dump())
			}
		})
	}
}

// outdated: the network is told to be outdated, is there until the bridges have gone, and goes by a release.
func outdated(b *windowstest.Bench) {
	b.Helper()
	if _, err := b.Windows.EnsureUplink(b.Context(), nil); !errors.Is(err, platform.ErrOutdatedUplink) ||
		b.NetworkCount() != 1 {
		b.Errorf("%d networks are there before the bridges of the old switch have gone: %v", b.NetworkCount(), err)
	}
	if err := b.Windows.ReleaseUplink(b.Context(), nil); err != nil {
		b.Error(err)
	}
}

func TestNetworkOfOtherSubnets(t *testing.T) {
	other := func(b *windowstest.Bench) {
		b.Config.PodSubnets = func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.244.9.0/24")} }
		b.Restart()
	}
	t.Run("empty: it is made again", func(t *testing.T) {
		b := windowstest.New(t)
		before := b.EnsureUplink()
		other(b)
		outdated(b)
		b.Reachable("Ethernet")
		if after := b.EnsureUplink(); after.Switch == before.Switch {
			t.Errorf("kept:\n%s", b.Dump())
		}
		b.Reachable(hostnet.HostAdapter)
	})
	// As when the Node was deleted and has come back: nobody starts the agent again.
	t.Run("they change while the agent runs", func(t *testing.T) {
		subnets := []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}
		b := windowstest.New(t, func(c *windows.Config) { c.PodSubnets = func() []netip.Prefix { return subnets } })
		before := b.EnsureUplink()
		subnets = []netip.Prefix{netip.MustParsePrefix("10.244.9.0/24")}
		outdated(b)
		if after := b.EnsureUplink(); after.Switch == before.Switch {
			t.Errorf("kept:\n%s", b.Dump())
		}
	})
	t.Run("with endpoints: they stay", func(t *testing.T) {
		b := windowstest.New(t)
		uplink := b.EnsureUplink()
		b.AddForeignEndpoint(hns.Endpoint{Name: "weft00000000001", Network: uplink.Switch})
		other(b)
		if _, err := b.Windows.EnsureUplink(t.Context(), nil); err == nil || errors.Is(err, platform.ErrNoUplink) ||
			!strings.Contains(err.Error(), "drain the node") || b.NetworkCount() != 1 {
			t.Errorf("error %v\n%s", err, b.Dump())
		}
	})
	t.Run("another's: it stays", func(t *testing.T) {
		b := windowstest.New(t)
		b.EnsureUplink()
		if err := os.Remove(b.Config.StateFile); err != nil {
			t.Fatal(err)
		}
		other(b)
		if _, err := b.Windows.EnsureUplink(t.Context(), nil); err == nil ||
			!strings.Contains(err.Error(), "leaves it alone") || b.NetworkCount() != 1 {
			t.Errorf("error %v\n%s", err, b.Dump())
		}
	})
}

func TestSavedHostFollowsTheHost(t *testing.T) {
	b := windowstest.New(t)
	b.EnsureUplink()
	adapters, _ := b.Adapters()
	host, _ := hostnet.Named(adapters, hostnet.HostAdapter)
	if err := errors.Join(b.DeleteAddress(host, netip.MustParsePrefix("fd30::3/64")),
		b.AddAddress(host, netip.MustParsePrefix("fd30::33/64"))); err != nil {
		t.Fatal(err)
	}
	b.Restart() // the operator's change is no loss
	b.EnsureUplink()
	saved, err := b.Windows.SavedHost()
	if err != nil || !saved.Ready || !slices.Equal(saved.Addresses,
		[]netip.Prefix{netip.MustParsePrefix("172.30.0.3/24"), netip.MustParsePrefix("fd30::33/64")}) {
		t.Errorf("saved %+v, error %v", saved, err)
	}
	if err := os.WriteFile(b.Config.StateFile, []byte(`{"adapter`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Restart()
	if _, err := b.Windows.EnsureUplink(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), b.Config.StateFile) {
		t.Errorf("a file that is damaged: %v", err)
	}
}
