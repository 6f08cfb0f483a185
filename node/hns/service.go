package hns

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// Service is what the agent needs of HNS. Its calls are made one at a time, see [Worker], and know
// no deadline of their own.
type Service interface {
	Version() (Version, error)
	Networks() ([]Network, error)
	CreateNetwork(Network) (Network, error)
	// DeleteNetwork returns the host's addresses to the adapter.
	DeleteNetwork(id string) error
	// Switch is what the network's virtual switch is made of.
	Switch(network string) (Switch, error)
	EnableExtension(network, extension string) error
	// Endpoints lists all endpoints of all networks.
	Endpoints() ([]Endpoint, error)
	// EndpointsNamed may be more than one: HNS does not promise that names are unique.
	EndpointsNamed(name string) ([]Endpoint, error)
	CreateEndpoint(Endpoint) (Endpoint, error)
	DeleteEndpoint(id string) error
	Namespace(id string) (Namespace, error)
	Attach(namespace, endpoint string) error
	Detach(namespace, endpoint string) error
}

// Errors that a [Service] wraps in its own.
var (
	ErrNotFound    = errors.New("HNS does not know the object")
	ErrExists      = errors.New("HNS has such an object already")
	ErrNoExtension = errors.New("the virtual switch extension is not installed")
	// ErrAddressTaken: another endpoint has the address, or no subnet of the network contains it.
	ErrAddressTaken = errors.New("HNS refuses the address")
	// ErrPolicy: HNS refuses a policy, or all of a request.
	ErrPolicy = errors.New("HNS does not support that")
)

// Transparent is the type of a network whose switch leaves packets as they are.
const Transparent = "Transparent"

// Version of HNS, as in its globals.
type Version struct{ Major, Minor int }

// Network is a virtual switch and the subnets that its endpoints may use.
type Network struct {
	ID      string
	Name    string
	Type    string
	Adapter string // the physical adapter's name; empty where HNS does not tell
	Subnets []Subnet
}

// Subnet of a network. HNS refuses an endpoint whose address is in none of its network's.
type Subnet struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
}

// Switch is the virtual switch of a network.
type Switch struct {
	Adapter    string
	Extensions []Extension
}

// Extension of a virtual switch. One that is not listed is not installed.
type Extension struct {
	ID      string
	Name    string
	Enabled bool
}

// Extension returns the extension of that ID.
func (s Switch) Extension(id string) (Extension, bool) {
	for _, e := range s.Extensions {
		if SameID(e.ID, id) {
			return e, true
		}
	}
	return Extension{}, false
}

// Endpoint is a port of a network's switch and the configuration of the interface behind it.
type Endpoint struct {
	ID        string
	Name      string
	Network   string // ID
	Namespace string // ID; empty while it is attached to none
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	Gateways  []netip.Addr // next hops of its default routes
	DNS       DNS
}

// DNS is the resolver's configuration in the endpoint's namespace.
type DNS struct {
	Domain  string
	Servers []string
	Search  []string
	Options []string
}

// Namespace is a network compartment with what is attached to it, by ID.
type Namespace struct {
	ID string
	// Compartment is its number, by which threads enter it.
	Compartment uint32
	Endpoints   []string
	Containers  []string
}

// SameID compares GUIDs: HNS writes them in both cases, and Windows with and without braces.
func SameID(a, b string) bool { return strings.EqualFold(bareID(a), bareID(b)) }

func bareID(id string) string { return strings.Trim(strings.TrimSpace(id), "{}") }

// attached says whether id is a namespace: an endpoint that is in none may say so with zeros.
func attached(id string) bool { return strings.Trim(bareID(id), "0-") != "" }
