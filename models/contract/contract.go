// Package contract holds what the cluster's side (package ovn) and a node's side (packages node
// and cni) must agree on: annotations and their JSON, names of logical ports, and the addresses
// that follow from a subnet. Nothing else may be shared between the two sides.
package contract

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
)

// Annotations on Kubernetes objects. Each has one writer, and its value is the JSON of one type.
const (
	// NodeNetworkAnnotation is the annotation of a Node: the pod subnets and the number of the node, and what its agent
	// must know of the cluster ([NodeNetwork]). The controller writes it.
	NodeNetworkAnnotation = "weft.net/node-network"
	// NodeFactsAnnotation is the annotation of a Node: what the controller must know of the host, such as its chassis,
	// its addresses and its gateway ([NodeFacts]). The node's agent writes it.
	NodeFactsAnnotation = "weft.net/node-facts"
	// PodNetworkAnnotation is the annotation of a Pod: the addresses of the pod ([PodNetwork]). The controller writes it.
	PodNetworkAnnotation = "weft.net/pod-network"
)

// Labels by which an owner takes a Service away from the cluster's network.
const (
	HeadlessLabel  = "service.kubernetes.io/headless"
	ProxyNameLabel = "service.kubernetes.io/service-proxy-name"
)

// Unserved says whether a Service with these labels is somebody else's to serve.
func Unserved(labels map[string]string) bool {
	_, headless := labels[HeadlessLabel]
	_, foreign := labels[ProxyNameLabel]
	return headless || foreign
}

// NodeNetwork is what the controller has decided for a node.
type NodeNetwork struct {
	// ID is the node's number in the cluster, from 1; its join addresses derive from it.
	ID int `json:"id"`
	// PodCIDRs are the node's pod subnets, at most one an address family, IPv4 first.
	PodCIDRs []netip.Prefix `json:"podCIDRs"`
	// ClusterCIDRs and ServiceCIDRs are the ranges that the node's host reaches through its
	// management port.
	ClusterCIDRs []netip.Prefix `json:"clusterCIDRs"`
	ServiceCIDRs []netip.Prefix `json:"serviceCIDRs"`
	// JoinCIDRs are those of the cluster's own routers. Some packets come from there, as errors about
	// others; outside they mean nothing.
	JoinCIDRs []netip.Prefix `json:"joinCIDRs,omitempty"`
	// SharedGateways are the addresses of the gateway that nodes without one of their own share.
	SharedGateways []netip.Addr `json:"sharedGateways,omitempty"`
	// HostPorts are the controller's key host-ports, where it is not [DefaultHostPorts].
	HostPorts []string `json:"hostPorts,omitempty"`
	// HostExternalIPs are the ranges of hosts' addresses that Services may have by spec.externalIPs.
	HostExternalIPs []netip.Prefix `json:"hostExternalIPs,omitempty"`
	// Hosts are the ranges of hosts that are no nodes, as those of OVN's databases: no Service has their addresses, and
	// the node's host reaches them by its own routes.
	Hosts []netip.Prefix `json:"hosts,omitempty"`
	// Connections is how many a share is of the zones that all pods of a Windows node share, see [Shares]; 0: they are
	// not bounded.
	Connections int `json:"connections,omitempty"`
}

// NodeFacts is what a node's agent has found out about its node.
type NodeFacts struct {
	// Chassis is the node's chassis name: external_ids:system-id of its Open_vSwitch row.
	Chassis string `json:"chassis"`
	// MTU is that of the pods' interfaces, in bytes: the uplink's less GENEVE's overhead.
	MTU int `json:"mtu"`
	// Addresses are the host's own addresses that pods on it reach through the management port.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Listeners are where daemons of the host listen, or did a short time ago, beside the hosts' own ports: no
	// Service and no pod has these ports of the host's addresses. At most [MostOfFacts].
	Listeners Listeners `json:"listeners,omitempty"`
	// Gateway is nil on a node without a gateway of its own.
	Gateway *Gateway `json:"gateway,omitempty"`
	// SharedGateway: the node has no gateway of its own, its pods leave by the gateway nodes.
	SharedGateway bool `json:"sharedGateway,omitempty"`
	// OS is the node's operating system, [Linux] where it is empty. What OVN may ask of the node's
	// datapath depends on it.
	OS string `json:"os,omitempty"`
	// Hosted is nil on a node that runs an ovn-controller of its own.
	Hosted *Hosted `json:"hosted,omitempty"`
	// Counters is HOST:PORT where the node's agent tells `weft observe` what flows have counted; "" where it does not.
	Counters string `json:"counters,omitempty"`
}

// Operating systems of nodes, as Kubernetes' label kubernetes.io/os has them.
const (
	Linux   = "linux"
	Windows = "windows"
)

// Hosted describes a node whose ovn-controller runs on a chassis host.
type Hosted struct {
	// Address is HOST:PORT where the node's agent takes the chassis host's streams.
	Address string `json:"address"`
}

// Gateway describes how a node's gateway router meets the world outside the cluster.
type Gateway struct {
	// Network is the name that ovn-bridge-mappings gives the external bridge.
	Network string `json:"network"`
	// MAC is the gateway router's address on that network.
	MAC string `json:"mac"`
	// Addresses are the gateway router's own, with the length of their subnet; SNAT uses them.
	Addresses []netip.Prefix `json:"addresses"`
	// NextHops are the default routes' next hops; several of one family share the load (ECMP).
	NextHops []netip.Addr `json:"nextHops"`
	// HostAddresses: MAC and Addresses are the host's own. The external bridge's flows share them between
	// host and router, and do the source NAT of what leaves the cluster.
	HostAddresses bool `json:"hostAddresses,omitempty"`
	// Routed: pods keep their addresses outside, whose routers know the way back.
	Routed bool `json:"routed,omitempty"`
}

// Addresses with a meaning of their own on every node. They never leave it: each is the same on all nodes.
var (
	// HostVIPs stand for the node's own addresses in NodePorts, for its host's clients: what the host
	// sends to HostVIP:NODEPORT through its management port is load-balanced there, while what it sends
	// to an address of its own never leaves the host.
	HostVIPs = [2]netip.Addr{netip.MustParseAddr("169.254.169.4"), netip.MustParseAddr("fd69::4")}
	// HostAliases stand for the host in the gateway router with the host's addresses, which takes
	// packets to those as its own: the external bridge turns them into the host's addresses.
	HostAliases = [2]netip.Addr{netip.MustParseAddr("169.254.169.2"), netip.MustParseAddr("fd69::2")}
	// HostClients are where the host sees a client that came by its alias and would otherwise have
	// an address of the cluster's or of the host's own.
	HostClients = [2]netip.Addr{netip.MustParseAddr("169.254.169.3"), netip.MustParseAddr("fd69::3")}
)

// HostAliasMAC is where the gateway router sends what is for the host: at the MAC address that they have in common
// it would keep the packet. It knows it by rows Static_MAC_Binding.
func HostAliasMAC() net.HardwareAddr { return MAC(HostAliases[0]) }

// OwnRanges hold these addresses, and those of clients that their own Service sends back to themselves:
// nothing else in a cluster may have one.
var OwnRanges = [2]netip.Prefix{netip.MustParsePrefix("169.254.169.0/29"), netip.MustParsePrefix("fd69::/125")}

// TunnelPort is the UDP port at which every chassis takes GENEVE packets. OVN has no setting for another one.
const TunnelPort = 6081

// leadingZeros are those of an IPv4 address' parts, which the API server takes for nothing.
var leadingZeros = regexp.MustCompile(`(^|\.)0+([0-9])`)

// HostIP reads the address at which a pod's port is to be had on its node; the zero one stands for all of the
// node's. ok is false of what the API server would not have taken.
func HostIP(text string) (addr netip.Addr, ok bool) {
	if text == "" {
		return netip.Addr{}, true
	}
	addr, err := netip.ParseAddr(leadingZeros.ReplaceAllString(text, "$1$2"))
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	if addr.IsUnspecified() {
		return netip.Addr{}, true
	}
	return addr.Unmap(), true
}

// OfFamily is the one of a pair whose address family addr has.
func OfFamily(pair [2]netip.Addr, addr netip.Addr) netip.Addr {
	if addr.Is4() {
		return pair[0]
	}
	return pair[1]
}

// PodNetwork is what the controller has allocated to a pod.
type PodNetwork struct {
	// UID is the pod's. Who creates a pod cannot know it, so an annotation that came with the pod
	// is told from the controller's.
	UID string `json:"uid"`
	// MAC is the pod's hardware address.
	MAC string `json:"mac"`
	// Addresses are the pod's, with the length of the node's pod subnet, IPv4 first.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways are the next hops of the pod's default routes, one an address family.
	Gateways []netip.Addr `json:"gateways"`
}

// Parse reads the JSON of an annotation into T. ok is false when the annotation is absent. The addresses of a value
// without an error are plain ones, and a node's pod subnets have room for the addresses that derive from them.
func Parse[T any](annotations map[string]string, key string) (value T, ok bool, err error) {
	text, ok := annotations[key]
	if !ok {
		return value, false, nil
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return value, true, fmt.Errorf("annotation %s is not what weft writes: %w", key, err)
	}
	if c, checked := any(value).(interface{ check() error }); checked {
		if err := c.check(); err != nil {
			var none T
			return none, true, fmt.Errorf("annotation %s is not what weft writes: %w", key, err)
		}
	}
	return value, true, nil
}

// Format is an annotation's value as [Parse] reads it.
func Format[T NodeNetwork | NodeFacts | PodNetwork | PolicyStatus](value T) string {
	text, err := json.Marshal(value)
	if err != nil { // these types hold nothing that JSON cannot say
		panic(err)
	}
	return string(text)
}

// PodPort is the name of a pod's logical switch port and the iface-id of its OVS interface. No
// two pods share one, since a namespace's name has no underscore.
func PodPort(namespace, pod string) string { return namespace + "_" + pod }

// ManagementPort is the name of the logical switch port through which a node's host meets the pods.
func ManagementPort(node string) string { return "mgmt-" + node }

// TunnelAddressesKey is the key in external_ids of a node's management port (Logical_Switch_Port): the addresses at
// which the node's tunnels may end, with commas between them. `weft southbound` refuses the node other ones.
const TunnelAddressesKey = "weft.net/tunnel-addresses"

// NetworkName is what the name of a network outside consists of: the gateway-network of agents.
var NetworkName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// GrantedNetworkKey is the key in external_ids of a node's port to a network outside (Logical_Switch_Port): the
// network, if an administrator has granted it. `weft southbound` takes only such nodes for being on that network.
const GrantedNetworkKey = "weft.net/granted-network"

// TunnelAddress says whether a tunnel may end at an address: one that a single host has, beyond its own link.
func TunnelAddress(addr netip.Addr) bool {
	return addr.IsGlobalUnicast() && addr.Zone() == "" && !addr.Is4In6()
}

// GatewayAddress is the first address of a pod subnet: the cluster router's on the node's switch.
func GatewayAddress(subnet netip.Prefix) netip.Addr { return subnet.Masked().Addr().Next() }

// ManagementAddress is the second address of a pod subnet: the node's host on its own switch.
func ManagementAddress(subnet netip.Prefix) netip.Addr { return GatewayAddress(subnet).Next() }

// MAC derives the hardware address of the interface that owns addresses: 0a:58 and the first IPv4
// address, or 0a:58 and the last four bytes of the first address where there is no IPv4 one.
// Unlike a random address it survives the loss of every database.
func MAC(addresses ...netip.Addr) net.HardwareAddr {
	source := addresses[0]
	if i := slices.IndexFunc(addresses, netip.Addr.Is4); i >= 0 {
		source = addresses[i]
	}
	bytes := source.AsSlice()
	return append(net.HardwareAddr{0x0a, 0x58}, bytes[len(bytes)-4:]...)
}

// Addrs strips the prefix lengths.
func Addrs(prefixes []netip.Prefix) []netip.Addr {
	addrs := make([]netip.Addr, len(prefixes))
	for i, p := range prefixes {
		addrs[i] = p.Addr()
	}
	return addrs
}
