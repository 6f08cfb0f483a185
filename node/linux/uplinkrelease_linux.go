package linux

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/node/platform"
)

// ReleaseUplink gives the device back what the host has on the bridge's interface, in the opposite order of
// EnsureUplink: the host works after each step, too. It finds out by itself what was shared; nothing where
// nothing was.
func (s *sharing) ReleaseUplink(ctx context.Context, bridge platform.UplinkBridge) error {
	_, err := s.ReleaseDevice(ctx, bridge)
	return err
}

// ReleaseDevice does what ReleaseUplink does, and names the device that the host has got back; empty if nothing
// was shared.
func (s *sharing) ReleaseDevice(ctx context.Context, bridge platform.UplinkBridge) (device string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.releaseSaved(ctx, bridge)
}

// GlobalAddresses are the global addresses that the host has on a device, as they are written; none where there
// is no such device.
func (s *sharing) GlobalAddresses(device string) ([]string, error) {
	has, err := s.readHostNamed(device)
	return prefixesOf(globals(has.addresses)), err
}

// SwitchExists: Open vSwitch on Linux needs none.
func (s *sharing) SwitchExists(context.Context) (bool, error) { return true, nil }

// ConfirmUplink has nothing to write down: EnsureUplink waits itself until the bridge has taken each device.
func (s *sharing) ConfirmUplink(platform.Uplink) error { return nil }

func (s *sharing) UplinkConfirmed(platform.Uplink) (bool, error) { return true, nil }

// RestoreHost has nothing to do: the host works after each step of EnsureUplink.
func (s *sharing) RestoreHost(context.Context) error { return nil }

// releaseSaved names the device that the host has got back; empty if nothing was shared.
func (s *sharing) releaseSaved(ctx context.Context, bridge platform.UplinkBridge) (device string, err error) {
	saved, err := s.readUplink()
	if err != nil {
		return "", err
	}
	if saved == nil {
		if made, ok := bridge.Made(); ok {
			saved = &savedUplink{Device: made.Adapter, Bridge: made.Host}
		}
	}
	if saved == nil {
		return "", nil
	}
	return saved.Device, s.release(ctx, bridge, *saved)
}

func (s *sharing) release(ctx context.Context, bridge platform.UplinkBridge, saved savedUplink) error {
	device, err := s.linkByName(saved.Device)
	if err != nil {
		return err
	}
	host, err := s.linkByName(saved.Bridge)
	if err != nil {
		return err
	}
	has, err := s.whatToGiveBack(saved, device, host)
	if err != nil {
		return err
	}
	if device == nil && len(globals(has.addresses)) > 0 {
		return fmt.Errorf("device %s is gone, and bridge %s has the addresses that it had: they stay there until it is "+
			"back; if it never will be, remove the bridge (ovs-vsctl del-br %s) and the file %s",
			saved.Device, saved.Bridge, saved.Bridge, s.saved.Path)
	}
	if device != nil {
		if err := s.giveBack(ctx, saved, has, device, host); err != nil {
			return err
		}
	}
	if err := s.before(ctx, "leave"); err != nil {
		return err
	}
	if err := bridge.Leave(ctx, saved.uplink()); err != nil {
		return err
	}
	if err := s.clearInterface(ctx, saved.Bridge, has); err != nil {
		return err
	}
	if err := s.before(ctx, "forget"); err != nil {
		return err
	}
	slog.InfoContext(ctx, "the host has its device for itself again", "device", saved.Device, "addresses",
		prefixesOf(globals(has.addresses)))
	return s.saved.Remove()
}

// whatToGiveBack is what the host has on the bridge's interface; where that is lost, and the device has
// nothing either, what was written down.
func (s *sharing) whatToGiveBack(saved savedUplink, device, host netlink.Link) (hostNetwork, error) {
	has := hostNetwork{}
	if host != nil {
		var err error
		if has, err = readHost(host.Attrs().Index); err != nil {
			return has, err
		}
	}
	if len(globals(has.addresses)) > 0 || device == nil {
		return has, nil
	}
	own, err := readHost(device.Attrs().Index)
	if err != nil || len(globals(own.addresses)) > 0 {
		return hostNetwork{index: has.index}, err
	}
	return hostNetwork{saved.Index, saved.Addresses, saved.Routes, nil}, nil
}

// giveBack: the device has what the host needs, and the host's routes go by it. Packets still come by the
// bridge, whose interface has the addresses, too.
func (s *sharing) giveBack(ctx context.Context, saved savedUplink, has hostNetwork, device, host netlink.Link) error {
	if err := s.before(ctx, "show"); err != nil {
		return err
	}
	if err := s.showToStack(device, saved.AddrGenMode); err != nil {
		return err
	}
	if host != nil {
		if err := setSysctl("ipv4", saved.Bridge, "rp_filter", looseFilter); err != nil {
			return err
		}
	}
	if err := s.giveAddresses(ctx, globals(has.addresses), device); err != nil {
		return err
	}
	if err := s.giveRoutes(ctx, has, device, false); err != nil {
		return err
	}
	for _, neighbor := range has.neighbors {
		if err := giveNeighbor(neighbor, device.Attrs().Index); err != nil {
			return fmt.Errorf("set a neighbour of device %s: %w", saved.Device, err)
		}
	}
	if host == nil || has.index != host.Attrs().Index {
		return nil
	}
	for _, r := range has.routes {
		if err := s.before(ctx, "take route "+r.Destination.String()); err != nil {
			return err
		}
		if err := r.remove(); err != nil {
			return err
		}
	}
	return nil
}

// clearInterface: a bridge that somebody else has made is still there, and has nothing of the device's.
func (s *sharing) clearInterface(ctx context.Context, bridge string, had hostNetwork) error {
	host, err := s.linkByName(bridge)
	if err != nil || host == nil || host.Attrs().Index != had.index {
		return err
	}
	for _, a := range globals(had.addresses) {
		if err := s.before(ctx, "take "+a.Address.String()); err != nil {
			return err
		}
		if err := a.remove(); err != nil {
			return err
		}
	}
	return nil
}

func prefixesOf(addresses []hostAddress) []string {
	texts := []string{}
	for _, a := range addresses {
		texts = append(texts, a.Address.String())
	}
	return texts
}
