package platformtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/platform"
)

// Fake keeps the post-conditions of [platform.Platform] on a host that is only a few maps. The same
// [Story] runs on it and on the real ones, so that it stays honest. Its fields are set before somebody
// uses it, or by Change.
type Fake struct {
	mu         sync.Mutex
	sandboxes  map[string]bool
	Devices    map[string]*Device   // of the host, by name
	Management *platform.Management // nil: Open vSwitch has not made the device
	addresses  []netip.Addr
	MTU        int
	fail       map[string]error // what a method returns in place of doing its work
	calls      map[string]int
	changed    signal.Signal
	Deferred   bool            // devices come when their sandbox starts, as on Windows
	started    map[string]bool // sandboxes
	Uplink     platform.Uplink
	NoSwitch   bool       // until EnsureUplink makes one
	confirmed  string     // the switch that was
	Bridges    func() int // of bridges

	BridgesBefore    int // when EnsureUplink was called last
	BridgesAtRelease int
	Bridge           platform.HostInterface // what the host has on the bridge to the outside
}

// Device is the host's end of an endpoint.
type Device struct {
	Endpoint   platform.Endpoint
	Configured bool
	arrived    bool
}

func New() *Fake {
	return &Fake{
		sandboxes: map[string]bool{}, Devices: map[string]*Device{}, fail: map[string]error{}, MTU: 1500,
		calls: map[string]int{}, started: map[string]bool{},
		addresses: []netip.Addr{netip.MustParseAddr("172.30.0.1")}, changed: signal.New(),
	}
}

// enter locks the host and returns the error that a test wants of the method.
func (f *Fake) enter(method string) (leave func(), err error) {
	f.mu.Lock()
	f.calls[method]++
	return f.mu.Unlock, f.fail[method]
}

func (f *Fake) Called(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Change changes its fields while somebody uses it.
func (f *Fake) Change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Device is the host's device of an attachment; the zero device if there is none.
func (f *Fake) Device(a cni.Attachment) Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.Devices[cni.HostInterface(a)]; d != nil {
		return *d
	}
	return Device{}
}

// StartSandbox runs its first container: the devices that it has endpoints for come, where they come
// late.
func (f *Fake) StartSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started[name] = true
	f.arrive()
}

// arrive brings the devices whose endpoints are in sandboxes that run. f.mu is held.
func (f *Fake) arrive() {
	for _, d := range f.Devices {
		d.arrived = d.arrived || !f.Deferred || f.started[d.Endpoint.Sandbox]
	}
	f.changed.Set()
}

// LoseDevices is what the loss of a network does to its endpoints.
func (f *Fake) LoseDevices() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.Devices)
	f.arrive()
}

func (f *Fake) Failing(method string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[method] = err
}

func (f *Fake) AddSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sandboxes[name] = true
}

// RemoveSandbox takes what is in it along, as the kernel does.
func (f *Fake) RemoveSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sandboxes, name)
	delete(f.started, name)
	maps.DeleteFunc(f.Devices, func(_ string, d *Device) bool { return d.Endpoint.Sandbox == name })
}

// ForgetSandbox leaves its devices behind, as Windows does.
func (f *Fake) ForgetSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sandboxes, name)
}

func (f *Fake) EnsureUplink(context.Context, platform.UplinkBridge) (platform.Uplink, error) {
	leave, err := f.enter("EnsureUplink")
	defer leave()
	if f.Bridges != nil {
		f.BridgesBefore = f.Bridges()
	}
	if err != nil {
		return platform.Uplink{}, err
	}
	if f.NoSwitch {
		f.NoSwitch, f.confirmed = false, ""
	}
	return f.Uplink, nil
}

func (f *Fake) ConfirmUplink(u platform.Uplink) error {
	leave, err := f.enter("ConfirmUplink")
	defer leave()
	if err == nil {
		f.confirmed = u.Switch
	}
	return err
}

func (f *Fake) UplinkConfirmed(u platform.Uplink) (bool, error) {
	leave, err := f.enter("UplinkConfirmed")
	defer leave()
	return f.confirmed == u.Switch, err
}

func (f *Fake) SwitchExists(context.Context) (bool, error) {
	leave, err := f.enter("SwitchExists")
	defer leave()
	return !f.NoSwitch, err
}

func (f *Fake) ReleaseUplink(context.Context, platform.UplinkBridge) error {
	leave, err := f.enter("ReleaseUplink")
	defer leave()
	if f.Bridges != nil {
		f.BridgesAtRelease = f.Bridges()
	}
	f.NoSwitch = f.NoSwitch || err == nil && f.Deferred
	return err
}

func (f *Fake) RestoreHost(context.Context) error {
	leave, err := f.enter("RestoreHost")
	defer leave()
	return err
}

func (f *Fake) EndpointArrived(_ context.Context, e platform.Endpoint) (bool, error) {
	leave, err := f.enter("EndpointArrived")
	defer leave()
	d := f.Devices[e.Device]
	return d != nil && d.arrived, err
}

func (f *Fake) PortType() string {
	if f.Deferred {
		return "internal"
	}
	return ""
}

func (f *Fake) UplinkMTU(address netip.Addr) (int, error) {
	leave, err := f.enter("UplinkMTU")
	defer leave()
	if err == nil && !slices.Contains(f.addresses, address) {
		err = fmt.Errorf("no interface of this node has the address %v", address)
	}
	return f.MTU, err
}

func (f *Fake) Unanswered() error {
	leave, err := f.enter("Unanswered")
	defer leave()
	return err
}

func (f *Fake) HostAddresses(...string) ([]netip.Addr, error) {
	leave, err := f.enter("HostAddresses")
	defer leave()
	return slices.Clone(f.addresses), err
}

func (f *Fake) HostInterface(string) (platform.HostInterface, error) {
	leave, err := f.enter("HostInterface")
	defer leave()
	return f.Bridge, err
}

func (f *Fake) EnsureGatewayDevice(string) error {
	leave, err := f.enter("EnsureGatewayDevice")
	defer leave()
	return err
}

func (f *Fake) EnsureNeighbours(string, []extbridge.Neighbour) error {
	leave, err := f.enter("EnsureNeighbours")
	defer leave()
	return err
}

func (f *Fake) EnsureManagement(m platform.Management) error {
	leave, err := f.enter("EnsureManagement")
	defer leave()
	if err != nil {
		return err
	}
	if f.Management == nil {
		return platform.ErrNoDevice
	}
	if m.MTU == 0 {
		return errors.New("set MTU 0: invalid argument")
	}
	f.Management = &m
	return nil
}

func (f *Fake) SandboxExists(sandbox string) (bool, error) {
	leave, err := f.enter("SandboxExists")
	defer leave()
	return f.sandboxes[sandbox], err
}

func (f *Fake) InSandbox(_ context.Context, sandbox string, do func() error) error {
	leave, err := f.enter("InSandbox")
	exists := f.sandboxes[sandbox]
	leave() // what is done inside may use the host
	switch {
	case err != nil:
		return err
	case !exists:
		return platform.ErrNoSandbox
	}
	return do()
}

func (f *Fake) CreateEndpoint(_ context.Context, e platform.Endpoint) error {
	leave, err := f.enter("CreateEndpoint")
	defer leave()
	if err != nil {
		return err
	}
	if !f.sandboxes[e.Sandbox] {
		return platform.ErrNoSandbox
	}
	name := e.Device
	if d := f.Devices[name]; d != nil && d.Endpoint.Sandbox == e.Sandbox {
		return nil
	}
	for _, d := range f.Devices {
		if d.Endpoint.Sandbox == e.Sandbox && d.Endpoint.Attachment.IfName == e.Attachment.IfName {
			return fmt.Errorf("sandbox %s has an interface %s of its own already", e.Sandbox, e.Attachment.IfName)
		}
	}
	f.Devices[name] = &Device{Endpoint: e}
	f.arrive()
	return nil
}

func (f *Fake) ConfigureEndpoint(_ context.Context, e platform.Endpoint) error {
	leave, err := f.enter("ConfigureEndpoint")
	defer leave()
	if err != nil {
		return err
	}
	if !f.sandboxes[e.Sandbox] {
		return platform.ErrNoSandbox
	}
	d := f.Devices[e.Device]
	if d == nil || !d.arrived || d.Endpoint.Sandbox != e.Sandbox {
		return errors.New("the device has not arrived")
	}
	d.Endpoint, d.Configured = e, true
	return nil
}

func (f *Fake) CheckEndpoint(_ context.Context, e platform.Endpoint) error {
	leave, err := f.enter("CheckEndpoint")
	defer leave()
	d := f.Devices[e.Device]
	switch {
	case err != nil:
		return err
	case d == nil || !d.Configured || d.Endpoint.Sandbox != e.Sandbox:
		return errors.New("the endpoint is missing")
	case !reflect.DeepEqual(d.Endpoint.Addresses, e.Addresses) || d.Endpoint.MAC.String() != e.MAC.String():
		return errors.New("the endpoint has other addresses")
	}
	return nil
}

func (f *Fake) DeleteEndpoint(_ context.Context, device string) error {
	leave, err := f.enter("DeleteEndpoint")
	defer leave()
	if err == nil {
		delete(f.Devices, device)
	}
	return err
}

func (f *Fake) Endpoints() ([]string, error) {
	leave, err := f.enter("Endpoints")
	defer leave()
	names := slices.Sorted(maps.Keys(f.Devices))
	if names == nil {
		names = []string{}
	}
	return names, err
}

func (f *Fake) Watch(ctx context.Context, changed func()) error {
	changed()
	for {
		select {
		case <-f.changed:
			changed()
		case <-ctx.Done():
			return nil
		}
	}
}

var _ platform.Platform = (*Fake)(nil)
