package encryption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// fakeTunnels guard when problem is nil. With encrypts, there are SAs to all peers.
type fakeTunnels struct {
	problem  error
	encrypts bool
}

func (f *fakeTunnels) Guard() error { return f.problem }
func (f *fakeTunnels) Keep(_ context.Context, peers []netip.Addr) (ipsec.Status, error) {
	if f.encrypts {
		return ipsec.Status{Encrypted: len(peers)}, f.problem
	}
	return ipsec.Status{Missing: peers}, f.problem
}
func (f *fakeTunnels) Problem(netip.Addr) error {
	return errors.New("AUTHENTICATION_FAILED")
}
func (f *fakeTunnels) Run(ctx context.Context, look func(context.Context)) { look(ctx) }
func (f *fakeTunnels) Enqueue()                                            {}
func (f *fakeTunnels) Close()                                              {}

// later has all peers wait for longer than anybody has patience.
func (p *peers) later() {
	for peer := range p.since {
		p.since[peer] = p.since[peer].Add(-2 * peerPatience)
	}
	p.failed = p.failed.Add(-2 * peerPatience)
}

// age has so much time pass for all answers.
func (p *peers) age(by time.Duration) {
	for peer, a := range p.answers {
		a.asked = a.asked.Add(-by)
		p.answers[peer] = a
	}
}

func TestUnencryptedPeersAreTold(t *testing.T) {
	e := New(&fakeTunnels{}, ipsec.Enforce, nil, nil, nil, nil)
	first, second := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	if err := e.overdue(e.judge(t.Context(), []netip.Addr{first, second})); err != nil {
		t.Errorf("told at once: %v", err)
	}
	e.peers.later()
	err := e.overdue(e.judge(t.Context(), []netip.Addr{second}))
	if err == nil {
		t.Fatal("nobody is told of a peer without encryption")
	}
	for _, part := range []string{"192.0.2.3 is dropped", "AUTHENTICATION_FAILED"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if _, kept := e.peers.since[first]; kept {
		t.Error("a peer that is encrypted is remembered as one that is not")
	}
}

// TestANodeThatCannotEncryptIsToldInsteadOfItsPeers: its own cause is theirs.
func TestANodeThatCannotEncryptIsToldInsteadOfItsPeers(t *testing.T) {
	tracker := health.New(func(health.Condition, error) {}, func(*reasons.Event, string) {})
	e := New(&fakeTunnels{}, ipsec.Begin, nil, tracker, nil, func(context.Context) (map[netip.Addr]struct{}, error) {
		return nil, nil
	})
	status := ipsec.Status{Missing: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}
	report := func(err error, want ...health.Condition) {
		t.Helper()
		e.report(t.Context(), status, err)
		if got := slices.Sorted(maps.Keys(tracker.Noted())); !slices.Equal(got, want) {
			t.Errorf("with %v: told of %v, not of %v", err, got, want)
		}
	}
	report(nil)
	e.peers.later()
	report(nil, health.EncryptedPeers)
	report(errors.New("charon does not run"), health.ClearTunnels)
	report(nil, health.EncryptedPeers)
}

// TestOffloadedTunnelsCountAsUnencrypted: charon has SAs to all peers, and what the device sends passes by them.
func TestOffloadedTunnelsCountAsUnencrypted(t *testing.T) {
	ovn := nodetest.StartOVS(t)
	ovn.VS("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
	ovn.VS("add-port", "br-int", "peer", "--", "set", "interface", "peer", "type=geneve", "options:remote_ip=192.0.2.2")
	ovs, err := openvswitch.Connect(t.Context(), ovn.OVSDatabase())
	if err != nil {
		t.Fatal(err)
	}
	defer ovs.Close()
	tracker := health.New(func(health.Condition, error) {}, func(*reasons.Event, string) {})
	e := New(&fakeTunnels{encrypts: true}, ipsec.Begin, ovs, tracker, nil, nil)
	counted := func(encrypted, unencrypted float64) {
		t.Helper()
		nodetest.Eventually(t, nodetest.Patience, func() error {
			e.reconcileOnce(t.Context())
			if a, b := testutil.ToFloat64(e.encrypted), testutil.ToFloat64(e.unencrypted); a != encrypted || b != unencrypted {
				return fmt.Errorf("%v peers are encrypted, %v are not; want %v, %v", a, b, encrypted, unencrypted)
			}
			return nil
		})
	}
	counted(1, 0)
	ovn.VS("set", "open", ".", "other_config:hw-offload=true")
	counted(0, 1)
	ovn.VS("remove", "open", ".", "other_config", "hw-offload")
	counted(1, 0)
}

// TestAWindowsNodeWithoutAddressIsAskedForAgain, in pauses that grow: its Node may get the address of its tunnels late.
func TestAWindowsNodeWithoutAddressIsAskedForAgain(t *testing.T) {
	peer := []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	asked, nodes := 0, map[netip.Addr]struct{}{}
	p := newPeers(func(context.Context) (map[netip.Addr]struct{}, error) {
		asked++
		return nodes, nil
	})
	p.observe(peer)
	p.later()
	look := func(after time.Duration, questions, windows int) {
		t.Helper()
		p.age(after)
		if _, apart := p.split(t.Context(), peer); asked != questions || apart != windows {
			t.Errorf("%v later: asked %d times, %d Windows nodes; want %d, %d", after, asked, apart, questions, windows)
		}
	}
	look(0, 1, 0)
	look(peerPatience/2, 1, 0)
	look(peerPatience/2, 2, 0)
	look(peerPatience, 2, 0)
	look(peerPatience, 3, 0)
	for n := range 10 {
		look(maxPause, 4+n, 0)
	}
	nodes[peer[0]] = struct{}{}
	look(maxPause, 14, 1)
	look(maxPause, 14, 1)
}

// TestWindowsNodesAreExpected to encrypt nothing while encryption begins: they are counted apart and no fault. They are
// asked for when a peer is newly overdue, however soon after another one, and again after a failure.
func TestWindowsNodesAreExpected(t *testing.T) {
	linux, windows := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	another := netip.MustParseAddr("192.0.2.4")
	asked, failure := 0, errors.New("away")
	e := New(&fakeTunnels{}, ipsec.Begin, nil, nil, nil, func(context.Context) (map[netip.Addr]struct{}, error) {
		asked++
		return map[netip.Addr]struct{}{windows: {}, another: {}}, failure
	})
	look := func(name string, peers []netip.Addr, questions, apart int, told string) {
		t.Helper()
		err := e.overdue(e.judge(t.Context(), peers))
		if asked != questions || testutil.ToFloat64(e.windows) != float64(apart) || (err == nil) != (told == "") ||
			err != nil && !strings.Contains(err.Error(), told) {
			t.Errorf("%s: asked %d times, %v Windows nodes, told: %v", name, asked, testutil.ToFloat64(e.windows), err)
		}
	}
	both := []netip.Addr{linux, windows}
	look("at first", both, 0, 0, "")
	e.peers.later()
	look("nobody answers", both, 1, 0, "192.0.2.2, 192.0.2.3 goes in the clear")
	look("soon after that", both, 1, 0, "192.0.2.2, 192.0.2.3 goes in the clear")
	failure = nil
	e.peers.later()
	look("it is known", both, 2, 1, "192.0.2.2 goes in the clear")
	e.peers.later()
	look("it stays known", both, 2, 1, "192.0.2.2 goes in the clear")
	look("the other one is encrypted", both[1:], 2, 1, "")
	look("another one joins", []netip.Addr{windows, another}, 2, 1, "")
	for _, peer := range []netip.Addr{windows, another} {
		e.peers.since[peer] = e.peers.since[peer].Add(-2 * peerPatience)
	}
	look("soon after the last question", []netip.Addr{windows, another}, 3, 2, "")
	e.mode = ipsec.Enforce
	look("nothing may be in the clear", both[1:], 3, 0, "192.0.2.3 is dropped")
}
