package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/encryption"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
)

// shareRest is the pause between attempts: the host may yet get its addresses, and ovs-vswitchd may yet start.
const shareRest = 250 * time.Millisecond

// Share moves the host's addresses to the uplink's bridge as the agent does when it starts, and says what it has done.
// Before that, it sees to it that no tunnel is used in the clear if encryption is enforce. It is for a host that starts
// its agent only when it reaches the API server. It tries until ctx ends.
func Share(ctx context.Context, config nodeconfig.Config) (string, error) {
	crypt, err := encryption.Guarded(config)
	if err != nil {
		return "", err
	}
	if crypt != nil {
		crypt.Close() // the policies stay
	}
	if !config.SharesAdapter() {
		return "nothing is to be shared: the gateway does not have the host's addresses by a device", nil
	}
	if agentRuns(ctx, config) {
		return fmt.Sprintf("nothing is done: the agent runs (it listens on %s) and does this itself", config.CNISocket), nil
	}
	integration, err := config.OpenFlow()
	if err != nil {
		return "", fmt.Errorf("ovs-openflow: %w", err)
	}
	system, err := linux.New(linuxConfig(config))
	if err != nil {
		return "", err
	}
	defer system.Close()
	ovs, err := openvswitch.Connect(ctx, config.OVSDatabase)
	if err != nil {
		return "", err
	}
	defer ovs.Close()
	share := func() (platform.Uplink, error) {
		if err := ovs.RoundTrip(ctx, openvswitch.TakeUpTime); err != nil {
			return platform.Uplink{}, err
		}
		// Without the agent's flows, the router would answer for the host. A bridge that cannot be asked is not there.
		if flows, err := ofOutside(config, integration).count(ctx); err != nil || flows == 0 {
			if err := ovs.SuspendRouter(ctx, config); err != nil {
				return platform.Uplink{}, err
			}
		}
		return system.EnsureUplink(ctx, openvswitch.NewUplinkBridge(ovs, config, openvswitch.TakeUpTime))
	}
	for {
		uplink, err := share()
		if err == nil {
			addresses, err := system.GlobalAddresses(uplink.Host)
			return fmt.Sprintf("bridge %s has device %s, and the addresses %v", uplink.Host, uplink.Adapter, addresses), err
		}
		if errors.Is(err, platform.ErrReleased) { // Open vSwitch fails, and another attempt would interrupt the host again
			return "", err
		}
		signal.Sleep(ctx, shareRest)
		if ctx.Err() != nil {
			return "", err
		}
	}
}
