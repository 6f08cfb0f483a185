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
)

// ErrForeignNetwork: a network of weft's name is somebody else's.
var ErrForeignNetwork = errors.New("it was not made by weft, which leaves it alone")

// ReleaseUplink removes the network, if it is weft's own: the host gets its adapter back, also while HNS does not
// answer.
func (w *Platform) ReleaseUplink(ctx context.Context) error {
	select {
	case w.busy <- struct{}{}:
		defer func() { <-w.busy }()
	case <-ctx.Done():
		return fmt.Errorf("wait for other work on the uplink: %w", ctx.Err())
	}
	w.forgetUplink()
	network, saved, err := w.Releasable(ctx)
	switch {
	case saved == nil || errors.Is(err, ErrForeignNetwork):
		return err
	case err != nil:
		return errors.Join(err, w.reclaim(context.WithoutCancel(ctx), *saved))
	case network.ID == "":
		return w.reclaim(context.WithoutCancel(ctx), *saved)
	}
	return w.removeNetwork(context.WithoutCancel(ctx), network, *saved)
}

// Releasable is the network, zero where there is none, and what the host had before it, nil where weft has
// made none. A network of the name that is not weft's is [ErrForeignNetwork].
func (w *Platform) Releasable(ctx context.Context) (hns.Network, *HostSettings, error) {
	saved, err := w.saved.Read()
	if err != nil {
		return hns.Network{}, nil, err
	}
	network, err := w.hns.Network(ctx, w.config.Network)
	if errors.Is(err, hns.ErrNotFound) {
		return hns.Network{}, saved, nil
	}
	if err == nil && (saved == nil || !hns.SameID(saved.Network, network.ID)) {
		err = fmt.Errorf("HNS network %s: %w", network.Name, ErrForeignNetwork)
	}
	return network, saved, err
}

// ForgetHost: nothing is written down of the host any more. What it gets later on is its own business.
func (w *Platform) ForgetHost() error { return w.saved.Remove() }

// removeNetwork: the network is gone, and the host has its addresses again on the adapter. HNS is asked twice.
func (w *Platform) removeNetwork(ctx context.Context, network hns.Network, saved HostSettings) error {
	slog.WarnContext(ctx, "the HNS network is removed again, so that the host stays reachable", "network", network.Name)
	err := w.hns.DeleteNetwork(ctx, network)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		err = w.hns.DeleteNetwork(ctx, network)
	}
	return errors.Join(err, w.reclaim(ctx, saved))
}

// reclaim: the host has the saved settings on the adapter itself, and no switch has that one. Windows moves them when
// HNS deletes the network. Where it has not, the switch and the adapter's binding to it are removed without
// HNS, as Antrea's users do by hand.
func (w *Platform) reclaim(ctx context.Context, saved HostSettings) error {
	mac, _ := net.ParseMAC(saved.MAC)
	back := func(adapters []hostnet.Adapter) bool {
		own, ok := hostnet.Named(adapters, saved.Adapter)
		_, left := hostnet.Management(adapters, saved.Adapter, mac)
		return ok && !left && saved.heldBy(own)
	}
	if _, ok, err := w.await(ctx, w.config.AddressTime, back); err != nil || !ok {
		slog.WarnContext(ctx, "Windows has not given the host its adapter back: the virtual switch is removed without HNS", "adapter", saved.Adapter, "error", err)
		if err := w.host.Reclaim(ctx, w.config.Network, saved.Adapter, saved.DHCP); err != nil { // what comes of it is looked at
			slog.WarnContext(ctx, "the virtual switch may be left", "switch", w.config.Network, "error", err)
		}
	}
	return w.restoreHost(ctx, saved)
}

func (s HostSettings) heldBy(a hostnet.Adapter) bool {
	return !slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return !a.Has(p.Addr()) })
}

// restoreAttempts is how often the host's settings are set where something fails: nobody can come and mend it.
const restoreAttempts = 3

// restoreHost: the host has the saved addresses, routes and resolvers. They go to its adapter on the
// switch, or to the physical one where there is no switch.
func (w *Platform) restoreHost(ctx context.Context, saved HostSettings) error {
	err := w.restoreOnce(ctx, saved)
	for range restoreAttempts - 1 {
		if err == nil {
			return nil
		}
		slog.WarnContext(ctx, "the host's addresses are set again", "adapter", saved.Adapter, "error", err)
		time.Sleep(hostPoll)
		err = w.restoreOnce(ctx, saved)
	}
	return err
}

func (w *Platform) restoreOnce(ctx context.Context, saved HostSettings) error {
	holder := func(adapters []hostnet.Adapter) (hostnet.Adapter, bool) {
		mac, _ := net.ParseMAC(saved.MAC)
		if host, ok := hostnet.Management(adapters, saved.Adapter, mac); ok {
			return host, true
		}
		return hostnet.Named(adapters, saved.Adapter)
	}
	adapters, err := w.host.Adapters()
	if err != nil {
		return fmt.Errorf("list the host's adapters: %w", err)
	}
	a, ok := holder(adapters)
	if !ok {
		return fmt.Errorf("restore the host's addresses %v: adapter %q is not there", saved.Addresses, saved.Adapter)
	}
	if err := w.setSettings(a, saved); err != nil {
		return fmt.Errorf("restore the host's addresses %v: %w", saved.Addresses, err)
	}
	adapters, ok, err = w.await(ctx, w.config.AddressTime, func(adapters []hostnet.Adapter) bool {
		a, ok := holder(adapters)
		return ok && saved.heldBy(a)
	})
	if err != nil || ok {
		return err
	}
	a, _ = holder(adapters)
	return fmt.Errorf("restore the host's addresses %v: Windows took them, and adapter %q has %v", saved.Addresses, a.Alias, a.Addresses)
}
