package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
)

// kept wraps the objects with the fields that HCN does not show.
type kept struct {
	Networks      []keptNetwork
	Endpoints     []keptEndpoint
	Namespaces    []keptNamespace
	LoadBalancers []*LoadBalancer
	Compartments  uint32
}

type keptNetwork struct {
	*Network
	KeptAdapter    string
	KeptExtensions []Extension
	KeptHost       HostConfig
	KeptVNIC       ManagementVNIC
	KeptRSC        bool
}

type keptEndpoint struct {
	*Endpoint
	KeptMTU int
}

type keptNamespace struct {
	*Namespace
	KeptNetns   string
	KeptStarted bool
}

func (s *Service) load() error {
	if s.config.StateFile == "" {
		return nil
	}
	data, err := os.ReadFile(s.config.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of HNS: %w", err)
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("read the state of HNS in %s (remove the file to begin anew): %w", s.config.StateFile, err)
	}
	for _, n := range k.Networks {
		n.Adapter, n.Extensions, n.Host, n.VNIC, n.RSC = n.KeptAdapter, n.KeptExtensions, n.KeptHost, n.KeptVNIC, n.KeptRSC
		if n.Adapter != "" && n.VNIC == (ManagementVNIC{}) { // a former version's
			n.VNIC = ManagementVNIC{Name: n.Adapter, Device: ManagementDevice(n.Adapter)}
		}
		s.objects.Networks = append(s.objects.Networks, n.Network)
	}
	for _, e := range k.Endpoints {
		e.MTU = e.KeptMTU
		s.objects.Endpoints = append(s.objects.Endpoints, e.Endpoint)
	}
	for _, n := range k.Namespaces {
		n.Netns, n.Started = n.KeptNetns, n.KeptStarted
		s.objects.Namespaces = append(s.objects.Namespaces, n.Namespace)
	}
	s.objects.LoadBalancers, s.objects.Compartments = k.LoadBalancers, max(k.Compartments, 1)
	return nil
}

// save writes the state so that a reader sees the old or the new one.
func (s *Service) save() error {
	if s.config.StateFile == "" {
		return nil
	}
	k := kept{LoadBalancers: s.objects.LoadBalancers, Compartments: s.objects.Compartments}
	for _, n := range s.objects.Networks {
		k.Networks = append(k.Networks, keptNetwork{n, n.Adapter, n.Extensions, n.Host, n.VNIC, n.RSC})
	}
	for _, e := range s.objects.Endpoints {
		k.Endpoints = append(k.Endpoints, keptEndpoint{e, e.MTU})
	}
	for _, n := range s.objects.Namespaces {
		k.Namespaces = append(k.Namespaces, keptNamespace{n, n.Netns, n.Started})
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.config.StateFile+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(s.config.StateFile+".new", s.config.StateFile)
}

// keep saves the state and makes the data plane agree with it. What fails is logged: the callers of
// HNS see only that a vNIC does not come.
func (s *Service) keep() {
	if err := s.save(); err != nil {
		s.log.Error("keep the state", "err", err)
	}
	extension := slices.ContainsFunc(s.objects.Networks, (*Network).forwards)
	if !extension { // it leaves the vNICs to the switch
		s.tellDriver(extension)
	}
	if err := s.config.DataPlane.Apply(s.wanted()); err != nil {
		s.log.Error("data plane", "err", err)
	}
	if extension { // the switch leaves them to it
		s.tellDriver(extension)
	}
}

// tellDriver tells the driver how the switch is.
func (s *Service) tellDriver(extension bool) {
	if s.config.Driver == nil {
		return
	}
	if err := s.config.Driver.Apply(SwitchState{Extension: extension, VMMS: !s.faults.vmmsMissing()}); err != nil {
		s.log.Error("tell the driver how the switch is", "err", err)
	}
}

// wanted is the state as the data plane must have it.
func (s *Service) wanted() ([]Switch, []VNIC) {
	var switches []Switch
	var vnics []VNIC
	for _, n := range s.objects.Networks {
		if n.Adapter != "" {
			switches = append(switches, Switch{Network: n.ID, Adapter: n.Adapter, VNIC: n.VNIC, Host: n.Host,
				Native: !n.forwards(), KeepAddresses: s.faults.dhcpFails()})
		}
	}
	for _, e := range s.objects.Endpoints {
		space := s.namespace(e.HostComputeNamespace)
		network := s.network(e.HostComputeNetwork)
		if space == nil || network == nil || !space.Started || space.Netns == "" || s.late[e.ID] {
			continue
		}
		vnics = append(vnics, VNIC{
			Endpoint: e.ID, Name: e.device(), Netns: space.Netns, MAC: e.MacAddress, MTU: e.MTU,
			Addresses: e.IPConfigurations, Routes: e.Routes, Connected: network.forwards(),
		})
	}
	return switches, vnics
}

func notFound(kind string) Error {
	switch kind {
	case kindNetwork:
		return ErrNetworkNotFound
	case kindEndpoint:
		return ErrEndpointNotFound
	}
	return ErrElementNotFound
}

func byID[T any](objects []*T, id string, of func(*T) string) *T {
	i := slices.IndexFunc(objects, func(o *T) bool { return sameID(of(o), id) })
	if i < 0 {
		return nil
	}
	return objects[i]
}

func (s *Service) network(id string) *Network {
	return byID(s.objects.Networks, id, func(n *Network) string { return n.ID })
}

func (s *Service) endpoint(id string) *Endpoint {
	return byID(s.objects.Endpoints, id, func(e *Endpoint) string { return e.ID })
}

func (s *Service) namespace(id string) *Namespace {
	return byID(s.objects.Namespaces, id, func(n *Namespace) string { return n.ID })
}

// find returns nil, and not a nil pointer, for what is not there.
func (s *Service) find(kind, id string) any {
	for found, object := range s.all(kind) {
		if sameID(found, id) {
			return object
		}
	}
	return nil
}

// all yields the objects of a kind with their GUIDs.
func (s *Service) all(kind string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		switch kind {
		case kindNetwork:
			each(s.objects.Networks, func(n *Network) string { return n.ID }, yield)
		case kindEndpoint:
			each(s.objects.Endpoints, func(e *Endpoint) string { return e.ID }, yield)
		case kindNamespace:
			each(s.objects.Namespaces, func(n *Namespace) string { return n.ID }, yield)
		case kindLoadBalancer:
			each(s.objects.LoadBalancers, func(l *LoadBalancer) string { return l.ID }, yield)
		}
	}
}

func each[T any](objects []*T, id func(*T) string, yield func(string, any) bool) {
	for _, object := range objects {
		if !yield(id(object), object) {
			return
		}
	}
}

// remove deletes an object and what hangs on it.
func (s *Service) remove(kind, id string) Error {
	if s.find(kind, id) == nil {
		return notFound(kind)
	}
	switch kind {
	case kindNetwork:
		for _, e := range slices.Clone(s.objects.Endpoints) {
			if sameID(e.HostComputeNetwork, id) {
				s.removeEndpoint(e)
			}
		}
		s.objects.Networks = slices.DeleteFunc(s.objects.Networks, func(n *Network) bool { return sameID(n.ID, id) })
	case kindEndpoint:
		s.removeEndpoint(s.endpoint(id))
	case kindNamespace:
		for _, endpoint := range s.namespace(id).endpoints() {
			if e := s.endpoint(endpoint); e != nil {
				e.HostComputeNamespace = ""
			}
		}
		s.objects.Namespaces = slices.DeleteFunc(s.objects.Namespaces, func(n *Namespace) bool { return sameID(n.ID, id) })
	case kindLoadBalancer:
		s.objects.LoadBalancers = slices.DeleteFunc(s.objects.LoadBalancers, func(l *LoadBalancer) bool {
			return sameID(l.ID, id)
		})
	}
	return 0
}
