package windows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
)

// chooseAdapter picks the uplink: the one of that name, or the one that holds the tunnel end point's
// address. HNS would refuse a virtual one with no more than "The parameter is incorrect" (antrea issue
// 2213), and a team's would lose the team.
func chooseAdapter(adapters []hostnet.Adapter, name string, address netip.Addr) (hostnet.Adapter, error) {
	chosen, ok := hostnet.Holding(adapters, address)
	if name != "" {
		chosen, ok = hostnet.Named(adapters, name)
		if !ok {
			return hostnet.Adapter{}, fmt.Errorf("adapter: this node has no adapter %q, it has %s; set the key adapter to "+
				"one of them, or leave it empty for the one that holds encap-address", name, aliases(adapters))
		}
	}
	if !ok {
		return hostnet.Adapter{}, fmt.Errorf("adapter: no adapter of this node holds encap-address %v; set the key "+
			"adapter, or encap-address, to what the node has: %s", address, aliases(adapters))
	}
	switch chosen.Kind {
	case hostnet.Physical:
	case hostnet.Team:
		return hostnet.Adapter{}, fmt.Errorf("adapter: %q is a team of adapters (%s), on which Open vSwitch's driver does "+
			"not work; dissolve the team or name another adapter by the key adapter", chosen.Alias, chosen.Description)
	default:
		return hostnet.Adapter{}, fmt.Errorf("adapter: %q is %s (%s), not a physical adapter; if another HNS network or "+
			"virtual switch has taken the physical one (Get-HnsNetwork, Get-VMSwitch), remove that; else name another "+
			"adapter by the key adapter", chosen.Alias, chosen.Kind, chosen.Description)
	}
	if len(chosen.Global()) == 0 {
		if team, ok := teamOf(adapters, chosen); ok {
			return hostnet.Adapter{}, fmt.Errorf("adapter: %q has no address, since it belongs to the team %q; dissolve the "+
				"team or name another adapter by the key adapter", chosen.Alias, team.Alias)
		}
		return hostnet.Adapter{}, fmt.Errorf("adapter: %q has no usable address; give it the node's, or name another "+
			"adapter by the key adapter", chosen.Alias)
	}
	if !chosen.Has(address) {
		return hostnet.Adapter{}, fmt.Errorf("adapter: %q has the addresses %v and not encap-address %v; correct the key "+
			"adapter or encap-address", chosen.Alias, chosen.Global(), address)
	}
	return chosen, nil
}

func aliases(adapters []hostnet.Adapter) string {
	names := []string{}
	for _, a := range adapters {
		if a.InHost() && a.Kind != hostnet.Loopback {
			names = append(names, fmt.Sprintf("%q (%s, %v)", a.Alias, a.Kind, a.Global()))
		}
	}
	return fmt.Sprint(names)
}

// teamOf finds the team that an adapter without addresses belongs to: it bears a member's MAC.
func teamOf(adapters []hostnet.Adapter, member hostnet.Adapter) (hostnet.Adapter, bool) {
	i := slices.IndexFunc(adapters, func(a hostnet.Adapter) bool {
		return a.Kind == hostnet.Team &&
			bytes.Equal(a.MAC, member.MAC)
	})
	if i < 0 {
		return hostnet.Adapter{}, false
	}
	return adapters[i], true
}

// HostSettings are the host's on its uplink.
type HostSettings struct {
	Adapter   string          `json:"adapter"` // the physical one
	MAC       string          `json:"mac"`
	Host      string          `json:"host,omitempty"` // its vNIC on the switch, once that has its name
	Addresses []netip.Prefix  `json:"addresses"`
	Routes    []hostnet.Route `json:"routes"`
	DNS       hostnet.DNS     `json:"dns"`
	DHCP      bool            `json:"dhcp"`
	// Network is the HNS network that took them, once it has been made; Ready: Open vSwitch has taken it up since.
	Network string `json:"network,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
	// Returned: the adapter has had all of it since the network went.
	Returned bool `json:"returned,omitempty"`
}

// made says whether the settings were saved when weft made the network. A process that ended while HNS made it has not
// learnt its ID: then it is the Transparent one on the adapter that the settings are of.
func (s *HostSettings) made(n hns.Network) bool {
	switch {
	case s == nil:
		return false
	case s.Network == "":
		return strings.EqualFold(n.Type, hns.Transparent) && (n.Adapter == "" || strings.EqualFold(n.Adapter, s.Adapter))
	}
	return hns.SameID(s.Network, n.ID)
}

func settingsOf(a hostnet.Adapter, routes []hostnet.Route) HostSettings {
	return HostSettings{Addresses: a.Global(), Routes: routes, DNS: a.DNS, DHCP: a.DHCP}
}

func (s HostSettings) equal(other HostSettings) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func (s HostSettings) holds(address netip.Addr) bool {
	return slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return p.Addr() == address })
}

// hostPoll is how often it is looked whether Windows has moved the host's addresses yet.
const hostPoll = 100 * time.Millisecond

// await looks until found is content or the time is over; it returns what it saw last, also an error.
func (u *sharing) await(
	ctx context.Context, patience time.Duration, found func([]hostnet.Adapter) bool,
) ([]hostnet.Adapter, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		adapters, err := u.host.Adapters()
		if err == nil && found(adapters) {
			return adapters, true, nil
		}
		select {
		case <-time.After(hostPoll):
		case <-ctx.Done():
			if err != nil {
				return nil, false, fmt.Errorf("list the host's adapters: %w", err)
			}
			return adapters, false, nil
		}
	}
}

// ensureHost: the host's own adapter on the network's switch has the host's addresses. Windows moves them
// there; where it does not (static addresses are lost on some builds, sig-windows-tools issue 162, and a
// DHCP server may not answer) they are set as they were.
func (u *sharing) ensureHost(ctx context.Context, network hns.Network, saved *HostSettings) (hostnet.Adapter, error) {
	arrived := func(adapters []hostnet.Adapter) (hostnet.Adapter, bool) {
		host, ok := hostnet.Management(adapters, network.Adapter, uplinkMAC(adapters, network, saved))
		return host, ok && host.Has(u.config.EncapAddress)
	}
	// Also a network that was in order before gets the time: after a boot Windows is at it again.
	adapters, ok, err := u.await(ctx, u.config.AddressTime,
		func(adapters []hostnet.Adapter) bool { _, ok := arrived(adapters); return ok })
	if err != nil {
		return hostnet.Adapter{}, err
	}
	if host, _ := arrived(adapters); ok {
		if saved == nil || saved.Ready { // what else the host has is its own to change
			return host, nil
		}
		return host, u.setSettings(host, *saved)
	}
	noHost := fmt.Errorf("HNS network %s on adapter %q: %w", network.Name, network.Adapter, errNoHostAdapter)
	if _, ok := hostnet.Management(adapters, network.Adapter, uplinkMAC(adapters, network, saved)); !ok {
		return hostnet.Adapter{}, noHost
	}
	if saved == nil || !saved.holds(u.config.EncapAddress) {
		return hostnet.Adapter{}, fmt.Errorf("encap-address: HNS network %s has adapter %q, and the host's own adapter on "+
			"its switch does not hold %v, nor was it saved that it once did; correct encap-address, or give the host the "+
			"address", network.Name, network.Adapter, u.config.EncapAddress)
	}
	slog.WarnContext(ctx, "Windows has not moved the host's addresses to the virtual switch: they are set as they were",
		"network", network.Name, "addresses", saved.Addresses, "dhcp", saved.DHCP)
	if err := u.restoreHost(ctx, *saved); err != nil {
		return hostnet.Adapter{}, err
	}
	if adapters, err = u.host.Adapters(); err != nil {
		return hostnet.Adapter{}, fmt.Errorf("list the host's adapters: %w", err)
	}
	if host, ok := arrived(adapters); ok {
		return host, nil
	}
	return hostnet.Adapter{}, noHost
}

// errNoHostAdapter: with the vNIC gone, the host has no way out by this network any more.
var errNoHostAdapter = errors.New("the host's own adapter on its switch has not come")

func uplinkMAC(adapters []hostnet.Adapter, network hns.Network, saved *HostSettings) net.HardwareAddr {
	if adapter, ok := hostnet.Named(adapters, network.Adapter); ok && len(adapter.MAC) > 0 {
		return adapter.MAC
	}
	if saved != nil {
		mac, _ := net.ParseMAC(saved.MAC)
		return mac
	}
	return nil
}

// setSettings gives the adapter what it lacks of the settings.
func (u *sharing) setSettings(a hostnet.Adapter, settings HostSettings) error {
	var errs []error
	for _, address := range settings.Addresses {
		if !a.Has(address.Addr()) {
			errs = append(errs, u.host.AddAddress(a, address))
		}
	}
	have, err := u.host.Routes(a)
	errs = append(errs, err)
	for _, route := range settings.Routes {
		if !slices.ContainsFunc(have, func(r hostnet.Route) bool {
			return r.Destination == route.Destination && r.NextHop == route.NextHop
		}) {
			errs = append(errs, u.host.AddRoute(a, route))
		}
	}
	if len(settings.DNS.Servers) > 0 && !reflect.DeepEqual(a.DNS.Servers, settings.DNS.Servers) {
		errs = append(errs, u.host.SetDNS(a, settings.DNS))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("adapter %q: %w", a.Alias, err)
	}
	return nil
}
