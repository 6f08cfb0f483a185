package hostservice

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/node/hostservice/proxy"
)

// Host is what the agent knows of its node.
type Host struct {
	// Addresses are the host's own, without those of the management port.
	Addresses []netip.Addr
	// Network is the controller's decision. Without pod subnets of a family nothing is proxied in it.
	Network contract.NodeNetwork
	// Management: the management port is in use, and its routes are set.
	Management bool
	// Router: the node has a gateway router of its own.
	Router bool
	// Routers are addresses of that, if they are not the host's.
	Routers []netip.Addr
	// SCTP: the datapath tracks connections of SCTP.
	SCTP bool
	// Reserved are addresses that the host needs to reach by its other routes, whatever a Service says:
	// next hops, the API server, the Southbound, gateways.
	Reserved []netip.Addr
}

func (h Host) equal(o Host) bool {
	return h.Management == o.Management && h.Router == o.Router && h.SCTP == o.SCTP &&
		slices.Equal(h.Addresses, o.Addresses) && slices.Equal(h.Routers, o.Routers) &&
		slices.Equal(h.Reserved, o.Reserved) && h.Network.ID == o.Network.ID &&
		slices.Equal(h.Network.PodCIDRs, o.Network.PodCIDRs) &&
		slices.Equal(h.Network.ClusterCIDRs, o.Network.ClusterCIDRs) &&
		slices.Equal(h.Network.ServiceCIDRs, o.Network.ServiceCIDRs) &&
		slices.Equal(h.Network.JoinCIDRs, o.Network.JoinCIDRs) &&
		slices.Equal(h.Network.SharedGateways, o.Network.SharedGateways) &&
		slices.Equal(h.Network.HostPorts, o.Network.HostPorts) &&
		slices.Equal(h.Network.HostExternalIPs, o.Network.HostExternalIPs) &&
		slices.Equal(h.Network.Hosts, o.Network.Hosts)
}

// linkLocal are addresses that every interface has beside its own, a pod's too.
var linkLocal = netip.MustParsePrefix("fe80::/10")

// clients are those of the host's sockets. Pods come with their addresses or with link-local ones, unless a gateway has
// given them another.
func (h Host) clients() *proxy.Clients {
	c := &proxy.Clients{Host: slices.Clone(h.Addresses), Pods: append(slices.Clone(h.Network.ClusterCIDRs), linkLocal)}
	for _, subnet := range h.Network.PodCIDRs {
		c.Host = append(c.Host, contract.ManagementAddress(subnet))
	}
	return c
}

// family says whether the node's pods have addresses of a family.
func (h Host) family(ipv4 bool) bool {
	return slices.ContainsFunc(h.Network.PodCIDRs, func(p netip.Prefix) bool { return p.Addr().Is4() == ipv4 })
}

// Pod is one of the node's, with host ports.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Created         time.Time
	Addresses       []netip.Addr
	Ports           []PodPort
}

// PodPort is a containerPort with a hostPort.
type PodPort struct {
	// HostIP is the host's address; the zero value stands for all.
	HostIP   netip.Addr
	HostPort uint16
	// Port is the container's.
	Port     uint16
	Protocol string // "tcp", "udp" or "sctp"
}

// olderPod orders pods that want one host port: the first one has it.
func olderPod(a, b Pod) int {
	right := func(p Pod) outside.Right {
		return outside.Right{Created: p.Created, Namespace: p.Namespace, Name: p.Name}
	}
	return right(a).Compare(right(b))
}

func (p Pod) equal(o Pod) bool {
	return p.UID == o.UID && p.Name == o.Name && p.Namespace == o.Namespace && p.Created.Equal(o.Created) &&
		slices.Equal(p.Addresses, o.Addresses) && slices.Equal(p.Ports, o.Ports)
}
