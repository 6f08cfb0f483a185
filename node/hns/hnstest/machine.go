// Package hnstest is a Windows machine for tests: its HNS and its host networking, as a model that keeps
// the rules that the agent depends on. What a rule is known from stands in docs/windows-hns.md.
package hnstest

import (
	"bytes"
	"fmt"
	"net"
	"slices"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
)

// OVSExtension is the GUID of Open vSwitch's extension.
const OVSExtension = "583CC151-73EC-4A6A-8B47-578297AD7623"

// Machine implements [hns.Service] and [hostnet.Host]: the agent and Open vSwitch call its parts. Its own methods are
// for tests. They do what users, container runtimes and crashes do to a machine, and look at it.
//
// While an agent is at work on it, [Machine.Set] alone changes its Traits.
type Machine struct {
	*HNS
	*Host
	*HyperV
	*OpenVSwitch
	*Traits
	state *state
	calls *calls
}

// New is a machine with the driver, and no adapter.
func New() *Machine {
	s := &state{namespaces: map[string]*namespace{}, Traits: Traits{
		Driver: true, DriverVersion: ovsdriver.Version{Major: 3, Minor: 7}, Moves: true}}
	c := &calls{faults: map[string]func() error{}}
	return &Machine{HNS: &HNS{s, c}, Host: &Host{s, c}, HyperV: &HyperV{s, c}, OpenVSwitch: &OpenVSwitch{s},
		Traits: &s.Traits, state: s, calls: c}
}

// AddAdapter plugs an adapter in.
func (m *Machine) AddAdapter(a hostnet.Adapter, routes ...hostnet.Route) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.adapters.add(a, "", routes...)
}

// RemoveAdapter unplugs an adapter.
func (m *Machine) RemoveAdapter(alias string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.adapters.remove(func(a *adapter) bool { return a.Alias == alias })
}

// SetUp sets an adapter up or down.
func (m *Machine) SetUp(alias string, up bool) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.adapters.named(alias).Up = up
	m.state.adapters.notify()
}

// Isolated says whether the host was kept from forwarding by the adapter.
func (m *Machine) Isolated(alias string) bool {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	a := m.state.adapters.named(alias)
	return a != nil && a.isolated
}

// AddNamespace makes a namespace as a container runtime does and returns its ID.
func (m *Machine) AddNamespace() string {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	id := m.state.newID()
	m.state.namespaces[id] = &namespace{hns.Namespace{ID: id, Compartment: uint32(m.state.lastID + 1)}}
	return id
}

// RemoveNamespace leaves its endpoints behind, detached.
func (m *Machine) RemoveNamespace(id string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	delete(m.state.namespaces, id)
	for _, e := range m.state.endpoints {
		if hns.SameID(e.Namespace, id) {
			m.state.unplug(e)
			e.Namespace = ""
		}
	}
}

// StartContainer starts a namespace's first container: adapters appear.
func (m *Machine) StartContainer(id string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	n := m.state.namespaces[id]
	n.Containers = append(n.Containers, m.state.newID())
	for _, e := range m.state.endpoints {
		if hns.SameID(e.Namespace, id) {
			m.state.plug(n, e)
		}
	}
}

// AddForeignEndpoint makes an endpoint that the agent did not make.
func (m *Machine) AddForeignEndpoint(e hns.Endpoint) string {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	e.ID = m.state.newID()
	m.state.endpoints = append(m.state.endpoints, &e)
	return e.ID
}

// LoseNetworks removes all networks with all endpoints, as a crash of HNS does.
func (m *Machine) LoseNetworks() {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	for len(m.state.networks) > 0 {
		m.state.removeNetwork(m.state.networks[0])
	}
}

// DisableExtensions switches Open vSwitch off on all networks.
func (m *Machine) DisableExtensions() {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	for _, n := range m.state.networks {
		n.extension = false
	}
}

// Extension says whether a network's switch has Open vSwitch's extension enabled.
func (m *Machine) Extension() bool {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return slices.ContainsFunc(m.state.networks, func(n *network) bool { return n.extension })
}

// Set changes what the machine does wrong while an agent is at work on it.
func (m *Machine) Set(change func(*Machine)) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	change(m)
	m.state.adapters.notify()
}

// Fail has the next calls of that name fail, or hang, as f says; nil ends it.
func (m *Machine) Fail(call string, f func() error) { m.calls.fail(call, f) }

// FailAny has f say of every call whether it fails, or hangs; nil ends it.
func (m *Machine) FailAny(f func(call string) error) { m.calls.failAny(f) }

// Calls returns the names of the calls of HNS since it was last asked.
func (m *Machine) Calls() []string { return m.calls.take() }

// Dump is the machine as text, for comparisons.
func (m *Machine) Dump() string {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	var b bytes.Buffer
	for _, n := range m.state.networks {
		fmt.Fprintf(&b, "network %s %s on %s, extension %v\n", n.Name, n.Type, n.Adapter, n.extension)
	}
	for _, e := range m.state.endpoints {
		fmt.Fprintf(&b, "endpoint %s %v %v attached %v\n", e.Name, e.MAC, e.Addresses, e.Namespace != "")
	}
	for _, a := range m.state.adapters.list {
		fmt.Fprintf(&b, "adapter %s %v %v %v\n", a.Alias, a.Global(), a.routes, a.DNS.Servers)
	}
	return b.String()
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
