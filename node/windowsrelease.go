package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/windows"
)

// releaseWindows gives the host its adapter back while the agent does not run, and says what it has done. The
// bridges go first, since ovs-vswitchd ends over one without its switch, and the network goes whatever has become
// of them. unreachable is why ovs is nil, where it is.
func releaseWindows(ctx context.Context, config nodeconfig.Config, system *windows.Platform,
	ovs *openvswitch.Database, unreachable error) (string, error) {
	_, saved, err := system.Releasable(ctx)
	if err != nil && (saved == nil || errors.Is(err, windows.ErrForeignNetwork)) {
		return "", err
	}
	removed, left := false, fmt.Errorf("start it and repeat this: %w", unreachable)
	if ovs != nil {
		if removed, left = ovs.RemoveOwn(ctx, config); removed && left == nil {
			if err := ovs.RoundTrip(ctx, openvswitch.TakeUpTime); err != nil { // it may be dead
				slog.WarnContext(ctx, "the switch goes before Open vSwitch has left it", "error", err)
			}
		}
	}
	if left != nil {
		left = fmt.Errorf("weft's bridges are still in Open vSwitch's database: %w", left)
	}
	if err := system.ReleaseUplink(ctx, nil); err != nil {
		return "", errors.Join(err, left)
	}
	if left != nil {
		return "", fmt.Errorf("the host has its adapter for itself, but %w", left)
	}
	if saved == nil {
		if removed {
			return "the host has its adapters for itself, and weft's bridges are gone", nil
		}
		return "nothing is shared: the host has its adapters for itself", nil
	}
	// Addresses that the host gets later on are its own business.
	if err := system.ForgetHost(); err != nil {
		return "", err
	}
	return fmt.Sprintf("the host has adapter %s for itself again, with the addresses %v", saved.Adapter,
		saved.Addresses), nil
}
