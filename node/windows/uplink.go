package windows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
	"github.com/weftnet/weft/node/platform"
)

// sharing is a Windows node's uplink, which the host and Open vSwitch share: the HNS network on the host's adapter.
type sharing struct {
	config Config
	hns    *hns.Client
	host   hostnet.Host
	saved  platform.SavedHost[HostSettings]

	busy  chan struct{} // full while somebody works on it
	retry uplinkRetry   // of whoever does
	names uplinkNames   // also

	mu   sync.Mutex
	seen uplinkSeen
}

// uplinkSeen is the uplink as it was last found in order, until something may have changed.
type uplinkSeen struct {
	uplink   platform.Uplink
	network  hns.Network
	driver   ovsdriver.Kind
	lookedAt time.Time
}

// uplinkRetry paces what costs the host its connections for a moment.
type uplinkRetry struct {
	rscTried bool
	failures int       // in a row
	at       time.Time // not before
	err      error     // the last one
}

// maxRetryShift bounds the doubling of RetryTime.
const maxRetryShift = 5

// EnsureUplink makes the HNS network on the node's adapter, see [platform.Platform]; the bridge has to wait for what
// it returns, since it bears the name of the vNIC that HNS makes. It may take a minute: once
// the network is being made, what has to follow for the host to be reachable is done even if ctx ends.
// It is to be called again whenever Watch tells of a change; then it costs no call of HNS as long as
// the network was found in order within the last seconds.
func (u *sharing) EnsureUplink(ctx context.Context, _ platform.UplinkBridge) (platform.Uplink, error) {
	leave, err := u.begin(ctx)
	if err != nil {
		return platform.Uplink{}, err
	}
	defer leave()
	adapters, err := u.host.Adapters()
	if err != nil {
		return platform.Uplink{}, fmt.Errorf("list the host's adapters: %w", err)
	}
	if uplink := u.inOrder(adapters); uplink != (platform.Uplink{}) {
		return uplink, nil
	}
	u.forgetUplink()
	network, err := u.hns.Network(ctx, u.config.Network)
	switch {
	case errors.Is(err, hns.ErrNotFound):
		if network, err = u.makeNetwork(ctx, adapters); err != nil {
			err = u.withoutUplink(adapters, err)
		}
	case err == nil:
		err = u.adoptNetwork(ctx, adapters, &network)
	}
	if err != nil {
		return platform.Uplink{}, err
	}
	uplink, driver, err := u.keepNetwork(context.WithoutCancel(ctx), network)
	if err != nil {
		return platform.Uplink{}, err
	}
	u.see(uplinkSeen{uplink, network, driver, time.Now()})
	u.retry.failures, u.retry.err = 0, nil
	u.coalesce(ctx)
	return uplink, nil
}

// begin waits until nobody else works on the uplink.
func (u *sharing) begin(ctx context.Context) (leave func(), err error) {
	select {
	case u.busy <- struct{}{}:
		return func() { <-u.busy }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other work on the uplink: %w", ctx.Err())
	}
}

// inOrder is the uplink as it was seen within the last seconds; zero where HNS has to be asked.
func (u *sharing) inOrder(adapters []hostnet.Adapter) platform.Uplink {
	seen := u.lastSeen()
	if seen.uplink == (platform.Uplink{}) || time.Since(seen.lookedAt) >= 2*networkPeriod ||
		!u.hasPodSubnets(seen.network) || u.names.due(seen.network.ID) {
		return platform.Uplink{}
	}
	if host, ok := hostnet.Holding(adapters, u.config.EncapAddress); !ok || host.Alias != seen.uplink.Host {
		return platform.Uplink{}
	}
	return seen.uplink
}

// withoutUplink says that host and pods share no switch, unless a switch's vNIC has the host's address or its name:
// then the host may depend on the bridge there, whatever it is that the configuration names now.
func (u *sharing) withoutUplink(adapters []hostnet.Adapter, err error) error {
	if slices.ContainsFunc(adapters, func(a hostnet.Adapter) bool {
		return a.InHost() && a.Kind == hostnet.Virtual && (a.Has(u.config.EncapAddress) || a.Alias == hostnet.HostAdapter)
	}) {
		return err
	}
	return fmt.Errorf("%w: %w", platform.ErrNoUplink, err)
}

func (u *sharing) lastSeen() uplinkSeen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen
}

func (u *sharing) see(seen uplinkSeen) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = seen
}

func (u *sharing) forgetUplink() { u.see(uplinkSeen{}) }

// uplinkHolds says whether the network is still as EnsureUplink has left it.
func (u *sharing) uplinkHolds(ctx context.Context) bool {
	select {
	case u.busy <- struct{}{}:
		defer func() { <-u.busy }()
	default:
		return true // somebody is at work on it
	}
	seen := u.lastSeen()
	if seen.uplink == (platform.Uplink{}) {
		return true // EnsureUplink has not succeeded yet, and is called again anyway
	}
	ctx, cancel := context.WithTimeout(ctx, sandboxTime)
	defer cancel()
	s, err := u.hns.Switch(ctx, seen.network)
	if err != nil && !errors.Is(err, hns.ErrNotFound) {
		return true // not known: a hang is no change
	}
	if found, _ := s.Extension(seen.driver.Extension); err != nil || !found.Enabled {
		u.forgetUplink()
		return false
	}
	seen.lookedAt = time.Now()
	u.see(seen)
	return true
}

// adoptNetwork checks a network of our name, which an earlier run or somebody else has made. It is not
// removed here: it may be another's, and bridges go before it.
func (u *sharing) adoptNetwork(ctx context.Context, adapters []hostnet.Adapter, network *hns.Network) error {
	refuse := func(format string, args ...any) error {
		return u.withoutUplink(adapters, fmt.Errorf("HNS network %s %s; weft leaves it alone: remove it (Get-HnsNetwork | "+
			"? Name -eq %q | Remove-HnsNetwork) or give weft's another name by the key hns-network",
			network.Name, fmt.Sprintf(format, args...), network.Name))
	}
	if !strings.EqualFold(network.Type, hns.Transparent) {
		return refuse("exists already and is of type %s, not %s", network.Type, hns.Transparent)
	}
	if network.Adapter == "" {
		s, err := u.hns.Switch(ctx, *network)
		if err != nil {
			return err
		}
		network.Adapter = s.Adapter
	}
	if u.config.Adapter != "" && !strings.EqualFold(network.Adapter, u.config.Adapter) {
		return refuse("exists already on adapter %q, while the key adapter says %q", network.Adapter, u.config.Adapter)
	}
	if !u.hasPodSubnets(*network) {
		return u.outdated(ctx, *network, refuse)
	}
	return nil
}

// hasPodSubnets: they change when the Node is deleted and comes back.
func (u *sharing) hasPodSubnets(network hns.Network) bool {
	for _, subnet := range u.config.PodSubnets() {
		if !slices.ContainsFunc(network.Subnets, func(s hns.Subnet) bool { return s.Prefix == subnet.Masked() }) {
			return false
		}
	}
	return true
}

// outdated tells of a network whose subnets are no longer the node's: it can go if it is weft's and empty.
func (u *sharing) outdated(ctx context.Context, network hns.Network, refuse func(string, ...any) error) error {
	prefixes := []string{}
	for _, s := range network.Subnets {
		prefixes = append(prefixes, s.Prefix.String())
	}
	problem := fmt.Sprintf("has the subnets %v and not all of the node's pod subnets %v", prefixes, u.config.PodSubnets())
	saved, err := u.saved.Read()
	if err != nil {
		return err
	}
	if !saved.made(network) {
		return refuse("%s", problem)
	}
	endpoints, err := u.hns.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if hns.SameID(e.Network, network.ID) {
			return fmt.Errorf("HNS network %s %s, and cannot be made again while it has endpoints (%s is one): drain the node",
				network.Name, problem, e.Name)
		}
	}
	return fmt.Errorf("%w: HNS network %s %s: it is removed and made again", platform.ErrOutdatedUplink, network.Name,
		problem)
}

// makeNetwork makes the network on the node's adapter. What the host had there is written down first:
// whatever happens from now on, the next call finds it.
func (u *sharing) makeNetwork(ctx context.Context, adapters []hostnet.Adapter) (hns.Network, error) {
	if wait := time.Until(u.retry.at); wait > 0 {
		return hns.Network{}, fmt.Errorf("the HNS network is made again in %v, since each attempt cuts the host off for a "+
			"moment: %w", wait.Round(time.Second), u.retry.err)
	}
	subnets := u.config.PodSubnets()
	if len(subnets) == 0 {
		return hns.Network{}, errors.New("the HNS network is not made yet: the node's pod subnets are not known")
	}
	adapters, err := u.recoverAdapter(ctx, adapters)
	if err != nil {
		return hns.Network{}, err
	}
	adapter, err := chooseAdapter(adapters, u.config.Adapter, u.config.EncapAddress)
	if err != nil {
		return hns.Network{}, err
	}
	if err := checkNames(adapters); err != nil {
		return hns.Network{}, err
	}
	if err := u.checkDrivers(ctx); err != nil {
		return hns.Network{}, err
	}
	routes, err := u.host.Routes(adapter)
	if err != nil {
		return hns.Network{}, fmt.Errorf("list the routes by adapter %s: %w", adapter.Alias, err)
	}
	saved := settingsOf(adapter, routes)
	saved.Adapter, saved.MAC = adapter.Alias, adapter.MAC.String()
	if err := u.saved.Write(saved); err != nil {
		return hns.Network{}, err
	}
	network := hns.Network{Name: u.config.Network, Type: hns.Transparent, Adapter: adapter.Alias}
	for _, subnet := range subnets {
		network.Subnets = append(network.Subnets,
			hns.Subnet{Prefix: subnet.Masked(), Gateway: contract.GatewayAddress(subnet)})
	}
	slog.InfoContext(ctx, "the HNS network is made: the host's connections pause", "network", network.Name, "adapter",
		adapter.Alias, "addresses", adapter.Global())
	ctx = context.WithoutCancel(ctx)
	created, err := u.hns.CreateNetwork(ctx, network)
	if err != nil {
		// A creation that failed may have moved the addresses already; one that hangs may still do so.
		return hns.Network{}, u.failed(errors.Join(err, u.giveBack(ctx, saved)))
	}
	created.Adapter = adapter.Alias
	saved.Network = created.ID
	if err := u.saved.Write(saved); err != nil {
		return hns.Network{}, u.failed(errors.Join(err, u.removeNetwork(ctx, created, saved)))
	}
	return created, nil
}

// recoverAdapter gives the adapter back what a network that is no more took along. Who ended while it gave that back
// may have come as far as the address, and not to the routes.
func (u *sharing) recoverAdapter(ctx context.Context, adapters []hostnet.Adapter) ([]hostnet.Adapter, error) {
	saved, err := u.saved.Read()
	if err != nil || saved == nil || !saved.holds(u.config.EncapAddress) {
		return adapters, err
	}
	host, held := hostnet.Holding(adapters, u.config.EncapAddress)
	if held && (saved.Ready || saved.Returned || !strings.EqualFold(host.Alias, saved.Adapter)) {
		return adapters, nil
	}
	slog.InfoContext(ctx, "what the host lacks of its addresses, routes and resolvers is set again as it was before the "+
		"HNS network", "adapter", saved.Adapter)
	if err := u.giveBack(ctx, *saved); err != nil {
		return nil, err
	}
	return u.host.Adapters()
}

// keepNetwork: the host has its addresses on the network's switch, and the extension is enabled. A network
// that Open vSwitch has never taken up is removed again where that fails, and so is one that has lost the host's vNIC.
func (u *sharing) keepNetwork(ctx context.Context, network hns.Network) (platform.Uplink, ovsdriver.Kind, error) {
	saved, err := u.saved.Read()
	if err != nil {
		return platform.Uplink{}, ovsdriver.Kind{}, err
	}
	giveUp := func(err error) (platform.Uplink, ovsdriver.Kind, error) {
		if !saved.made(network) || saved.Ready && !errors.Is(err, errNoHostAdapter) {
			return platform.Uplink{}, ovsdriver.Kind{}, err
		}
		if failed := u.removeNetwork(ctx, network, *saved); failed != nil {
			return platform.Uplink{}, ovsdriver.Kind{}, u.failed(errors.Join(err, failed))
		}
		return platform.Uplink{}, ovsdriver.Kind{}, u.failed(fmt.Errorf("%w: %w", platform.ErrNoUplink, err))
	}
	host, err := u.ensureHost(ctx, network, saved)
	if err != nil {
		return giveUp(err)
	}
	if host, err = u.ensureName(ctx, network, host, saved); err != nil {
		return giveUp(err)
	}
	driver, err := u.enableDriver(ctx, network)
	if err != nil {
		return giveUp(err)
	}
	if err := u.remember(network, host, saved); err != nil {
		return giveUp(err) // without an uplink nobody makes the bridge that the host's packets need
	}
	return platform.Uplink{Switch: network.ID, Adapter: network.Adapter, Host: host.Alias}, driver, nil
}

// enableDriver: the extension of Open vSwitch's driver that the switch has is enabled.
func (u *sharing) enableDriver(ctx context.Context, network hns.Network) (ovsdriver.Kind, error) {
	s, err := u.hns.Switch(ctx, network)
	if err != nil {
		return ovsdriver.Kind{}, err
	}
	driver, installed, err := ovsdriver.Installed(u.config.Driver,
		func(k ovsdriver.Kind) bool { _, ok := s.Extension(k.Extension); return ok })
	if err != nil {
		return driver, err
	}
	if !installed {
		return driver, fmt.Errorf("the virtual switch extension %q is not installed on this node: install Open vSwitch "+
			"with its driver (Get-VMSwitchExtension lists it then) and see that the driver is signed; for another driver "+
			"than %s set the key ovs-driver (%s): %w",
			driver.Title, driver.Name, ovsdriver.Names(), hns.ErrNoExtension)
	}
	if err := u.checkDriver(ctx, driver); err != nil {
		return driver, err
	}
	enabled, err := u.hns.EnsureExtension(ctx, network, driver.Extension)
	if err == nil && enabled {
		slog.InfoContext(ctx, "the extension of Open vSwitch was enabled", "network", network.Name, "driver", driver.Name)
	}
	return driver, err
}

// remember keeps the file at what the host has now, so that a later loss is repaired from that.
func (u *sharing) remember(network hns.Network, host hostnet.Adapter, saved *HostSettings) error {
	routes, err := u.host.Routes(host)
	if err != nil {
		return fmt.Errorf("list the routes by adapter %s: %w", host.Alias, err)
	}
	now := settingsOf(host, routes)
	now.Adapter, now.MAC, now.Host = network.Adapter, host.MAC.String(), host.Alias
	now.Network, now.Ready = network.ID, saved != nil && saved.Ready && hns.SameID(saved.Network, network.ID)
	if saved != nil && now.equal(*saved) {
		return nil
	}
	return u.saved.Write(now)
}

// ConfirmUplink writes down that the network works: only now a failure is none of its making.
func (u *sharing) ConfirmUplink(uplink platform.Uplink) error {
	saved, err := u.saved.Read()
	if err != nil || saved == nil || !hns.SameID(saved.Network, uplink.Switch) || saved.Ready {
		return err
	}
	saved.Ready = true
	return u.saved.Write(*saved)
}

func (u *sharing) UplinkConfirmed(uplink platform.Uplink) (bool, error) {
	saved, err := u.saved.Read()
	return saved != nil && saved.Ready && hns.SameID(saved.Network, uplink.Switch), err
}

// failed counts a failure that cost the host its connections for a moment.
func (u *sharing) failed(err error) error {
	u.retry.at = time.Now().Add(u.config.RetryTime << min(u.retry.failures, maxRetryShift))
	u.retry.failures++
	u.retry.err = err
	return err
}

// SwitchExists says whether weft has an HNS network. It costs no call of HNS while the network was found in order
// within the last seconds.
func (u *sharing) SwitchExists(ctx context.Context) (bool, error) {
	adapters, err := u.host.Adapters()
	if err != nil {
		return false, fmt.Errorf("list the host's adapters: %w", err)
	}
	if u.inOrder(adapters) != (platform.Uplink{}) {
		return true, nil
	}
	saved, err := u.saved.Read()
	if err != nil {
		return false, err
	}
	_, err = u.own(ctx, saved)
	if errors.Is(err, hns.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// own is weft's network: that of the name that is configured, or else the one that weft has made under another name.
// [hns.ErrNotFound].
func (u *sharing) own(ctx context.Context, saved *HostSettings) (hns.Network, error) {
	networks, err := u.hns.Networks(ctx)
	if err != nil {
		return hns.Network{}, err
	}
	i := slices.IndexFunc(networks, func(n hns.Network) bool { return n.Name == u.config.Network })
	if i < 0 && saved != nil && saved.Network != "" {
		i = slices.IndexFunc(networks, func(n hns.Network) bool { return hns.SameID(saved.Network, n.ID) })
	}
	if i < 0 {
		return hns.Network{}, fmt.Errorf("HNS network %s: %w", u.config.Network, hns.ErrNotFound)
	}
	return networks[i], nil
}

// coalesce switches segment coalescing on for the switch (RSC), which is worth a factor of four to pods
// (antrea issue 2198) and needed by nothing. There is no call for it but PowerShell's.
func (u *sharing) coalesce(ctx context.Context) {
	if u.retry.rscTried {
		return
	}
	u.retry.rscTried = true
	name := u.config.Network
	ctx = context.WithoutCancel(ctx)
	go func() {
		on, err := u.host.SoftwareRSC(ctx, name)
		if err == nil && !on {
			if err = u.host.EnableSoftwareRSC(ctx, name); err == nil {
				on, err = u.host.SoftwareRSC(ctx, name)
			}
		}
		switch {
		case err != nil:
			slog.WarnContext(ctx, "it is not known whether the virtual switch coalesces segments (RSC); throughput may be "+
				"lower", "switch", name, "error", err)
		case !on:
			slog.WarnContext(ctx, "the virtual switch does not coalesce segments (RSC) although it was told to; throughput "+
				"may be lower", "switch", name)
		default:
			slog.InfoContext(ctx, "the virtual switch coalesces segments (RSC)", "switch", name)
		}
	}()
}
