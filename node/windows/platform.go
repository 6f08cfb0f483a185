package windows

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
	"github.com/weftnet/weft/node/platform"
)

// Config is what the [platform.Platform] of a Windows node is told.
type Config struct {
	// Adapter is the uplink's name, the user's key adapter; empty: the one that holds EncapAddress.
	Adapter string
	// Network is the name of the HNS network, the user's key hns-network.
	Network string
	// Driver is the kind of Open vSwitch's driver, the user's key ovs-driver; empty: the one that the switch has.
	Driver string
	// DriverBuild tells of which Open vSwitch an installed driver is; fs.ErrNotExist where it is not installed. Default:
	// the file that Windows loads says it.
	DriverBuild func(ovsdriver.Kind) (ovsdriver.Build, error)
	// EncapAddress is the node's tunnel end point, which the uplink holds.
	EncapAddress netip.Addr
	// StateFile keeps what the host's networking was like before the HNS network was made.
	StateFile string
	// PodSubnets are the node's. HNS refuses an endpoint whose address is in no subnet of its network,
	// so that EnsureUplink fails until they are known.
	PodSubnets func() []netip.Prefix
	// HNS bounds the calls of HNS.
	HNS hns.Config
	// AddressTime is how long Windows may take to move the host's addresses between the adapter and
	// the virtual switch's, before they are set again from StateFile; default 15 s.
	AddressTime time.Duration
	// RetryTime is how long after a failure that cost the host its connections for a moment the HNS
	// network is made again; it doubles up to 32 times that. Default 10 s.
	RetryTime time.Duration
	// Metrics takes the platform's.
	Metrics prometheus.Registerer
}

// sandboxTime bounds calls of HNS by methods that are given no context.
const sandboxTime = 30 * time.Second

// Platform is the [platform.Platform] of a Windows node: HNS endpoints of one Transparent network, whose virtual
// switch hands all packets to Open vSwitch.
type Platform struct {
	*sharing

	mu sync.Mutex
	// enabled is when an adapter that is not in Windows' list was last enabled by its name.
	enabled time.Time
}

// NewOver is the platform over any HNS and host.
func NewOver(config Config, service hns.Service, host hostnet.Host) (*Platform, error) {
	if config.AddressTime == 0 {
		config.AddressTime = 15 * time.Second
	}
	if config.RetryTime == 0 {
		config.RetryTime = 10 * time.Second
	}
	if !filepath.IsAbs(config.StateFile) {
		return nil, fmt.Errorf("the file %q for the host's networking is not an absolute path", config.StateFile)
	}
	w := &Platform{sharing: &sharing{
		config: config, hns: hns.NewClient(service, config.HNS), host: host,
		saved: platform.SavedHost[HostSettings]{Path: config.StateFile}, busy: make(chan struct{}, 1),
	}}
	if config.Metrics != nil {
		for _, collector := range w.hns.Worker().Metrics() {
			if err := config.Metrics.Register(collector); err != nil {
				return nil, fmt.Errorf("register the metrics of HNS: %w", err)
			}
		}
	}
	return w, nil
}

// HNSVersion is that of the node's HNS.
func (w *Platform) HNSVersion(ctx context.Context) (hns.Version, error) { return w.hns.Version(ctx) }

func (w *Platform) UplinkMTU(address netip.Addr) (int, error) {
	adapters, err := w.host.Adapters()
	if err != nil {
		return 0, fmt.Errorf("find the adapter of %v: %w", address, err)
	}
	adapter, ok := hostnet.Holding(adapters, address)
	if !ok {
		return 0, fmt.Errorf("no adapter of this node has the address %v", address)
	}
	return adapter.MTU, nil
}

// Unanswered names a call that HNS leaves without an answer.
func (w *Platform) Unanswered() error { return w.hns.Worker().Unanswered() }

func (w *Platform) HostAddresses(except ...string) ([]netip.Addr, error) {
	adapters, err := w.host.Adapters()
	if err != nil {
		return nil, fmt.Errorf("list the host's addresses: %w", err)
	}
	found := []netip.Addr{}
	for _, a := range adapters {
		if !a.InHost() || a.Kind == hostnet.Loopback || slices.Contains(except, a.Alias) {
			continue
		}
		for _, prefix := range a.Global() {
			found = append(found, prefix.Addr())
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

func (w *Platform) HostInterface(name string) (platform.HostInterface, error) {
	adapters, err := w.host.Adapters()
	if err != nil {
		return platform.HostInterface{}, fmt.Errorf("list the host's adapters: %w", err)
	}
	adapter, ok := hostnet.Named(adapters, name)
	if !ok {
		return platform.HostInterface{}, fmt.Errorf("adapter %q: %w", name, platform.ErrNoDevice)
	}
	routes, err := w.host.Routes(adapter)
	if err != nil {
		return platform.HostInterface{}, fmt.Errorf("list the routes by adapter %s: %w", name, err)
	}
	found := platform.HostInterface{MAC: adapter.MAC, Addresses: adapter.Global(),
		NextHops: hostnet.DefaultNextHops(routes)}
	// IPv4 first, each family in Windows' own order.
	slices.SortStableFunc(found.Addresses, func(a, b netip.Prefix) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	return found, nil
}

// EnsureGatewayDevice has nothing to do on Windows: the gateway's bridge is that of the uplink, which
// EnsureUplink makes, and a second adapter would need a second virtual switch, of which Open vSwitch
// for Windows has one only.
func (w *Platform) EnsureGatewayDevice(name string) error {
	return fmt.Errorf("gateway device %s: on Windows the gateway uses the adapter of the node's uplink; leave "+
		"gateway-interface empty", name)
}

func (w *Platform) SandboxExists(sandbox string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxTime)
	defer cancel()
	_, err := w.hns.Namespace(ctx, sandbox)
	if errors.Is(err, hns.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InSandbox enters the network compartment of the sandbox. HNS tells 0 while it has none yet, and 1 is the host's.
func (w *Platform) InSandbox(ctx context.Context, sandbox string, do func() error) error {
	namespace, err := w.hns.Namespace(ctx, sandbox)
	switch {
	case errors.Is(err, hns.ErrNotFound):
		return fmt.Errorf("%w: %w", platform.ErrNoSandbox, err)
	case err != nil:
		return err
	case (hostnet.Adapter{Compartment: namespace.Compartment}).InHost():
		return fmt.Errorf("HNS namespace %s has no network compartment of its own yet: its container does not run", sandbox)
	}
	return w.host.InCompartment(namespace.Compartment, do)
}

func (w *Platform) Endpoints() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxTime)
	defer cancel()
	endpoints, err := w.hns.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, e := range endpoints {
		if cni.IsHostInterface(e.Name) {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// PortType tells Open vSwitch that the port's adapter is one of the virtual switch's. For an adapter
// that is not there yet it would make one of its own (antrea issue 1581), so that a port has this
// type only after its device has arrived.
func (w *Platform) PortType() string { return "internal" }

// networkPeriod is how often the HNS network is looked at: HNS tells nobody that it is gone or that its
// switch has lost the extension.
const networkPeriod = 5 * time.Second

func (w *Platform) Watch(ctx context.Context, changed func()) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	var network sync.WaitGroup
	network.Go(func() { w.watchNetwork(watching, changed) })
	err := w.host.Watch(watching, changed)
	cancel()
	network.Wait()
	if err != nil {
		return fmt.Errorf("follow the host's network changes: %w", err)
	}
	return nil
}

// watchNetwork forgets what EnsureUplink has seen when that is no longer so.
func (w *Platform) watchNetwork(ctx context.Context, changed func()) {
	tick := time.NewTicker(networkPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !w.uplinkHolds(ctx) {
			changed()
		}
	}
}

var _ platform.Platform = (*Platform)(nil)
