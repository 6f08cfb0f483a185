// Package hnstest is a Windows machine for tests: its HNS and its host networking, as a model that keeps
// the rules that the agent depends on. What a rule is known from stands in docs/windows-hns.md.
package hnstest

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
)

// OVSExtension is the GUID of Open vSwitch's extension.
const OVSExtension = "583CC151-73EC-4A6A-8B47-578297AD7623"

// Machine implements [hns.Service] and [hostnet.Host].
type Machine struct {
	mu         sync.Mutex
	networks   []*network
	endpoints  []*hns.Endpoint
	namespaces map[string]*namespace
	adapters   []*adapter
	lastID     int
	lastLUID   uint64
	changed    []signal.Signal
	left       []*network // whose switches have outlived them
	faults     map[string]func() error
	calls      []string
	every      func(call string) error

	// Driver: Open vSwitch's extension is installed.
	Driver bool
	// DriverVersion is of which Open vSwitch its file says that it is.
	DriverVersion ovsdriver.Version
	// Other is the ID of another driver's extension that is installed, too.
	Other string
	// Moves: Windows moves the host's addresses to and from a virtual switch by itself.
	Moves bool
	// Disobeys: HNS says that it has enabled an extension and has not.
	Disobeys bool
	// RSC is whether the virtual switch coalesces segments; the command to switch it on does nothing.
	RSC bool
	// LeavesSwitch: HNS deletes a network, and its virtual switch keeps the adapter.
	LeavesSwitch bool
	// NoVMMS: Hyper-V's management is not installed, or does not run.
	NoVMMS bool
}

type network struct {
	hns.Network
	extension  bool
	driver     string // ID of the extension that is enabled
	switchless bool   // Hyper-V has removed its switch, and HNS does not know
}

type namespace struct {
	hns.Namespace
	compartment uint32
}

type adapter struct {
	hostnet.Adapter
	routes     []hostnet.Route
	neighbours map[netip.Addr]string
	isolated   bool
	disabled   bool
	owner      string // ID of the network or endpoint that it came with
	friendly   string // Hyper-V's name of a vNIC, by which Open vSwitch finds it
}

// New is a machine with the driver, and no adapter.
func New() *Machine {
	return &Machine{Driver: true, DriverVersion: ovsdriver.Version{Major: 3, Minor: 7}, Moves: true,
		namespaces: map[string]*namespace{}, faults: map[string]func() error{}}
}

// AddAdapter plugs an adapter in.
func (m *Machine) AddAdapter(a hostnet.Adapter, routes ...hostnet.Route) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addAdapter(a, "", routes...)
}

func (m *Machine) addAdapter(a hostnet.Adapter, owner string, routes ...hostnet.Route) *adapter {
	m.lastLUID++
	a.LUID, a.Index, a.Up = m.lastLUID, uint32(m.lastLUID), a.Up || a.Kind == hostnet.Physical
	a.Compartment = max(a.Compartment, 1)
	added := &adapter{Adapter: a, routes: routes, owner: owner}
	m.adapters = append(m.adapters, added)
	m.notify()
	return added
}

// RemoveAdapter unplugs an adapter.
func (m *Machine) RemoveAdapter(alias string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adapters = slices.DeleteFunc(m.adapters, func(a *adapter) bool { return a.Alias == alias })
	m.notify()
}

// SetUp sets an adapter up or down.
func (m *Machine) SetUp(alias string, up bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adapter(alias).Up = up
	m.notify()
}

// AddNamespace makes a namespace as a container runtime does and returns its ID.
func (m *Machine) AddNamespace() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.newID()
	m.namespaces[id] = &namespace{Namespace: hns.Namespace{ID: id}, compartment: uint32(m.lastID + 1)}
	return id
}

// RemoveNamespace leaves its endpoints behind, detached.
func (m *Machine) RemoveNamespace(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.namespaces, id)
	for _, e := range m.endpoints {
		if hns.SameID(e.Namespace, id) {
			m.unplug(e)
			e.Namespace = ""
		}
	}
}

// StartContainer starts a namespace's first container: adapters appear.
func (m *Machine) StartContainer(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.namespaces[id]
	n.Containers = append(n.Containers, m.newID())
	for _, e := range m.endpoints {
		if hns.SameID(e.Namespace, id) {
			m.plug(n, e)
		}
	}
}

// Fail has the next calls of that name fail, or hang, as f says; nil ends it.
func (m *Machine) Fail(call string, f func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[call] = f
}

// FailAny has f say of every call whether it fails, or hangs; nil ends it.
func (m *Machine) FailAny(f func(call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.every = f
}

// Extension says whether a network's switch has Open vSwitch's extension enabled.
func (m *Machine) Extension() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.networks, func(n *network) bool { return n.extension })
}

// LoseNetworks removes all networks with all endpoints, as a crash of HNS does.
func (m *Machine) LoseNetworks() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.networks) > 0 {
		m.removeNetwork(m.networks[0])
	}
}

// DisableExtensions switches Open vSwitch off on all networks.
func (m *Machine) DisableExtensions() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.networks {
		n.extension = false
	}
}

// AddForeignEndpoint makes an endpoint that the agent did not make.
func (m *Machine) AddForeignEndpoint(e hns.Endpoint) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.ID = m.newID()
	m.endpoints = append(m.endpoints, &e)
	return e.ID
}

// Calls returns the names of the calls of HNS since it was last asked.
func (m *Machine) Calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

// Dump is the machine as text, for comparisons.
func (m *Machine) Dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b bytes.Buffer
	for _, n := range m.networks {
		fmt.Fprintf(&b, "network %s %s on %s, extension %v\n", n.Name, n.Type, n.Adapter, n.extension)
	}
	for _, e := range m.endpoints {
		fmt.Fprintf(&b, "endpoint %s %v %v attached %v\n", e.Name, e.MAC, e.Addresses, e.Namespace != "")
	}
	for _, a := range m.adapters {
		fmt.Fprintf(&b, "adapter %s %v %v %v\n", a.Alias, a.Global(), a.routes, a.DNS.Servers)
	}
	return b.String()
}

// enter begins a call of HNS: a fault may hold it or end it.
func (m *Machine) enter(call string) (leave func(), err error) {
	m.mu.Lock()
	m.calls = append(m.calls, call)
	m.mu.Unlock()
	if err := m.suffer(call); err != nil {
		return func() {}, err
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

// suffer returns what a fault makes of a call of HNS or of the host's networking, when the fault lets it go on.
func (m *Machine) suffer(call string) error {
	m.mu.Lock()
	fault, every := m.faults[call], m.every
	m.mu.Unlock()
	if every != nil {
		if err := every(call); err != nil {
			return err
		}
	}
	if fault == nil {
		return nil
	}
	return fault()
}

func (m *Machine) newID() string {
	m.lastID++
	return fmt.Sprintf("%08X-0000-4000-8000-000000000000", m.lastID)
}

func (m *Machine) notify() {
	for _, c := range m.changed {
		c.Set()
	}
}

func (m *Machine) Version() (hns.Version, error) {
	leave, err := m.enter("Version")
	defer leave()
	return hns.Version{Major: 15, Minor: 2}, err
}

func (m *Machine) Networks() ([]hns.Network, error) {
	leave, err := m.enter("Networks")
	defer leave()
	if err != nil {
		return nil, err
	}
	found := []hns.Network{}
	for _, n := range m.networks {
		found = append(found, n.Network)
	}
	return found, nil
}

// CreateNetwork takes the adapter for its switch and gives the host one of its own there, with the
// adapter's MAC and, where Windows moves them, its addresses, routes and resolvers.
func (m *Machine) CreateNetwork(n hns.Network) (hns.Network, error) {
	leave, err := m.enter("CreateNetwork")
	defer leave()
	if err != nil {
		return hns.Network{}, err
	}
	if slices.ContainsFunc(m.networks, func(o *network) bool { return o.Name == n.Name }) {
		return hns.Network{}, fmt.Errorf("network %s: %w", n.Name, hns.ErrExists)
	}
	uplink := m.adapter(n.Adapter)
	if uplink == nil || uplink.Kind != hostnet.Physical ||
		slices.ContainsFunc(slices.Concat(m.left, m.networks), func(o *network) bool { return o.Adapter == n.Adapter }) {
		return hns.Network{}, fmt.Errorf("adapter %q: %w", n.Adapter, hns.ErrNotFound)
	}
	n.ID = m.newID()
	m.networks = append(m.networks, &network{Network: n})
	if n.Type != hns.Transparent {
		return n, nil
	}
	host := uplink.Adapter
	host.Alias, host.Kind = vNICAlias(n.Adapter), hostnet.Virtual
	routes := uplink.routes
	uplink.Addresses, uplink.routes, uplink.DNS = nil, nil, hostnet.DNS{}
	if !m.Moves {
		host.Addresses, host.DNS, routes = nil, hostnet.DNS{}, nil
	}
	m.addAdapter(host, n.ID, routes...).friendly = n.Adapter
	return n, nil
}

func (m *Machine) DeleteNetwork(id string) error {
	leave, err := m.enter("DeleteNetwork")
	defer leave()
	if err != nil {
		return err
	}
	n := m.network(id)
	if n == nil {
		return hns.ErrNotFound
	}
	m.removeNetwork(n)
	return nil
}

func (m *Machine) removeNetwork(n *network) {
	for _, e := range slices.Clone(m.endpoints) {
		if hns.SameID(e.Network, n.ID) {
			m.removeEndpoint(e)
		}
	}
	if m.LeavesSwitch {
		m.left = append(m.left, n)
	} else {
		m.removeSwitch(n)
	}
	m.networks = slices.DeleteFunc(m.networks, func(o *network) bool { return o == n })
	m.notify()
}

// removeSwitch gives the adapter back what the host's vNIC has.
func (m *Machine) removeSwitch(n *network) {
	if uplink := m.adapter(n.Adapter); uplink != nil {
		for _, host := range m.adapters {
			if host.owner == n.ID && m.Moves && len(host.Addresses) > 0 {
				uplink.Addresses, uplink.routes, uplink.DNS = host.Addresses, host.routes, host.DNS
			}
		}
	}
	m.adapters = slices.DeleteFunc(m.adapters, func(a *adapter) bool { return a.owner == n.ID })
}

func (m *Machine) Switch(id string) (hns.Switch, error) {
	leave, err := m.enter("Switch")
	defer leave()
	if err != nil {
		return hns.Switch{}, err
	}
	n := m.network(id)
	if n == nil {
		return hns.Switch{}, hns.ErrNotFound
	}
	s := hns.Switch{Adapter: n.Adapter, Extensions: []hns.Extension{{ID: "E7C3B2F0-F3C5-48DF-AF2B-10FED6D72E7A",
		Name: "Microsoft Windows Filtering Platform"}}}
	if m.Driver {
		s.Extensions = append(s.Extensions, hns.Extension{ID: strings.ToLower(OVSExtension), Name: "Open vSwitch Extension",
			Enabled: n.extension && !hns.SameID(n.driver, m.Other)})
	}
	if m.Other != "" {
		s.Extensions = append(s.Extensions, hns.Extension{ID: m.Other, Name: "Another Open vSwitch", Enabled: n.extension &&
			hns.SameID(n.driver, m.Other)})
	}
	return s, nil
}

// DriverBuild is what the file of an installed driver says.
func (m *Machine) DriverBuild(kind ovsdriver.Kind) (ovsdriver.Build, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if there := m.Driver && hns.SameID(kind.Extension, OVSExtension) || hns.SameID(kind.Extension, m.Other); !there {
		return ovsdriver.Build{}, fs.ErrNotExist
	}
	return ovsdriver.Build{Version: m.DriverVersion}, nil
}

func (m *Machine) EnableExtension(id, extension string) error {
	leave, err := m.enter("EnableExtension")
	defer leave()
	if err != nil {
		return err
	}
	n := m.network(id)
	switch {
	case n == nil:
		return hns.ErrNotFound
	case !(m.Driver && hns.SameID(extension, OVSExtension) || m.Other != "" && hns.SameID(extension, m.Other)):
		return hns.ErrNoExtension
	}
	n.extension, n.driver = !m.Disobeys, extension
	m.notify()
	return nil
}

func (m *Machine) Endpoints() ([]hns.Endpoint, error) {
	leave, err := m.enter("Endpoints")
	defer leave()
	if err != nil {
		return nil, err
	}
	return m.matching(func(*hns.Endpoint) bool { return true }), nil
}

func (m *Machine) EndpointsNamed(name string) ([]hns.Endpoint, error) {
	leave, err := m.enter("EndpointsNamed")
	defer leave()
	if err != nil {
		return nil, err
	}
	return m.matching(func(e *hns.Endpoint) bool { return e.Name == name }), nil
}

func (m *Machine) matching(match func(*hns.Endpoint) bool) []hns.Endpoint {
	found := []hns.Endpoint{}
	for _, e := range m.endpoints {
		if match(e) {
			found = append(found, *e)
		}
	}
	return found
}

func (m *Machine) CreateEndpoint(e hns.Endpoint) (hns.Endpoint, error) {
	leave, err := m.enter("CreateEndpoint")
	defer leave()
	if err != nil {
		return hns.Endpoint{}, err
	}
	n := m.network(e.Network)
	if n == nil {
		return hns.Endpoint{}, hns.ErrNotFound
	}
	if slices.ContainsFunc(m.endpoints, func(o *hns.Endpoint) bool { return o.Name == e.Name }) {
		return hns.Endpoint{}, fmt.Errorf("endpoint %s: %w", e.Name, hns.ErrExists)
	}
	for _, address := range e.Addresses {
		if !slices.ContainsFunc(n.Subnets, func(s hns.Subnet) bool { return s.Prefix.Contains(address.Addr()) }) {
			return hns.Endpoint{}, hns.ErrAddressTaken
		}
	}
	for _, other := range m.endpoints {
		if slices.ContainsFunc(other.Addresses, func(p netip.Prefix) bool { return slices.Contains(e.Addresses, p) }) {
			return hns.Endpoint{}, hns.ErrAddressTaken
		}
	}
	e.ID = m.newID()
	m.endpoints = append(m.endpoints, &e)
	return e, nil
}

func (m *Machine) DeleteEndpoint(id string) error {
	leave, err := m.enter("DeleteEndpoint")
	defer leave()
	if err != nil {
		return err
	}
	e := m.endpoint(id)
	if e == nil {
		return hns.ErrNotFound
	}
	m.removeEndpoint(e)
	return nil
}

func (m *Machine) removeEndpoint(e *hns.Endpoint) {
	m.detach(e)
	m.endpoints = slices.DeleteFunc(m.endpoints, func(o *hns.Endpoint) bool { return o == e })
}

func (m *Machine) Namespace(id string) (hns.Namespace, error) {
	leave, err := m.enter("Namespace")
	defer leave()
	if err != nil {
		return hns.Namespace{}, err
	}
	n := m.namespace(id)
	if n == nil {
		return hns.Namespace{}, hns.ErrNotFound
	}
	return n.Namespace, nil
}

func (m *Machine) Attach(space, endpoint string) error {
	leave, err := m.enter("Attach")
	defer leave()
	if err != nil {
		return err
	}
	n, e := m.namespace(space), m.endpoint(endpoint)
	switch {
	case n == nil || e == nil:
		return hns.ErrNotFound
	case strings.Trim(e.Namespace, "0-") != "": // zeros are Windows' word for none
		return hns.ErrExists
	}
	e.Namespace = n.ID
	n.Endpoints = append(slices.Clone(n.Endpoints), e.ID)
	if len(n.Containers) > 0 {
		m.plug(n, e)
	}
	return nil
}

func (m *Machine) Detach(space, endpoint string) error {
	leave, err := m.enter("Detach")
	defer leave()
	if err != nil {
		return err
	}
	e := m.endpoint(endpoint)
	if e == nil || m.namespace(space) == nil || !hns.SameID(e.Namespace, space) {
		return hns.ErrNotFound
	}
	m.detach(e)
	return nil
}

func (m *Machine) detach(e *hns.Endpoint) {
	m.unplug(e)
	if n := m.namespace(e.Namespace); n != nil {
		n.Endpoints = slices.DeleteFunc(slices.Clone(n.Endpoints), func(id string) bool { return hns.SameID(id, e.ID) })
	}
	e.Namespace = ""
}

func (m *Machine) plug(n *namespace, e *hns.Endpoint) {
	m.addAdapter(hostnet.Adapter{
		Alias: vNICAlias(e.Name), Kind: hostnet.Virtual, Compartment: n.compartment, MTU: 1500, MAC: slices.Clone(e.MAC),
		Up: true,
	}, e.ID).friendly = e.Name
}

func (m *Machine) unplug(e *hns.Endpoint) {
	m.adapters = slices.DeleteFunc(m.adapters, func(a *adapter) bool { return a.owner == e.ID })
	m.notify()
}

func (m *Machine) network(id string) *network {
	return one(m.networks, func(n *network) bool { return hns.SameID(n.ID, id) })
}

func (m *Machine) endpoint(id string) *hns.Endpoint {
	return one(m.endpoints, func(e *hns.Endpoint) bool { return hns.SameID(e.ID, id) })
}

func (m *Machine) namespace(id string) *namespace { return m.namespaces[strings.ToUpper(id)] }

func (m *Machine) adapter(alias string) *adapter {
	return one(m.adapters, func(a *adapter) bool { return a.Alias == alias })
}

func one[T any](items []*T, match func(*T) bool) *T {
	if i := slices.IndexFunc(items, match); i >= 0 {
		return items[i]
	}
	return nil
}

// MAC of a text, for tables.
func MAC(text string) net.HardwareAddr {
	mac, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return mac
}
