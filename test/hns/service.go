package hns

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// OVSExtension is the GUID of Open vSwitch's extension of the Hyper-V switch.
const OVSExtension = "583CC151-73EC-4A6A-8B47-578297AD7623"

// The version of HNS that the emulator has, and of the schema that it answers with.
var (
	hnsVersion    = Version{Major: 15, Minor: 2}
	schemaVersion = Version{Major: 2, Minor: 16}
)

// Config of a Service.
type Config struct {
	// StateFile keeps the objects; empty: they are kept in memory only.
	StateFile string
	// DataPlane makes networks and endpoints real; nil: they are state and no more.
	DataPlane DataPlane
	// NoDriver: Open vSwitch's extension is not installed.
	NoDriver bool
	// Driver is told how the switch is; nil: nobody is.
	Driver Driver
	// Booted: the machine has booted since the state was written.
	Booted bool
	Log    *slog.Logger
}

// DataPlane is what the emulator needs of the machine it runs on.
type DataPlane interface {
	// Adapter returns what a physical adapter of that name has: [ErrAdapterNotFound] without one,
	// [ErrInvalidParameter] for a virtual one. An empty name asks for the adapter that HNS chooses.
	Adapter(name string) (adapter string, has HostConfig, err error)
	// Apply makes the switches and vNICs exactly these. It returns the first error, having tried all.
	Apply(switches []Switch, vnics []VNIC) error
	// Devices returns the interfaces that the data plane has made, for people.
	Devices() any
}

// Switch is a vSwitch with an external adapter.
type Switch struct {
	Network string
	Adapter string
	// VNIC is the host's own adapter on it.
	VNIC ManagementVNIC
	// Host is what the adapter had; it moves to the management vNIC.
	Host HostConfig
	// Native: no extension forwards, so the switch does it by itself.
	Native bool
	// KeepAddresses leaves them where nobody has them: the DHCP of the management vNIC has failed.
	KeepAddresses bool
}

// VNIC is an endpoint's network adapter in a compartment.
type VNIC struct {
	Endpoint  string // its GUID
	Name      string
	Netns     string
	MAC       string
	MTU       int
	Addresses []IPConfig
	Routes    []Route
	// Connected: the switch's extension handles its packets; without it nobody does.
	Connected bool
}

// Service is an emulated HNS, with the interfaces of Windows beside it that an agent uses. Its methods may be called
// concurrently; like HNS it does one thing at a time, except for a call that a fault holds.
type Service struct {
	log        *slog.Logger
	calls      *calls
	system     *system
	hcn        *hcn
	ipHelper   *ipHelper
	powerShell *powerShell
	console    *console
}

// New starts a Service from its state file and makes the data plane agree with it.
func New(config Config) (*Service, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.DataPlane == nil {
		config.DataPlane = noDataPlane{}
	}
	system, err := newSystem(config)
	if err != nil {
		return nil, err
	}
	s := &Service{log: config.Log, calls: newCalls(), system: system, hcn: newHCN(system),
		ipHelper: newIPHelper(system), powerShell: &powerShell{system}}
	s.console = &console{injector: injector{system, s.calls, s.hcn}, ipHelper: s.ipHelper}
	return s, nil
}

// Reply to a call. Out and Err are nil where Windows returns no text.
type Reply struct {
	Status Error
	Handle uint64
	Out    *string
	Err    *string
}

// Call does what the Windows function of that name does. It may take as long as a fault says.
func (s *Service) Call(function, id string, handle uint64, body string) Reply {
	began := time.Now()
	fault, leave := s.calls.enter(function)
	defer leave()
	s.system.mu.Lock()
	defer s.system.mu.Unlock()
	reply := s.callHNS(function, canonicalID(id), handle, body, fault)
	s.log.Debug("call", "function", function, "id", id, "body", body, "status", fmt.Sprintf("%08x", uint32(reply.Status)),
		"took", time.Since(began).Round(time.Millisecond))
	return reply
}

func (s *Service) callHNS(function, id string, handle uint64, body string, fault Error) Reply {
	switch {
	case s.system.isStopped():
		return Reply{Status: ErrServerUnavailable} // the caller's RPC fails: there is nobody to say more
	case fault != 0:
		return failure(fault)
	case function == "HNSCall":
		return firstVersion{s.system}.call(body)
	}
	return s.hcn.call(function, id, handle, body)
}

// callHost does what iphlpapi asks, with the faults that HNS's calls have too.
func (s *Service) callHost(host Host, c call) Reply {
	fault, leave := s.calls.enter(c.function)
	defer leave()
	if fault != 0 {
		return Reply{Status: fault}
	}
	out, err := s.ipHelper.call(host, c)
	if err != nil {
		s.log.Debug("host call", "function", c.function, "body", c.body, "err", err)
		var code Error
		if !errors.As(err, &code) {
			code = Win32InvalidParameter
		}
		return Reply{Status: code}
	}
	return Reply{Out: &out}
}

// runPowerShell runs a command; the status is the program's exit code.
func (s *Service) runPowerShell(host Host, command string) Reply {
	fault, leave := s.calls.enter(powerShellFunction)
	defer leave()
	out, err := "", error(nil)
	if fault != 0 {
		err = fault
	} else {
		out, err = s.powerShell.run(host, command)
	}
	s.log.Debug("PowerShell", "command", command, "out", out, "err", err)
	if err != nil {
		text := err.Error()
		return Reply{Status: 1, Err: &text}
	}
	return Reply{Out: &out}
}

// Control does what a verb says and returns what it prints.
func (s *Service) Control(words []string) (string, error) { return s.console.do(words) }
