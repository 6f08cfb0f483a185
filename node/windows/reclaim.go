package windows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/platform"
)

// ErrForeignNetwork: a network of weft's name is somebody else's.
var ErrForeignNetwork = errors.New("it was not made by weft, which leaves it alone")

// ReleaseUplink removes the network, if it is weft's own: the host gets its adapter back, also while HNS does not
// answer.
func (u *sharing) ReleaseUplink(ctx context.Context, _ platform.UplinkBridge) error {
	leave, err := u.begin(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return u.release(ctx)
}

func (u *sharing) release(ctx context.Context) error {
	u.forgetUplink()
	network, saved, err := u.Releasable(ctx)
	switch {
	case saved == nil || errors.Is(err, ErrForeignNetwork):
		return err
	case err != nil:
		return errors.Join(err, u.reclaim(context.WithoutCancel(ctx), u.config.Network, *saved))
	case network.ID == "":
		return u.reclaim(context.WithoutCancel(ctx), u.config.Network, *saved)
	}
	return u.removeNetwork(context.WithoutCancel(ctx), network, *saved)
}

// RestoreHost undoes what an earlier process has left half done, see [platform.Platform]. It costs no call of HNS where
// the host has its address: on its adapter, or on a switch that has worked.
func (u *sharing) RestoreHost(ctx context.Context) error {
	leave, err := u.begin(ctx)
	if err != nil {
		return err
	}
	defer leave()
	saved, err := u.saved.Read()
	if err != nil || saved == nil || !saved.holds(u.config.EncapAddress) {
		return err
	}
	adapters, err := u.host.Adapters()
	if err != nil {
		return fmt.Errorf("list the host's adapters: %w", err)
	}
	ctx = context.WithoutCancel(ctx)
	host, held := hostnet.Holding(adapters, u.config.EncapAddress)
	switch {
	case held && (saved.Ready || host.Kind != hostnet.Virtual):
		_, err := u.recoverAdapter(ctx, adapters) // it may have no more than the address
		return err
	case saved.Ready:
		return u.restoreHost(ctx, *saved)
	}
	network, _, err := u.Releasable(ctx)
	if errors.Is(err, ErrForeignNetwork) || err == nil && network.ID == "" && (held || saved.Returned) {
		return nil // whatever became of the address is not weft's doing
	}
	slog.WarnContext(ctx, "Open vSwitch is silent: the host gets its adapter back", "adapter", saved.Adapter)
	return u.release(ctx)
}

// Releasable is the network, zero where there is none, and what the host had before it, nil where weft has
// made none. A network of the name that is not weft's is [ErrForeignNetwork].
func (u *sharing) Releasable(ctx context.Context) (hns.Network, *HostSettings, error) {
	saved, err := u.saved.Read()
	if err != nil {
		return hns.Network{}, nil, err
	}
	network, err := u.own(ctx, saved)
	if errors.Is(err, hns.ErrNotFound) {
		return hns.Network{}, saved, nil
	}
	if err == nil && !saved.made(network) {
		err = fmt.Errorf("HNS network %s: %w", network.Name, ErrForeignNetwork)
	}
	return network, saved, err
}

// ForgetHost: nothing is written down of the host any more. What it gets later on is its own business.
func (u *sharing) ForgetHost() error { return u.saved.Remove() }

// removeNetwork: the network is gone, and the host has its addresses again on the adapter. HNS is asked twice, unless
// it does not answer: the host has no network meanwhile, and a call is waited for a minute.
func (u *sharing) removeNetwork(ctx context.Context, network hns.Network, saved HostSettings) error {
	slog.WarnContext(ctx, "the HNS network is removed again, so that the host stays reachable", "network", network.Name)
	err := u.hns.DeleteNetwork(ctx, network)
	var hung *hns.HungError
	if err != nil && !errors.As(err, &hung) {
		err = u.hns.DeleteNetwork(ctx, network)
	}
	return errors.Join(err, u.reclaim(ctx, network.Name, saved))
}

// reclaim: the host has the saved settings on the adapter itself, and no switch has that one. Windows moves them when
// HNS deletes the network. Where it has not, the switch, which has the network's name, and the adapter's binding to it
// are removed without HNS, as Antrea's users do by hand.
func (u *sharing) reclaim(ctx context.Context, network string, saved HostSettings) error {
	mac, _ := net.ParseMAC(saved.MAC)
	back := func(adapters []hostnet.Adapter) bool {
		own, ok := hostnet.Named(adapters, saved.Adapter)
		_, left := hostnet.Management(adapters, saved.Adapter, mac)
		return ok && !left && saved.heldBy(own)
	}
	if _, ok, err := u.await(ctx, u.config.AddressTime, back); err != nil || !ok {
		slog.WarnContext(ctx, "Windows has not given the host its adapter back: the virtual switch is removed without HNS",
			"adapter", saved.Adapter, "error", err)
		// what comes of it is looked at
		if err := u.host.Reclaim(ctx, network, saved.Adapter, saved.DHCP); err != nil {
			slog.WarnContext(ctx, "the virtual switch may be left", "switch", network, "error", err)
		}
	}
	return u.giveBack(ctx, saved)
}

// giveBack: the host has the saved settings, and that is written down: whatever it changes from then on is its own
// business. Where it cannot be written, the next process finds nothing to do.
func (u *sharing) giveBack(ctx context.Context, saved HostSettings) error {
	if err := u.restoreHost(ctx, saved); err != nil {
		return err
	}
	saved.Ready, saved.Returned = false, true
	if err := u.saved.Write(saved); err != nil {
		slog.WarnContext(ctx, "the host has its adapter back, which is not written down", "error", err)
	}
	return nil
}

func (s HostSettings) heldBy(a hostnet.Adapter) bool {
	return !slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return !a.Has(p.Addr()) })
}

// restoreAttempts is how often the host's settings are set where something fails: nobody can come and mend it.
const restoreAttempts = 3

// restoreHost: the host has the saved addresses, routes and resolvers. They go to its adapter on the
// switch, or to the physical one where there is no switch.
func (u *sharing) restoreHost(ctx context.Context, saved HostSettings) error {
	err := u.restoreOnce(ctx, saved)
	for range restoreAttempts - 1 {
		if err == nil {
			return nil
		}
		slog.WarnContext(ctx, "the host's addresses are set again", "adapter", saved.Adapter, "error", err)
		time.Sleep(hostPoll)
		err = u.restoreOnce(ctx, saved)
	}
	return err
}

func (u *sharing) restoreOnce(ctx context.Context, saved HostSettings) error {
	holder := func(adapters []hostnet.Adapter) (hostnet.Adapter, bool) {
		mac, _ := net.ParseMAC(saved.MAC)
		if host, ok := hostnet.Management(adapters, saved.Adapter, mac); ok {
			return host, true
		}
		return hostnet.Named(adapters, saved.Adapter)
	}
	adapters, err := u.host.Adapters()
	if err != nil {
		return fmt.Errorf("list the host's adapters: %w", err)
	}
	a, ok := holder(adapters)
	if !ok {
		return fmt.Errorf("restore the host's addresses %v: adapter %q is not there", saved.Addresses, saved.Adapter)
	}
	if err := u.setSettings(a, saved); err != nil {
		return fmt.Errorf("restore the host's addresses %v: %w", saved.Addresses, err)
	}
	adapters, ok, err = u.await(ctx, u.config.AddressTime, func(adapters []hostnet.Adapter) bool {
		a, ok := holder(adapters)
		return ok && saved.heldBy(a)
	})
	if err != nil || ok {
		return err
	}
	a, _ = holder(adapters)
	return fmt.Errorf("restore the host's addresses %v: Windows took them, and adapter %q has %v", saved.Addresses,
		a.Alias, a.Addresses)
}
