package hns

import (
	"encoding/json"
	"net/netip"
	"strings"
)

// The objects as HCN's second schema has them (hcsshim's package hcn, which builds on Windows only).

// Version of HNS or of a schema.
type Version struct{ Major, Minor int }

// Policy of a network, endpoint or subnet: its settings depend on its type.
type Policy struct {
	Type     string
	Settings json.RawMessage `json:",omitempty"`
}

// DNS settings.
type DNS struct {
	Domain     string   `json:",omitempty"`
	Search     []string `json:",omitempty"`
	ServerList []string `json:",omitempty"`
	Options    []string `json:",omitempty"`
}

// Route of a subnet or an endpoint.
type Route struct {
	NextHop           string `json:",omitempty"`
	DestinationPrefix string `json:",omitempty"`
	Metric            uint16 `json:",omitempty"`
}

// Subnet of a network.
type Subnet struct {
	IPAddressPrefix string   `json:"IpAddressPrefix,omitempty"`
	Policies        []Policy `json:",omitempty"`
	Routes          []Route  `json:",omitempty"`
	Flags           uint32   `json:",omitempty"`
}

// IPAM is where a network's addresses come from.
type IPAM struct {
	Type    string   `json:",omitempty"`
	Subnets []Subnet `json:",omitempty"`
}

// Health of an object. SwitchGuid is the vSwitch's.
type Health struct {
	Data  any         `json:",omitempty"`
	Extra HealthExtra `json:",omitempty"`
}

// HealthExtra is where hcsshim looks for the switch of a network.
type HealthExtra struct {
	SwitchGUID string `json:"SwitchGuid,omitempty"`
}

// Extension of a vSwitch.
type Extension struct {
	ID        string `json:"Id"`
	IsEnabled bool
	Name      string `json:",omitempty"`
}

// Network is a HostComputeNetwork and what the emulator keeps beside it.
type Network struct {
	ID            string          `json:"ID"`
	Name          string          `json:",omitempty"`
	Type          string          `json:",omitempty"`
	Policies      []Policy        `json:",omitempty"`
	MacPool       json.RawMessage `json:",omitempty"`
	DNS           DNS             `json:"Dns"`
	Ipams         []IPAM          `json:",omitempty"`
	Flags         uint32          `json:",omitempty"`
	Health        Health
	SchemaVersion Version

	// Adapter is the physical adapter of the network's switch; empty for a network without one.
	Adapter    string      `json:"-"`
	Extensions []Extension `json:"-"`
	// Host is what the adapter had when the network was made.
	Host HostConfig `json:"-"`
	// VNIC is the host's own adapter on the switch.
	VNIC ManagementVNIC `json:"-"`
	// RSC: the switch coalesces received segments.
	RSC bool `json:"-"`
}

// HostConfig is the addresses and routes that move between an adapter and its management vNIC.
type HostConfig struct {
	MAC       string
	Addresses []netip.Prefix
	Routes    []HostRoute
}

// ManagementVNIC is the host's own adapter on a switch.
type ManagementVNIC struct {
	Name   string // Hyper-V's, by which Open vSwitch finds it
	Device string // its alias
}

// HostRoute is a route of the host through an interface.
type HostRoute struct {
	Destination netip.Prefix
	NextHop     netip.Addr // zero: on link
	Source      netip.Addr // zero: the kernel chooses
	Metric      int
}

// IPConfig is an address of an endpoint.
type IPConfig struct {
	IPAddress    string `json:"IpAddress,omitempty"`
	PrefixLength uint8  `json:",omitempty"`
}

// Endpoint is a HostComputeEndpoint.
type Endpoint struct {
	ID                   string     `json:"ID"`
	Name                 string     `json:",omitempty"`
	HostComputeNetwork   string     `json:",omitempty"`
	HostComputeNamespace string     `json:",omitempty"`
	Policies             []Policy   `json:",omitempty"`
	IPConfigurations     []IPConfig `json:"IpConfigurations,omitempty"`
	DNS                  DNS        `json:"Dns"`
	Routes               []Route    `json:",omitempty"`
	MacAddress           string     `json:",omitempty"`
	Flags                uint32     `json:",omitempty"`
	Health               Health
	SchemaVersion        Version

	// MTU of the vNIC in bytes; 0: as it comes.
	MTU int `json:"-"`
	// late: the vNIC is still to come, see [faults].
	late bool
}

// Namespace is a HostComputeNamespace, the network compartment of a pod.
type Namespace struct {
	ID            string `json:"ID"`
	NamespaceID   uint32 `json:"NamespaceId,omitempty"`
	Type          string `json:",omitempty"`
	Resources     []Resource
	SchemaVersion Version

	// Netns is the path of the network namespace that stands for the compartment.
	Netns string `json:"-"`
	// Started: a container runs in it, so that its endpoints' vNICs exist.
	Started bool `json:"-"`
}

// Resource of a namespace: an endpoint or a container.
type Resource struct {
	Type string
	Data ResourceData
}

// ResourceData names the endpoint or container.
type ResourceData struct {
	ID string `json:"Id"`
}

// LoadBalancer is a HostComputeLoadBalancer. The emulator keeps it and forwards nothing by it.
type LoadBalancer struct {
	ID                   string          `json:"ID"`
	HostComputeEndpoints []string        `json:",omitempty"`
	SourceVIP            string          `json:",omitempty"`
	FrontendVIPs         []string        `json:",omitempty"`
	PortMappings         json.RawMessage `json:",omitempty"`
	Flags                uint32          `json:",omitempty"`
	SchemaVersion        Version
}

// sameID compares GUIDs: in any case, with or without braces.
func sameID(a, b string) bool { return canonicalID(a) == canonicalID(b) }

func canonicalID(id string) string { return strings.ToUpper(strings.Trim(id, "{}")) }

// endpoints returns the GUIDs of the endpoints in a namespace.
func (n *Namespace) endpoints() []string {
	var ids []string
	for _, r := range n.Resources {
		if r.Type == "Endpoint" {
			ids = append(ids, r.Data.ID)
		}
	}
	return ids
}

// extension returns the extension of that GUID of the network's switch.
func (n *Network) extension(id string) *Extension {
	for i := range n.Extensions {
		if sameID(n.Extensions[i].ID, id) {
			return &n.Extensions[i]
		}
	}
	return nil
}

// forwards says whether Open vSwitch handles the switch's packets.
func (n *Network) forwards() bool {
	e := n.extension(OVSExtension)
	return e != nil && e.IsEnabled
}

// maxAlias is the longest name of a device of Linux'.
const maxAlias = 15

// ManagementDevice is the alias that Windows gives to a vNIC of the host's that Hyper-V calls by that name; on Windows
// "vEthernet (NAME)".
func ManagementDevice(name string) string {
	name = "vEth-" + name
	return name[:min(len(name), maxAlias)]
}

// device is the name of the endpoint's vNIC on the host: its own, where that is a name for a device.
func (e *Endpoint) device() string {
	if e.Name != "" && len(e.Name) <= maxAlias && !strings.ContainsAny(e.Name, "/: \t") {
		return e.Name
	}
	return "vnic-" + strings.ToLower(strings.ReplaceAll(e.ID, "-", ""))[:10]
}
