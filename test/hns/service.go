package hns

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// OVSExtension is the GUID of Open vSwitch's extension of the Hyper-V switch.
const OVSExtension = "583CC151-73EC-4A6A-8B47-578297AD7623"

// The version of HNS on Windows Server 2022, and of the schema that it answers with.
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

// Service is an emulated HNS. Its methods may be called concurrently; like HNS it does one thing
// at a time, except for a call that a fault holds.
type Service struct {
	config Config
	log    *slog.Logger
	faults faults

	mu      sync.Mutex
	objects objects
	handles map[uint64]handle
	last    uint64
	calls   map[string]int
	// late holds the endpoints whose vNIC is still to come: delay-vnic.
	late       map[string]bool
	interfaces map[interfaceFamily]interfaceSettings
	dns        map[interfaceFamily]InterfaceDNS
	// stopped: the service is not running, until then.
	stopped time.Time
}

// objects is the state that is kept.
type objects struct {
	Networks      []*Network
	Endpoints     []*Endpoint
	Namespaces    []*Namespace
	LoadBalancers []*LoadBalancer
	Compartments  uint32
}

type handle struct{ kind, id string }

// New starts a Service from its state file and makes the data plane agree with it.
func New(config Config) (*Service, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.DataPlane == nil {
		config.DataPlane = noDataPlane{}
	}
	s := &Service{config: config, log: config.Log, handles: map[uint64]handle{}, calls: map[string]int{},
		late:       map[string]bool{},
		interfaces: map[interfaceFamily]interfaceSettings{}, dns: map[interfaceFamily]InterfaceDNS{}}
	s.objects.Compartments = 1 // the host's own
	if err := s.load(); err != nil {
		return nil, err
	}
	if config.Booted {
		s.forgetPods()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep()
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
	s.mu.Lock()
	s.calls[function]++
	s.mu.Unlock()
	fault, over := s.faults.suffer(function)
	defer over()
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := s.call(function, canonicalID(id), handle, body, fault)
	s.log.Debug("call", "function", function, "id", id, "body", body, "status", fmt.Sprintf("%08x", uint32(reply.Status)),
		"took", time.Since(began).Round(time.Millisecond))
	return reply
}

func (s *Service) call(function, id string, h uint64, body string, fault Error) Reply {
	switch {
	case time.Now().Before(s.stopped):
		return Reply{Status: ErrServerUnavailable} // the caller's RPC fails: there is nobody to say more
	case fault != 0:
		return failure(fault)
	case function == "HNSCall":
		return s.firstVersion(body)
	}
	verb, kind, known := parseFunction(function)
	if !known {
		return Reply{Status: ErrNotImplemented}
	}
	switch verb {
	case "Enumerate":
		return s.enumerate(kind, body)
	case "Open":
		return s.open(kind, id)
	case "Close":
		delete(s.handles, h)
		return Reply{}
	case "Query":
		return s.query(kind, h)
	case "Create":
		return s.create(kind, id, h, body)
	case "Modify":
		return s.modify(kind, h, body)
	case "Delete":
		if err := s.remove(kind, id); err != 0 {
			return failure(err)
		}
		s.keep()
		return Reply{}
	}
	return Reply{Status: ErrNotImplemented}
}

// The kinds of objects.
const (
	kindNetwork      = "Network"
	kindEndpoint     = "Endpoint"
	kindNamespace    = "Namespace"
	kindLoadBalancer = "LoadBalancer"
	kindSdnRoute     = "SdnRoute"
)

// parseFunction takes HcnEnumerateNetworks, HcnQueryNetworkProperties and the like apart.
func parseFunction(function string) (verb, kind string, known bool) {
	rest, isHCN := strings.CutPrefix(function, "Hcn")
	if !isHCN {
		return "", "", false
	}
	for _, kind := range []string{kindNetwork, kindEndpoint, kindNamespace, kindLoadBalancer, kindSdnRoute} {
		for verb, end := range map[string]string{"Enumerate": "s", "Open": "", "Close": "", "Query": "Properties",
			"Create": "", "Modify": "", "Delete": ""} {
			if rest == verb+kind+end {
				return verb, kind, true
			}
		}
	}
	return "", "", false
}

// failure is an error as HCN reports it: the HRESULT and a text beside it.
func failure(err Error) Reply {
	text, _ := json.Marshal(map[string]any{"Success": false, "Error": err.Error(), "ErrorCode": uint32(err)})
	s := string(text)
	return Reply{Status: err, Err: &s}
}

func output(v any) Reply {
	text, err := json.Marshal(v)
	if err != nil {
		return failure(ErrGeneral)
	}
	s := string(text)
	return Reply{Out: &s}
}

func (s *Service) opened(kind, id string) Reply {
	s.last++
	s.handles[s.last] = handle{kind, id}
	return Reply{Handle: s.last}
}

func (s *Service) open(kind, id string) Reply {
	if s.find(kind, id) == nil {
		return failure(notFound(kind))
	}
	return s.opened(kind, id)
}

func (s *Service) query(kind string, h uint64) Reply {
	object := s.find(kind, s.handles[h].id)
	if object == nil || s.handles[h].kind != kind {
		return failure(notFound(kind))
	}
	return output(object)
}

// enumerate returns GUIDs. A query's Filter is itself JSON: fields that must be equal.
func (s *Service) enumerate(kind, body string) Reply {
	var query struct{ Filter string }
	filter := map[string]any{}
	if body != "" && json.Unmarshal([]byte(body), &query) != nil {
		return failure(ErrInvalidJSON)
	}
	if query.Filter != "" && json.Unmarshal([]byte(query.Filter), &filter) != nil {
		return failure(ErrInvalidJSON)
	}
	ids := []string{}
	for id, object := range s.all(kind) {
		if matches(object, filter) {
			ids = append(ids, id)
		}
	}
	return output(ids)
}

func matches(object any, filter map[string]any) bool {
	if len(filter) == 0 {
		return true
	}
	text, err := json.Marshal(object)
	if err != nil {
		return false
	}
	fields := map[string]any{}
	if json.Unmarshal(text, &fields) != nil {
		return false
	}
	for name, want := range filter {
		if name == "VirtualNetwork" { // its name in the first version, which hcsshim asks by
			name = "HostComputeNetwork"
		}
		if !strings.EqualFold(fmt.Sprint(fields[name]), fmt.Sprint(want)) {
			return false
		}
	}
	return true
}

func (s *Service) create(kind, id string, h uint64, body string) Reply {
	var made string
	var err Error
	switch kind {
	case kindNetwork:
		made, err = s.createNetwork(id, body)
	case kindEndpoint:
		made, err = s.createEndpoint(id, s.handles[h], body)
	case kindNamespace:
		made, err = s.createNamespace(id, body)
	case kindLoadBalancer:
		made, err = s.createLoadBalancer(id, body)
	default:
		return Reply{Status: ErrNotImplemented}
	}
	if err != 0 {
		return failure(err)
	}
	s.keep()
	return s.opened(kind, made)
}

// modification is the settings of the HcnModify functions.
type modification struct {
	ResourceType string
	RequestType  string
	Settings     json.RawMessage
}

func (s *Service) modify(kind string, h uint64, body string) Reply {
	var m modification
	if json.Unmarshal([]byte(body), &m) != nil {
		return failure(ErrInvalidJSON)
	}
	object := s.find(kind, s.handles[h].id)
	var err Error
	switch o := object.(type) {
	case *Network:
		err = s.modifyNetwork(o, m)
	case *Endpoint:
		err = s.modifyEndpoint(o, m)
	case *Namespace:
		err = s.modifyNamespace(o, m)
	case *LoadBalancer:
		err = ErrRequestUnsupported
	default:
		err = notFound(kind)
	}
	if err != 0 {
		return failure(err)
	}
	s.keep()
	return Reply{}
}

// newID is the GUID of an object to be made: the caller's argument, that of its settings, or a new one.
func newID(argument, settings string) string {
	for _, id := range []string{argument, settings} {
		if id = canonicalID(id); strings.Trim(id, "0-") != "" {
			return id
		}
	}
	return canonicalID(uuid.NewString())
}
