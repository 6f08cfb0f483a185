package encryption

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/ipsec"
)

// fakeTunnels guard when problem is nil.
type fakeTunnels struct{ problem error }

func (f *fakeTunnels) Guard() error { return f.problem }
func (f *fakeTunnels) Keep(_ context.Context, peers []netip.Addr) (ipsec.Status, error) {
	return ipsec.Status{Missing: peers}, f.problem
}
func (f *fakeTunnels) Problem(netip.Addr) error {
	return errors.New("AUTHENTICATION_FAILED")
}
func (f *fakeTunnels) Run(ctx context.Context, look func(context.Context)) { look(ctx) }
func (f *fakeTunnels) Enqueue()                                            {}
func (f *fakeTunnels) Close()                                              {}

func TestUnencryptedPeersAreTold(t *testing.T) {
	e := &Tunnels{mode: ipsec.Enforce, Keeper: &fakeTunnels{}}
	first, second := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	since := map[netip.Addr]time.Time{}
	if err := e.overdue([]netip.Addr{first, second}, since); err != nil {
		t.Errorf("told at once: %v", err)
	}
	for peer := range since {
		since[peer] = since[peer].Add(-2 * peerPatience)
	}
	err := e.overdue([]netip.Addr{second}, since)
	if err == nil {
		t.Fatal("nobody is told of a peer without encryption")
	}
	for _, part := range []string{"192.0.2.3 is dropped", "AUTHENTICATION_FAILED"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if _, kept := since[first]; kept {
		t.Error("a peer that is encrypted is remembered as one that is not")
	}
}
