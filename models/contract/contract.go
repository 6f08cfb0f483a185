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
	// NodeNetworkAnnotation is the annotation of a Node: the pod subnets and the number of the node, and the facts of
	// the cluster that its agent must know ([NodeNetwork]). The controller writes the annotation.
	NodeNetworkAnnotation = "weft.net/node-network"
	// NodeFactsAnnotation is the annotation of a Node: the facts of the host that the controller must know, such as its
	// chassis, its addresses and its gateway ([NodeFacts]). The node's agent writes the annotation.
	NodeFactsAnnotation = "weft.net/node-facts"
	// PodNetworkAnnotation is the annotation of a Pod: the addresses of the pod ([PodNetwork]). The controller writes
	// the annotation.
	PodNetworkAnnotation = "weft.net/pod-network"
)

// AgentCondition is the type of the condition of a Node by which its agent tells whether new pods can be attached, and
// what else is amiss.
const AgentCondition = "WeftReady"

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
	// ID is the node's number in the cluster, from 1. The addresses of its gateway router in joinCIDRs derive from it.
	ID int `json:"id"`
	// PodCIDRs are the node's pod subnets, at most one for each address family, IPv4 first.
	PodCIDRs []netip.Prefix `json:"podCIDRs"`
	// ClusterCIDRs are the ranges of all pods. The node's host reaches them through its management port.
	ClusterCIDRs []netip.Prefix `json:"clusterCIDRs"`
	// ServiceCIDRs are the ranges of all Services. The node's host reaches them through its management port.
	ServiceCIDRs []netip.Prefix `json:"serviceCIDRs"`
	// JoinCIDRs are the ranges of the cluster's own routers. ICMP errors may come from there.
	JoinCIDRs []netip.Prefix `json:"joinCIDRs,omitempty"`
	// SharedGateways are the addresses of the shared gateway.
	SharedGateways []netip.Addr `json:"sharedGateways,omitempty"`
	// HostPorts are the ports that always belong to hosts (host-ports of the controller), if they are not the default.
	HostPorts []string `json:"hostPorts,omitempty"`
	// HostExternalIPs are the ranges of hosts' addresses that Services may have by spec.externalIPs
	// (host-external-ip-cidrs of the controller).
	HostExternalIPs []netip.Prefix `json:"hostExternalIPs,omitempty"`
	// Hosts are the ranges of hosts that are not nodes, such as those of OVN's databases. No Service has their addresses
	// by spec.externalIPs, except those in hostExternalIPs. The node's host reaches them by its own routes.
	Hosts []netip.Prefix `json:"hosts,omitempty"`
	// Connections is the number of places for connections in one share ([Shares]), by the controller's key
	// windows-node-connections. In a zone, a connection takes one place or two. Each zone that all pods of a Windows node
	// have in common may have one, two or three shares. Without the field there is no limit.
	Connections int `json:"connections,omitempty"`
	// PodNetworks is true if the controller keeps an object PodNetworks for the node, which its agent is to watch.
	PodNetworks bool `json:"podNetworks,omitempty"`
	// Zone is the zone of the node, in a cluster that has zones ([ZoneLabel]).
	Zone string `json:"zone,omitempty"`
}

// NodeFacts is what a node's agent has found out about its node.
type NodeFacts struct {
	// Chassis is the node's chassis name (external_ids:system-id of Open vSwitch).
	Chassis string `json:"chassis"`
	// MTU is the MTU of the pods' interfaces, in bytes. It is the agent's uplink-mtu, or without this key the uplink's
	// MTU, less the overhead of GENEVE, and on nodes with encryption that of ESP.
	MTU int `json:"mtu"`
	// Addresses are the host's own addresses. Pods of the node reach them through the management port.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// TunnelAddress is the address at which the node's tunnels end: the agent's encap-address. Older agents leave it out.
	TunnelAddress netip.Addr `json:"tunnelAddress,omitzero"`
	// Listeners are the ports at which programs of the host listen, or did a short time ago, such as tcp/9100 or
	// udp/192.0.2.1:53. At an address of the host, such a port is free neither for load balancers' and external addresses
	// of Services nor for host ports of pods. NodePorts do not depend on this field. The first 256 ports count.
	Listeners Listeners `json:"listeners,omitempty"`
	// Gateway is the node's own gateway, if it has one.
	Gateway *Gateway `json:"gateway,omitempty"`
	// SharedGateway is true if the node has no gateway of its own, and its pods leave by the shared gateway.
	SharedGateway bool `json:"sharedGateway,omitempty"`
	// OS is the node's operating system: windows or linux. Without the field the Node's label kubernetes.io/os says it,
	// and without both it is linux. It says what the node's datapath can do.
	OS string `json:"os,omitempty"`
	// Hosted is present if a chassis host runs the node's ovn-controller.
	Hosted *Hosted `json:"hosted,omitempty"`
	// Counters is the HOST:PORT at which the node's agent gives counters of flows to `weft observe`, if it does.
	Counters string `json:"counters,omitempty"`
	// Version is the version of Weft that the node's agent has. Older agents leave it out.
	Version string `json:"version,omitempty"`
	// OpenVSwitch is the version of the node's Open vSwitch, as ovs-vswitchd tells it. If it has never answered since the
	// agent started, it is ovs_version of the database.
	OpenVSwitch string `json:"openVSwitch,omitempty"`
	// PodNetworks is true if the node's agent reads the addresses of its pods from the node's PodNetworks. Then they need
	// no annotations.
	PodNetworks bool `json:"podNetworks,omitempty"`
}

// Operating systems of nodes, as Kubernetes' label kubernetes.io/os has them.
const (
	Linux   = "linux"
	Windows = "windows"
)

// Hosted describes a node whose ovn-controller runs on a chassis host.
type Hosted struct {
	// Address is the HOST:PORT at which the node's agent accepts connections of the chassis host.
	Address string `json:"address"`
}

// Gateway describes how a node's gateway router meets the world outside the cluster.
type Gateway struct {
	// Network is the name of the network outside, which ovn-bridge-mappings gives the external bridge.
	Network string `json:"network"`
	// MAC is the MAC address of the gateway router on that network.
	MAC string `json:"mac"`
	// Addresses are the gateway router's addresses, with the length of their subnet. SNAT uses them.
	Addresses []netip.Prefix `json:"addresses"`
	// NextHops are the next hops of the default routes. Several of one address family share the load (ECMP).
	NextHops []netip.Addr `json:"nextHops"`
	// HostAddresses is true if the MAC address and the addresses are the host's own. The flows of the external bridge
	// share them between the host and the router. Except where routed is true, they also translate the source of what
	// leaves the cluster.
	HostAddresses bool `json:"hostAddresses,omitempty"`
	// Routed is true if pods keep their addresses outside, except in packets to gateways of other nodes. The routers
	// outside know the way back to the pods.
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
	// UID is the pod's metadata.uid. An annotation with another UID is not valid. So an annotation in the manifest of a
	// new pod is never valid: nobody knows the UID before the pod exists.
	UID string `json:"uid"`
	// MAC is the pod's MAC address.
	MAC string `json:"mac"`
	// Addresses are the pod's addresses, with the length of the node's pod subnet, IPv4 first.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways are the next hops of the pod's default routes, one for each address family.
	Gateways []netip.Addr `json:"gateways"`
}

// NewPodNetwork is the network of a pod with these addresses: all else follows from them.
func NewPodNetwork(uid string, addresses []netip.Prefix) PodNetwork {
	network := PodNetwork{UID: uid, MAC: MAC(Addrs(addresses)...).String(), Addresses: addresses}
	for _, a := range addresses {
		network.Gateways = append(network.Gateways, GatewayAddress(a))
	}
	return network
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

// TransitPort is the name of the logical switch port by which packets for a node leave the switch between the zones.
func TransitPort(node string) string { return "tstor-" + node }

// ZoneLabel is the label of a Node and a chassis host's Lease: its zone, one of those that the controller's
// ovn-northbound names. Without the label a Node is in the first of them. An administrator sets the label of a Node. A
// chassis host whose key zone is set labels its own Lease.
const ZoneLabel = "weft.net/zone"

// RemoteGatewayKey is the key in external_ids of the port of a node of another zone ([TransitPort],
// Logical_Switch_Port): the MAC address and the addresses of the node's gateway. If the node's own zone is away when a
// controller begins, they stay the node's.
const RemoteGatewayKey = "weft.net/remote-gateway"

// TunnelAddressesKey is the key in external_ids of a node's management port (Logical_Switch_Port): the addresses at
// which the node's tunnels may end, with commas between them. `weft southbound` refuses the node other ones. On the
// port of a node of another zone ([TransitPort]) it has the address at which the node's tunnels end, and `weft
// southbound` makes the node's remote chassis with it.
const TunnelAddressesKey = "weft.net/tunnel-addresses"

// RemoteNodeKey is the key in external_ids of a Chassis of the Southbound: the Node of another zone that `weft
// southbound` has made the chassis for. It leaves alone what other remote chassis there are.
const RemoteNodeKey = "weft.net/remote-node"

// NetworkName is what the name of a network outside consists of: the gateway-network of agents.
var NetworkName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// GrantedNetworkKey is the key in external_ids of a port to a network outside (Logical_Switch_Port): on a node's port
// the name of the network, if it is granted to the node by the label weft.net/gateway-network, or without the label by
// the controller's default-gateway-network, else empty. `weft southbound` believes that the node is on the network only
// if the name is there. The ports of the shared gateway and of EgressIPs always have the name.
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
