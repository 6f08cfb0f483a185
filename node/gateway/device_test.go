package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

// TestADeviceThatIsRefusedJoinsNoBridge: with the host's addresses it would cost the host its network. One that is not
// there yet is a port first, as Open vSwitch makes it then.
func TestADeviceThatIsRefusedJoinsNoBridge(t *testing.T) {
	const device = "eth1"
	for what, test := range map[string]struct {
		refusal error
		joins   bool
	}{
		"a good device":             {nil, true},
		"one that is not there yet": {fmt.Errorf("gateway device %s: %w", device, platform.ErrNoDevice), true},
		"one of the host's":         {errors.New("gateway device eth1 has the host's address 192.0.2.10"), false},
	} {
		b := newBench(t, func(c *nodeconfig.Config) {
			c.Gateway, c.GatewayInterface = nodeconfig.GatewayLocal, device
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.20/24")}
		})
		b.fake.Failing("EnsureGatewayDevice", test.refusal)
		look := func(done func() bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), nodetest.Patience)
			defer cancel()
			if err := b.Database.WaitFor(ctx, func() bool {
				if err := b.ReconcileBridges(t.Context()); !errors.Is(err, test.refusal) {
					t.Errorf("%s: %v", what, err)
				}
				return done()
			}); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		joined := func() bool { return b.Database.Port(device) != nil }
		look(func() bool { return b.Database.Bridge("br-ex") != nil }) // without it there are no ports
		look(func() bool { return joined() == test.joins })
		look(func() bool { return true })
		if joined() != test.joins {
			t.Errorf("%s joins the bridge: %v", what, joined())
		}
	}
}
