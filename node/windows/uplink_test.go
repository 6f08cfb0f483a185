package windows_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hns/hnstest"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/windows"
	"github.com/weftnet/weft/node/windows/windowstest"
)

func TestUplinkIsMadeOnceAndKept(t *testing.T) {
	b := windowstest.New(t)
	uplink := b.EnsureUplink()
	if uplink.Adapter != "Ethernet" || uplink.Host != hostnet.HostAdapter || uplink.Switch == "" {
		t.Errorf("uplink %+v", uplink)
	}
	b.Reachable(hostnet.HostAdapter)
	b.Calls()
	if again := b.EnsureUplink(); again != uplink {
		t.Errorf("uplink %+v, then %+v", uplink, again)
	}
	if calls := b.Calls(); len(calls) != 0 {
		t.Errorf("an uplink that was just seen in order cost the calls %v", calls)
	}
	b.Restart()
	if again := b.EnsureUplink(); again != uplink || b.NetworkCount() != 1 {
		t.Errorf("after a restart %+v\n%s", again, b.Dump())
	}
	if err := b.Windows.ReleaseUplink(t.Context(), nil); err != nil || b.NetworkCount() != 0 {
		t.Errorf("release: %v\n%s", err, b.Dump())
	}
	b.Reachable("Ethernet")
	if again := b.EnsureUplink(); again.Switch == uplink.Switch {
		t.Errorf("a new switch is told by the old one's ID %s", again.Switch)
	}
}

// Who misspells a key of a node that works is told so, and the host, whose address is on the switch's
// vNIC, is not cut off from it.
func TestARefusalLeavesAWorkingUplinkAlone(t *testing.T) {
	for name, change := range map[string]func(*windows.Config){
		"another adapter":         func(c *windows.Config) { c.Adapter = "Management" },
		"another network":         func(c *windows.Config) { c.Network = "other" },
		"another network's name":  func(c *windows.Config) { c.Network = "nat" },
		"an adapter that is none": func(c *windows.Config) { c.Adapter = "Ethernet 9" },
		"another node's adapter and address": func(c *windows.Config) {
			c.Adapter, c.EncapAddress = "Ethernet 9", netip.MustParseAddr("192.0.2.9")
		},
		"another node's network and address": func(c *windows.Config) {
			c.Network, c.EncapAddress = "other", netip.MustParseAddr("192.0.2.9")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := windowstest.New(t, func(*windows.Config) {})
			b.EnsureUplink()
			if _, err := b.CreateNetwork(hns.Network{Name: "nat", Type: "L2Bridge", Adapter: "Management"}); err != nil {
				t.Fatal(err)
			}
			change(&b.Config)
			b.Restart()
			before := b.Dump()
			// Without a switch the agent would remove the bridges, and with them the host's vNIC.
			if exists, err := b.Windows.SwitchExists(t.Context()); err != nil || !exists {
				t.Errorf("the switch exists: %v, %v", exists, err)
			}
			if _, err := b.Windows.EnsureUplink(t.Context(), nil); err == nil || errors.Is(err, platform.ErrNoUplink) {
				t.Errorf("error %v", err)
			}
			if after := b.Dump(); after != before {
				t.Errorf("changed from\n%sto\n%s", before, after)
			}
			b.Reachable(hostnet.HostAdapter)
		})
	}
}

// TestANetworkOfAFormerNameIsReleased, as it is when the agent's configuration has another name before Weft goes.
func TestANetworkOfAFormerNameIsReleased(t *testing.T) {
	b := windowstest.New(t, func(*windows.Config) {})
	b.EnsureUplink()
	b.Config.Network = "other"
	b.Restart()
	if err := b.Windows.ReleaseUplink(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if networks, err := b.Networks(); err != nil || len(networks) > 0 {
		t.Errorf("networks that are left: %v, %v", networks, err)
	}
	b.Reachable("Ethernet")
}

func TestUplinkIsRefusedBeforeAnythingChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*windows.Config)
		before func(b *windowstest.Bench)
		want   []string
	}{
		"no such adapter": {change: func(c *windows.Config) { c.Adapter = "Ethernet 9" },
			want: []string{"adapter", `"Ethernet 9"`, `"Ethernet" (physical`}},
		"virtual": {change: func(c *windows.Config) { c.Adapter = "vEthernet (nat)" }, before: func(b *windowstest.Bench) {
			b.AddAdapter(hostnet.Adapter{Alias: "vEthernet (nat)", Kind: hostnet.Virtual,
				Description: "Hyper-V Virtual Ethernet Adapter",
				Addresses:   []hostnet.Address{hnstest.LocalAddress("172.20.0.1/20")}})
		}, want: []string{"adapter", "vEthernet (nat)", "not a physical adapter", "Get-HnsNetwork"}},
		"team": {change: func(c *windows.Config) { c.Adapter = "Team" }, before: func(b *windowstest.Bench) {
			b.AddAdapter(hostnet.Adapter{Alias: "Team", Kind: hostnet.Team,
				Addresses: []hostnet.Address{hnstest.LocalAddress("172.20.0.1/20")}})
		}, want: []string{"adapter", "team of adapters", "dissolve"}},
		"member of a team": {change: func(c *windows.Config) { c.Adapter = "Ethernet 2" },
			before: func(b *windowstest.Bench) {
				b.AddAdapter(hostnet.Adapter{Alias: "Ethernet 2", Kind: hostnet.Physical, MAC: hnstest.MAC("02:00:00:00:00:05")})
				b.AddAdapter(hostnet.Adapter{Alias: "Team", Kind: hostnet.Team, MAC: hnstest.MAC("02:00:00:00:00:05"),
					Addresses: []hostnet.Address{hnstest.LocalAddress("172.20.0.1/20")}})
			}, want: []string{"adapter", `team "Team"`}},
		"without address": {change: func(c *windows.Config) { c.Adapter = "Ethernet 2" }, before: func(b *windowstest.Bench) {
			b.AddAdapter(hostnet.Adapter{Alias: "Ethernet 2", Kind: hostnet.Physical, MAC: hnstest.MAC("02:00:00:00:00:05"),
				Addresses: []hostnet.Address{hnstest.LocalAddress("169.254.1.1/16")}})
		}, want: []string{"adapter", "no usable address"}},
		"without encap-address": {change: func(c *windows.Config) { c.Adapter = "Management" },
			want: []string{"adapter", "encap-address 172.30.0.3"}},
		"nobody holds it": {change: func(c *windows.Config) { c.EncapAddress = netip.MustParseAddr("172.30.0.9") },
			want: []string{"adapter", "encap-address 172.30.0.9"}},
		"subnets not known": {change: func(c *windows.Config) { c.PodSubnets = func() []netip.Prefix { return nil } },
			want: []string{"pod subnets are not known"}},
		"network of another type": {before: func(b *windowstest.Bench) {
			if _, err := b.CreateNetwork(hns.Network{Name: "weft", Type: "L2Bridge", Adapter: "Management"}); err != nil {
				b.Fatal(err)
			}
		}, want: []string{"HNS network weft", "L2Bridge", "hns-network", "Remove-HnsNetwork"}},
		"network on another adapter": {change: func(c *windows.Config) { c.Adapter = "Ethernet" },
			before: func(b *windowstest.Bench) {
				if _, err := b.CreateNetwork(hns.Network{Name: "weft", Type: hns.Transparent, Adapter: "Management"}); err != nil {
					b.Fatal(err)
				}
			}, want: []string{"HNS network weft", `"Management"`, `"Ethernet"`, "hns-network"}},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.change
			if change == nil {
				change = func(*windows.Config) {}
			}
			b := windowstest.New(t, change)
			if test.before != nil {
				test.before(b)
			}
			before := b.Dump()
			for range 2 {
				_, err := b.Windows.EnsureUplink(t.Context(), nil)
				if !errors.Is(err, platform.ErrNoUplink) {
					t.Fatalf("error %v", err)
				}
				for _, want := range test.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q does not say %q", err, want)
					}
				}
			}
			if after := b.Dump(); after != before {
				t.Errorf("changed from\n%sto\n%s", before, after)
			}
		})
	}
}

func TestHostStaysReachable(t *testing.T) {
	for name, test := range map[string]struct {
		before func(b *windowstest.Bench)
		want   string // of the error; empty: it succeeds
	}{
		"Windows does not move the addresses": {before: func(b *windowstest.Bench) { b.Moves = false }},
		"the extension is not installed": {before: func(b *windowstest.Bench) { b.Driver = false },
			want: "not installed"},
		"nor does Windows move the addresses": {before: func(b *windowstest.Bench) { b.Driver, b.Moves = false, false },
			want: "not installed"},
		"the extension stays disabled": {before: func(b *windowstest.Bench) { b.Disobeys = true },
			want: "stays disabled"},
		"HNS refuses the network": {before: func(b *windowstest.Bench) {
			b.Fail("CreateNetwork",
				func() error { return errors.New("0x57") })
		}, want: "0x57"},
		"HNS fails when the extension is enabled": {before: func(b *windowstest.Bench) {
			b.Fail("EnableExtension",
				func() error { return errors.New("RPC is gone") })
		}, want: "RPC is gone"},
		"the host's networking cannot be read any more": {before: func(b *windowstest.Bench) { failAdaptersOnceMade(b) },
			want: "no adapters today"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := windowstest.New(t)
				test.before(b)
				_, err := b.Windows.EnsureUplink(t.Context(), nil)
				if test.want == "" {
					if err != nil {
						t.Fatalf("%v\n%s", err, b.Dump())
					}
					b.Reachable(hostnet.HostAdapter)
					return
				}
				if err == nil || !strings.Contains(err.Error(), test.want) || b.NetworkCount() != 0 {
					t.Fatalf("error %v\n%s", err, b.Dump())
				}
				b.Reachable("Ethernet")
				b.Calls()
				if _, again := b.Windows.EnsureUplink(t.Context(), nil); again == nil ||
					!strings.Contains(again.Error(), "made again in") || !strings.Contains(again.Error(), test.want) ||
					slices.Contains(b.Calls(), "CreateNetwork") {
					t.Errorf("at once again: %v", again)
				}
				time.Sleep(b.Windows.RetryTime())
				b.Driver, b.Disobeys = true, false
				b.Fail("CreateNetwork", nil)
				b.Fail("EnableExtension", nil)
				b.EnsureUplink()
				b.Reachable(hostnet.HostAdapter)
			})
		})
	}
}

// failAdaptersOnceMade has all looks at the adapters fail while there is a network.
func failAdaptersOnceMade(b *windowstest.Bench) {
	made := false
	b.Fail("CreateNetwork", func() error { made = true; return nil })
	b.Fail("DeleteNetwork", func() error { made = false; return nil })
	b.Fail("Adapters", func() error {
		if made {
			return errors.New("no adapters today")
		}
		return nil
	})
}

func TestWhatAWindowsHostHasOnItsUplink(t *testing.T) {
	b := windowstest.New(t)
	uplink := b.EnsureUplink()
	has, err := b.Windows.HostInterface(uplink.Host)
	if err != nil {
		t.Fatal(err)
	}
	if has.MAC.String() != hnstest.NodeMAC ||
		!slices.Equal(has.Addresses, nodetest.Prefixes("172.30.0.3/24", "fd30::3/64")) ||
		!slices.Equal(has.NextHops, nodetest.Addrs("172.30.0.254")) {
		t.Errorf("the host has %+v", has)
	}
	if _, err := b.Windows.HostInterface("Ethernet 9"); !errors.Is(err, platform.ErrNoDevice) {
		t.Errorf("an adapter that is not there: %v", err)
	}
}
