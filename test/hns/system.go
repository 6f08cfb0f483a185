package hns

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// system is what the interfaces of a [Service] work on: HNS's objects, and the switches and vNICs that are theirs.
//
// HNS does one thing at a time, so one mutex guards the system and what the interfaces remember: the handles of hcn and
// the settings of ipHelper. Callers of system, objects, hcn and firstVersion hold it. ipHelper, powerShell and console
// take it themselves. They ask a [Host] without it. A [DataPlane] is asked under it, and takes its own mutex second.
type system struct {
	mu      sync.Mutex
	objects objects
	faults  faults
	// stopped: HNS does not run, until then.
	stopped time.Time

	file     stateFile
	plane    DataPlane
	driver   Driver // nil: nobody is told how the switch is
	noDriver bool   // Open vSwitch's extension has never been installed
	log      *slog.Logger
}

// newSystem has the objects that were kept, and makes the data plane agree with them.
func newSystem(config Config) (*system, error) {
	s := &system{file: stateFile(config.StateFile), plane: config.DataPlane, driver: config.Driver,
		noDriver: config.NoDriver, log: config.Log}
	var err error
	if s.objects, err = s.file.load(); err != nil {
		return nil, err
	}
	if config.Booted {
		s.objects.forgetPods()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep()
	return s, nil
}

// isStopped says whether HNS does not run now.
func (s *system) isStopped() bool { return time.Now().Before(s.stopped) }

// keep saves the objects and makes the data plane agree with them. What fails is logged: the callers of
// HNS see only that a vNIC does not come.
func (s *system) keep() {
	if err := s.file.save(s.objects); err != nil {
		s.log.Error("keep the state", "err", err)
	}
	extension := slices.ContainsFunc(s.objects.Networks, (*Network).forwards)
	if !extension { // it leaves the vNICs to the switch
		s.tellDriver(extension)
	}
	if err := s.plane.Apply(s.switches(), s.vnics()); err != nil {
		s.log.Error("data plane", "err", err)
	}
	if extension { // the switch leaves them to it
		s.tellDriver(extension)
	}
}

// tellDriver tells the driver how the switch is.
func (s *system) tellDriver(extension bool) {
	if s.driver == nil {
		return
	}
	if err := s.driver.Apply(SwitchState{Extension: extension, VMMS: !s.faults.noVMMS}); err != nil {
		s.log.Error("tell the driver how the switch is", "err", err)
	}
}

// switches are those that the data plane must have.
func (s *system) switches() []Switch {
	var switches []Switch
	for _, n := range s.objects.Networks {
		if n.Adapter != "" {
			switches = append(switches, Switch{Network: n.ID, Adapter: n.Adapter, VNIC: n.VNIC, Host: n.Host,
				Native: !n.forwards(), KeepAddresses: s.faults.dhcp})
		}
	}
	return switches
}

// vnics are those that the data plane must have.
func (s *system) vnics() []VNIC {
	var vnics []VNIC
	for _, e := range s.objects.Endpoints {
		space := s.objects.namespace(e.HostComputeNamespace)
		network := s.objects.network(e.HostComputeNetwork)
		if space == nil || network == nil || !space.Started || space.Netns == "" || e.late {
			continue
		}
		vnics = append(vnics, VNIC{
			Endpoint: e.ID, Name: e.device(), Netns: space.Netns, MAC: e.MacAddress, MTU: e.MTU,
			Addresses: e.IPConfigurations, Routes: e.Routes, Connected: network.forwards(),
		})
	}
	return vnics
}

// addNetwork makes a network, and its switch where the type has one.
func (s *system) addNetwork(id string, n *Network) (string, Error) {
	n.ID = newID(id, n.ID)
	n.Type = cmp.Or(n.Type, "NAT") // the zero of HNS's enumeration, see getNetwork in hcsshim's hcn/hcnnetwork.go
	if err := s.objects.checkNetwork(n); err != 0 {
		return "", err
	}
	if slices.Contains(external, n.Type) {
		if err := s.takeAdapter(n); err != 0 {
			return "", err
		}
	}
	n.Health = Health{Extra: HealthExtra{SwitchGUID: n.ID}}
	n.SchemaVersion = schemaVersion
	n.Extensions = []Extension{
		{ID: "E7C3B2F0-F3C5-48DF-AF2B-10FED6D72E7A", Name: "Microsoft Windows Filtering Platform"},
		{ID: "E9B59CFA-2BE1-4B21-828F-B6FBDBDDC017", Name: "Microsoft Azure VFP Switch Extension"},
		{ID: "EA24CD6C-D17A-4348-9190-09F0D5BE83DD", Name: "Microsoft NDIS Capture", IsEnabled: true},
	}
	if s.hasDriver() {
		n.Extensions = append(n.Extensions, Extension{ID: OVSExtension, Name: "Open vSwitch Extension"})
	}
	s.objects.Networks = append(s.objects.Networks, n)
	return n.ID, 0
}

// hasDriver says whether Open vSwitch's driver is installed: each new switch has its extension then.
func (s *system) hasDriver() bool { return !s.noDriver && !s.faults.noDriver }

// takeAdapter finds the adapter that the network's policy names.
func (s *system) takeAdapter(n *Network) Error {
	var named struct{ NetworkAdapterName string }
	for _, p := range n.Policies {
		if p.Type == "NetAdapterName" && json.Unmarshal(p.Settings, &named) != nil {
			return ErrInvalidPolicy
		}
	}
	adapter, has, err := s.plane.Adapter(named.NetworkAdapterName)
	if err != nil {
		var code Error
		if errors.As(err, &code) {
			return code
		}
		return ErrGeneral
	}
	// An adapter that is a switch's external port has no protocol of the host's bound to it any more.
	if slices.ContainsFunc(s.objects.Networks, func(o *Network) bool { return o.Adapter == adapter }) {
		return ErrAdapterNotFound
	}
	n.Adapter, n.Host = adapter, has
	n.VNIC = ManagementVNIC{Name: adapter, Device: ManagementDevice(adapter)}
	return 0
}

// addEndpoint makes an endpoint, in the namespace that it names.
func (s *system) addEndpoint(id string, e *Endpoint) (string, Error) {
	space := e.HostComputeNamespace
	if err := s.objects.addEndpoint(id, e); err != 0 {
		return "", err
	}
	if space == "" {
		return e.ID, 0
	}
	return e.ID, s.attach(s.objects.namespace(space), e)
}

// attach puts an endpoint into a namespace. In one whose container runs the vNIC comes at once, else
// with the container.
func (s *system) attach(n *Namespace, e *Endpoint) Error {
	if err := s.objects.attach(n, e); err != 0 {
		return err
	}
	if n.Started {
		s.delay(e)
	}
	return 0
}

// delay holds back the vNICs of endpoints for as long as the fault delay-vnic says.
func (s *system) delay(endpoints ...*Endpoint) {
	if s.faults.delay == 0 {
		return
	}
	for _, e := range endpoints {
		e.late = true
	}
	time.AfterFunc(s.faults.delay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range endpoints {
			e.late = false
		}
		s.keep()
	})
}
