package hnstest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
)

// Traits are what Windows is like on a machine, and what it does wrong.
type Traits struct {
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

// installed says whether a driver with that extension is.
func (t *Traits) installed(extension string) bool {
	return t.Driver && hns.SameID(extension, OVSExtension) || t.Other != "" && hns.SameID(extension, t.Other)
}

// state is what a machine is: objects of HNS, and adapters. HNS, the host's networking and Hyper-V's management change
// the same adapters, so one mutex guards all of it. Callers of the methods hold it.
type state struct {
	mu sync.Mutex
	Traits
	adapters   adapters
	networks   []*network
	left       []*network // whose switches have outlived them
	endpoints  []*hns.Endpoint
	namespaces map[string]*namespace
	lastID     int
}

type network struct {
	hns.Network
	extension  bool
	driver     string // ID of the extension that is enabled
	switchless bool   // Hyper-V has removed its switch, and HNS does not know
}

type namespace struct {
	hns.Namespace
}

func (s *state) hasCompartment(number uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.namespaces {
		if n.Compartment == number {
			return true
		}
	}
	return number == 1
}

func (s *state) newID() string {
	s.lastID++
	return fmt.Sprintf("%08X-0000-4000-8000-000000000000", s.lastID)
}

func (s *state) network(id string) *network {
	return one(s.networks, func(n *network) bool { return hns.SameID(n.ID, id) })
}

func (s *state) endpoint(id string) *hns.Endpoint {
	return one(s.endpoints, func(e *hns.Endpoint) bool { return hns.SameID(e.ID, id) })
}

func (s *state) namespace(id string) *namespace { return s.namespaces[strings.ToUpper(id)] }

func (s *state) removeNetwork(n *network) {
	for _, e := range slices.Clone(s.endpoints) {
		if hns.SameID(e.Network, n.ID) {
			s.removeEndpoint(e)
		}
	}
	if s.LeavesSwitch {
		s.left = append(s.left, n)
	} else {
		s.removeSwitch(n)
	}
	s.networks = slices.DeleteFunc(s.networks, func(o *network) bool { return o == n })
	s.adapters.notify()
}

// removeSwitch gives the adapter back what the host's vNIC has.
func (s *state) removeSwitch(n *network) {
	if uplink := s.adapters.named(n.Adapter); uplink != nil {
		for _, host := range s.adapters.list {
			if host.owner == n.ID && s.Moves && len(host.Addresses) > 0 {
				uplink.Addresses, uplink.routes, uplink.DNS = host.Addresses, host.routes, host.DNS
			}
		}
	}
	s.adapters.remove(func(a *adapter) bool { return a.owner == n.ID })
}

func (s *state) removeEndpoint(e *hns.Endpoint) {
	s.detach(e)
	s.endpoints = slices.DeleteFunc(s.endpoints, func(o *hns.Endpoint) bool { return o == e })
}

func (s *state) detach(e *hns.Endpoint) {
	s.unplug(e)
	if n := s.namespace(e.Namespace); n != nil {
		n.Endpoints = slices.DeleteFunc(slices.Clone(n.Endpoints), func(id string) bool { return hns.SameID(id, e.ID) })
	}
	e.Namespace = ""
}

func (s *state) plug(n *namespace, e *hns.Endpoint) {
	s.adapters.add(hostnet.Adapter{
		Alias: vNICAlias(e.Name), Kind: hostnet.Virtual, Compartment: n.Compartment, MTU: 1500, MAC: slices.Clone(e.MAC),
		Up: true,
	}, e.ID).friendly = e.Name
}

func (s *state) unplug(e *hns.Endpoint) {
	s.adapters.remove(func(a *adapter) bool { return a.owner == e.ID })
}

// taken says whether a switch has the adapter: Windows' own stack is not bound to it then.
func (s *state) taken(a *adapter) bool {
	holds := func(n *network) bool { return n.Adapter == a.Alias && !n.switchless }
	return a.Kind == hostnet.Physical && (slices.ContainsFunc(s.networks, holds) || slices.ContainsFunc(s.left, holds))
}
