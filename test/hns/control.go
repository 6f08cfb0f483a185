package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The control side: what container runtimes and machines do to HNS, and faults.

// A verb of [Service.Control].
type verb struct {
	words  []string // what it is called
	args   string   // what it takes, for people
	least  int
	most   int
	action func(s *Service, args []string) (string, error)
}

var verbs = []verb{
	{[]string{"namespace", "add"}, "GUID NETNS", 2, 2, (*Service).controlAddNamespace},
	{[]string{"namespace", "del"}, "GUID", 1, 1, (*Service).controlRemoveNamespace},
	{[]string{"network", "add"}, "NAME TYPE", 2, 2, (*Service).controlAddNetwork},
	{[]string{"start"}, "GUID", 1, 1, (*Service).controlStart},
	{[]string{"stop"}, "GUID", 1, 1, (*Service).controlStop},
	{[]string{"state"}, "", 0, 0, (*Service).controlState},
	{[]string{"fault", "hang"}, "CALL SECONDS [COUNT]", 2, 3, (*Service).controlHang},
	{[]string{"fault", "fail"}, "CALL HRESULT [COUNT]", 2, 3, (*Service).controlFail},
	{[]string{"fault", "lose-network"}, "[NAME]", 0, 1, (*Service).controlLoseNetwork},
	{[]string{"fault", "lose-endpoints"}, "", 0, 0, (*Service).controlLoseEndpoints},
	{[]string{"fault", "disable-extension"}, "", 0, 0, (*Service).controlDisableExtension},
	{[]string{"fault", "no-driver"}, "", 0, 0, (*Service).controlNoDriver},
	{[]string{"fault", "no-vmms"}, "", 0, 0, (*Service).controlNoVMMS},
	{[]string{"fault", "delay-vnic"}, "SECONDS", 1, 1, (*Service).controlDelay},
	{[]string{"fault", "restart"}, "[SECONDS]", 0, 1, (*Service).controlRestart},
	{[]string{"fault", "dhcp-fail"}, "", 0, 0, (*Service).controlDHCPFail},
	{[]string{"fault", "clear"}, "", 0, 0, (*Service).controlClear},
	{[]string{"reboot"}, "", 0, 0, (*Service).controlReboot},
}

// Usage lists the verbs, a line each.
func Usage() string {
	var text strings.Builder
	for _, v := range verbs {
		fmt.Fprintf(&text, "  %s %s\n", strings.Join(v.words, " "), v.args)
	}
	return text.String()
}

// Control does what a verb says and returns what it prints.
func (s *Service) Control(words []string) (string, error) {
	for _, v := range verbs {
		n := len(v.words)
		if len(words) < n || !slices.Equal(words[:n], v.words) {
			continue
		}
		args := words[n:]
		if len(args) < v.least || len(args) > v.most {
			return "", fmt.Errorf("%s takes %s", strings.Join(v.words, " "), strings.TrimSpace(v.args+" (nothing else)"))
		}
		return v.action(s, args)
	}
	return "", fmt.Errorf("no verb %q; there are\n%s", strings.Join(words, " "), Usage())
}

func (s *Service) controlAddNamespace(args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := canonicalID(args[0])
	if n := s.namespace(id); n != nil {
		if n.Netns != args[1] {
			return "", fmt.Errorf("namespace %s is that of %s", id, n.Netns)
		}
		return "", nil
	}
	if _, err := s.addNamespace(id, "HostDefault", args[1]); err != 0 {
		return "", err
	}
	s.keep()
	return "", nil
}

func (s *Service) controlRemoveNamespace(args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What is gone stays gone: a runtime repeats its clean-up.
	_ = s.remove(kindNamespace, args[0])
	s.keep()
	return "", nil
}

// controlAddNetwork makes a network that is none of the agent's, such as Docker's NAT.
func (s *Service) controlAddNetwork(args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.addNetwork("", &Network{Name: args[0], Type: args[1]}); err != 0 {
		return "", fmt.Errorf("add network %s of type %s: %w", args[0], args[1], err)
	}
	s.keep()
	return "", nil
}

// controlStart is what HCS does when a sandbox's first container starts: the vNICs come.
func (s *Service) controlStart(args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.namespace(args[0])
	if n == nil {
		return "", fmt.Errorf("start the container of namespace %s: %w", args[0], ErrElementNotFound)
	}
	if !n.Started {
		n.Started = true
		n.Resources = append(n.Resources, Resource{Type: "Container", Data: ResourceData{strings.ToLower(n.ID)}})
		s.delay(n.endpoints()...)
	}
	s.keep()
	return "", nil
}

func (s *Service) controlStop(args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.namespace(args[0]); n != nil {
		n.Started = false
		n.Resources = slices.DeleteFunc(n.Resources, func(r Resource) bool { return r.Type == "Container" })
		s.keep()
	}
	return "", nil
}

// State is what `hnsemu ctl state` prints.
type State struct {
	Networks      []NetworkState
	Endpoints     []EndpointState
	Namespaces    []*Namespace
	LoadBalancers []*LoadBalancer `json:",omitempty"`
	Devices       any
	DNS           []InterfaceDNS `json:",omitempty"`
	Calls         map[string]int
	Faults        map[string]any `json:",omitempty"`
	Stopped       bool           `json:",omitempty"`
}

// NetworkState is a network with its switch.
type NetworkState struct {
	*Network
	Adapter    string         `json:",omitempty"`
	VNIC       ManagementVNIC `json:",omitzero"`
	Extensions []Extension
	HostConfig HostConfig
}

// EndpointState is an endpoint with its vNIC.
type EndpointState struct {
	*Endpoint
	// Netns is where its vNIC is; empty while it has none.
	Netns string `json:",omitempty"`
	MTU   int    `json:",omitempty"`
}

func (s *Service) controlState([]string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{Networks: []NetworkState{}, Endpoints: []EndpointState{}, Namespaces: s.objects.Namespaces,
		LoadBalancers: s.objects.LoadBalancers, Devices: s.config.DataPlane.Devices(), Calls: maps.Clone(s.calls),
		Faults: s.faults.view(), Stopped: time.Now().Before(s.stopped)}
	for _, n := range s.objects.Networks {
		state.Networks = append(state.Networks, NetworkState{n, n.Adapter, n.VNIC, n.Extensions, n.Host})
	}
	_, vnics := s.wanted()
	for _, e := range s.objects.Endpoints {
		one := EndpointState{Endpoint: e, MTU: e.MTU}
		for _, v := range vnics {
			if v.Endpoint == e.ID {
				one.Netns = v.Netns
			}
		}
		state.Endpoints = append(state.Endpoints, one)
	}
	state.DNS = slices.Collect(maps.Values(s.dns))
	text, err := json.MarshalIndent(state, "", "  ")
	return string(text), err
}

func seconds(text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 86400 {
		return 0, fmt.Errorf("seconds: %q is none from 0 to 86400", text)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// count is how often; without it always: negative.
func count(args []string) (int, error) {
	if len(args) == 0 {
		return -1, nil
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("count: %q is none from 1 on", args[0])
	}
	return n, nil
}

func checkCall(name string) error {
	if _, _, known := parseFunction(name); known || name == "HNSCall" || name == powerShellFunction ||
		hostFunctions[name] {
		return nil
	}
	return fmt.Errorf("no call %q: one of HCN such as HcnDeleteEndpoint, of iphlpapi such as "+
		"CreateUnicastIpAddressEntry, HNSCall or PowerShell", name)
}

func (s *Service) controlHang(args []string) (string, error) {
	held, err := seconds(args[1])
	times, countErr := count(args[2:])
	if err := errors.Join(checkCall(args[0]), err, countErr); err != nil {
		return "", err
	}
	s.faults.hang(args[0], hang{held, times})
	return "", nil
}

func (s *Service) controlFail(args []string) (string, error) {
	code, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(args[1]), "0x"), 16, 32)
	if err != nil || code == 0 {
		return "", fmt.Errorf("HRESULT: %q is none, such as 0x803b0001", args[1])
	}
	times, err := count(args[2:])
	if err := errors.Join(checkCall(args[0]), err); err != nil {
		return "", err
	}
	s.faults.fail(args[0], failing{Error(code), times})
	return "", nil
}

// controlLoseNetwork: the vSwitch vanishes, with the network and its endpoints.
func (s *Service) controlLoseNetwork(args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := 0
	for _, n := range slices.Clone(s.objects.Networks) {
		if len(args) == 0 && n.Adapter != "" || len(args) == 1 && n.Name == args[0] {
			_ = s.remove(kindNetwork, n.ID)
			lost++
		}
	}
	if lost == 0 {
		return "", errors.New("there is no such network to lose")
	}
	s.keep()
	return "", nil
}

// controlLoseEndpoints: HNS forgets its endpoints while their containers run.
func (s *Service) controlLoseEndpoints([]string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Clone(s.objects.Endpoints) {
		s.removeEndpoint(e)
	}
	s.keep()
	return "", nil
}

func (s *Service) controlDisableExtension([]string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.objects.Networks {
		if e := n.extension(OVSExtension); e != nil {
			e.IsEnabled = false
		}
	}
	s.keep()
	return "", nil
}

// controlNoDriver: Open vSwitch's driver is not installed, so that no switch has its extension.
func (s *Service) controlNoDriver([]string) (string, error) {
	s.faults.set(func(f *faults) { f.noDriver = true })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.objects.Networks {
		n.Extensions = slices.DeleteFunc(n.Extensions, func(e Extension) bool { return sameID(e.ID, OVSExtension) })
	}
	s.keep()
	return "", nil
}

// controlNoVMMS: Hyper-V's management is not installed, or does not run.
func (s *Service) controlNoVMMS([]string) (string, error) {
	s.faults.set(func(f *faults) { f.noVMMS = true })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep()
	return "", nil
}

func (s *Service) controlDelay(args []string) (string, error) {
	wait, err := seconds(args[0])
	if err != nil {
		return "", err
	}
	s.faults.set(func(f *faults) { f.delay = wait })
	return "", nil
}

// controlRestart: the service stops and is back after some seconds, 2 if not said. Its objects are
// as before, except for handles.
func (s *Service) controlRestart(args []string) (string, error) {
	down := 2 * time.Second
	if len(args) == 1 {
		var err error
		if down, err = seconds(args[0]); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = time.Now().Add(down)
	clear(s.handles)
	return "", nil
}

func (s *Service) controlDHCPFail([]string) (string, error) {
	s.faults.set(func(f *faults) { f.dhcp = true })
	return "", nil
}

// controlClear ends the faults. What they did is not undone, but that a missing driver is there again.
func (s *Service) controlClear([]string) (string, error) {
	s.faults.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = time.Time{}
	for _, n := range s.objects.Networks {
		if n.extension(OVSExtension) == nil && n.Adapter != "" && !s.config.NoDriver {
			n.Extensions = append(n.Extensions, Extension{ID: OVSExtension, Name: "Open vSwitch Extension"})
		}
	}
	s.keep()
	return "", nil
}

// controlReboot: the machine has booted anew.
func (s *Service) controlReboot([]string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetPods()
	s.keep()
	return "", nil
}

// forgetPods leaves what survives a boot: the networks, with their switches and extensions.
func (s *Service) forgetPods() {
	s.objects.Endpoints, s.objects.Namespaces, s.objects.LoadBalancers = nil, nil, nil
	s.objects.Compartments = 1
	clear(s.handles)
	clear(s.late)
}
