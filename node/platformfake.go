package node

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
	"github.com/weftnet/weft/node/extbridge"
)

// fakePlatform keeps the post-conditions of [Platform] on a host that is only a few maps. The same
// [platformStory] runs on it and on the real ones, so that it stays honest. Its fields are set before somebody
// uses it, or by change.
type fakePlatform struct {
	mu         sync.Mutex
	sandboxes  map[string]bool
	devices    map[string]*fakeDevice // of the host, by name
	management *Management            // nil: Open vSwitch has not made the device
	addresses  []netip.Addr
	mtu        int
	fail       map[string]error // what a method returns in place of doing its work
	calls      map[string]int
	changed    chan struct{}
	late       bool            // devices come when their sandbox starts, as on Windows
	started    map[string]bool // sandboxes
	uplink     Uplink
	noSwitch   bool       // until EnsureUplink makes one
	count      func() int // of bridges

	bridgesBefore    int // when EnsureUplink was called last
	bridgesAtRelease int
	external         HostInterface // what the host has on the bridge to the outside
}

// fakeDevice is the host's end of an endpoint.
type fakeDevice struct {
	endpoint   Endpoint
	configured bool
	arrived    bool
}

func newFakePlatform() *fakePlatform {
	return &fakePlatform{
		sandboxes: map[string]bool{}, devices: map[string]*fakeDevice{}, fail: map[string]error{}, mtu: 1500,
		calls: map[string]int{}, started: map[string]bool{},
		addresses: []netip.Addr{netip.MustParseAddr("172.30.0.1")}, changed: make(chan struct{}, 1),
	}
}

// enter locks the host and returns the error that a test wants of the method.
func (f *fakePlatform) enter(method string) (leave func(), err error) {
	f.mu.Lock()
	f.calls[method]++
	return f.mu.Unlock, f.fail[method]
}

func (f *fakePlatform) called(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// change changes its fields while somebody uses it.
func (f *fakePlatform) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// device is the host's device of an attachment; the zero device if there is none.
func (f *fakePlatform) device(a cni.Attachment) fakeDevice {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.devices[cni.HostInterface(a)]; d != nil {
		return *d
	}
	return fakeDevice{}
}

// startSandbox runs its first container: the devices that it has endpoints for come, where they come
// late.
func (f *fakePlatform) startSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started[name] = true
	f.arrive()
}

// arrive brings the devices whose endpoints are in sandboxes that run. f.mu is held.
func (f *fakePlatform) arrive() {
	for _, d := range f.devices {
		d.arrived = d.arrived || !f.late || f.started[d.endpoint.Sandbox]
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// loseDevices is what the loss of a network does to its endpoints.
func (f *fakePlatform) loseDevices() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.devices)
	f.arrive()
}

func (f *fakePlatform) failing(method string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[method] = err
}

func (f *fakePlatform) addSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sandboxes[name] = true
}

// removeSandbox takes what is in it along, as the kernel does.
func (f *fakePlatform) removeSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sandboxes, name)
	delete(f.started, name)
	maps.DeleteFunc(f.devices, func(_ string, d *fakeDevice) bool { return d.endpoint.Sandbox == name })
}

// forgetSandbox leaves its devices behind, as Windows does.
func (f *fakePlatform) forgetSandbox(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sandboxes, name)
}

func (f *fakePlatform) EnsureUplink(context.Context) (Uplink, error) {
	leave, err := f.enter("EnsureUplink")
	defer leave()
	if f.count != nil {
		f.bridgesBefore = f.count()
	}
	if err != nil {
		return Uplink{}, err
	}
	f.noSwitch = false
	return f.uplink, nil
}

func (f *fakePlatform) SwitchExists(context.Context) (bool, error) {
	leave, err := f.enter("SwitchExists")
	defer leave()
	return !f.noSwitch, err
}

func (f *fakePlatform) ReleaseUplink(context.Context) error {
	leave, err := f.enter("ReleaseUplink")
	defer leave()
	if f.count != nil {
		f.bridgesAtRelease = f.count()
	}
	f.noSwitch = f.noSwitch || err == nil && f.late
	return err
}

func (f *fakePlatform) EndpointArrived(_ context.Context, e Endpoint) (bool, error) {
	leave, err := f.enter("EndpointArrived")
	defer leave()
	d := f.devices[cni.HostInterface(e.Attachment)]
	return d != nil && d.arrived, err
}

func (f *fakePlatform) PortType() string {
	if f.late {
		return "internal"
	}
	return ""
}

func (f *fakePlatform) UplinkMTU(address netip.Addr) (int, error) {
	leave, err := f.enter("UplinkMTU")
	defer leave()
	if err == nil && !slices.Contains(f.addresses, address) {
		err = fmt.Errorf("no interface of this node has the address %v", address)
	}
	return f.mtu, err
}

func (f *fakePlatform) HostAddresses(...string) ([]netip.Addr, error) {
	leave, err := f.enter("HostAddresses")
	defer leave()
	return slices.Clone(f.addresses), err
}

func (f *fakePlatform) HostInterface(string) (HostInterface, error) {
	leave, err := f.enter("HostInterface")
	defer leave()
	return f.external, err
}

func (f *fakePlatform) EnsureGatewayDevice(string) error {
	leave, err := f.enter("EnsureGatewayDevice")
	defer leave()
	return err
}

func (f *fakePlatform) EnsureNeighbours(string, []extbridge.Neighbour) error {
	leave, err := f.enter("EnsureNeighbours")
	defer leave()
	return err
}

func (f *fakePlatform) EnsureManagement(m Management) error {
	leave, err := f.enter("EnsureManagement")
	defer leave()
	if err != nil {
		return err
	}
	if f.management == nil {
		return ErrNoDevice
	}
	if m.MTU == 0 {
		return errors.New("set MTU 0: invalid argument")
	}
	f.management = &m
	return nil
}

func (f *fakePlatform) SandboxExists(sandbox string) (bool, error) {
	leave, err := f.enter("SandboxExists")
	defer leave()
	return f.sandboxes[sandbox], err
}

func (f *fakePlatform) CreateEndpoint(_ context.Context, e Endpoint) error {
	leave, err := f.enter("CreateEndpoint")
	defer leave()
	if err != nil {
		return err
	}
	if !f.sandboxes[e.Sandbox] {
		return ErrNoSandbox
	}
	name := cni.HostInterface(e.Attachment)
	if d := f.devices[name]; d != nil && d.endpoint.Sandbox == e.Sandbox {
		return nil
	}
	for _, d := range f.devices {
		if d.endpoint.Sandbox == e.Sandbox && d.endpoint.Attachment.IfName == e.Attachment.IfName {
			return fmt.Errorf("sandbox %s has an interface %s of its own already", e.Sandbox, e.Attachment.IfName)
		}
	}
	f.devices[name] = &fakeDevice{endpoint: e}
	f.arrive()
	return nil
}

func (f *fakePlatform) ConfigureEndpoint(_ context.Context, e Endpoint) error {
	leave, err := f.enter("ConfigureEndpoint")
	defer leave()
	if err != nil {
		return err
	}
	if !f.sandboxes[e.Sandbox] {
		return ErrNoSandbox
	}
	d := f.devices[cni.HostInterface(e.Attachment)]
	if d == nil || !d.arrived || d.endpoint.Sandbox != e.Sandbox {
		return errors.New("Link not found")
	}
	d.endpoint, d.configured = e, true
	return nil
}

func (f *fakePlatform) CheckEndpoint(_ context.Context, e Endpoint) error {
	leave, err := f.enter("CheckEndpoint")
	defer leave()
	d := f.devices[cni.HostInterface(e.Attachment)]
	switch {
	case err != nil:
		return err
	case d == nil || !d.configured || d.endpoint.Sandbox != e.Sandbox:
		return errors.New("the endpoint is missing")
	case !reflect.DeepEqual(d.endpoint.Addresses, e.Addresses) || d.endpoint.MAC.String() != e.MAC.String():
		return errors.New("the endpoint has other addresses")
	}
	return nil
}

func (f *fakePlatform) DeleteEndpoint(_ context.Context, device string) error {
	leave, err := f.enter("DeleteEndpoint")
	defer leave()
	if err == nil {
		delete(f.devices, device)
	}
	return err
}

func (f *fakePlatform) Endpoints() ([]string, error) {
	leave, err := f.enter("Endpoints")
	defer leave()
	names := slices.Sorted(maps.Keys(f.devices))
	if names == nil {
		names = []string{}
	}
	return names, err
}

func (f *fakePlatform) Watch(ctx context.Context, changed func()) error {
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
