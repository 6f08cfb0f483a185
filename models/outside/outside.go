// Package outside says who has what of the addresses by which the cluster is known outside: which addresses a Service
// asks for, which ports stay the hosts' own, and who comes first of those that want one port. The controller, which
// serves them in OVN, and the nodes' agents, which lead traffic to it, have one answer, from here.
package outside

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/endpointslice"
)

// Most bounds the addresses and ports that one Service is served at outside, and so what it costs the cluster: each has
// all its endpoints in every node's flows.
const Most = 1000

// MostBackends bounds the endpoints of all addresses and ports of one Service together: each is a bucket in the flows
// of every node.
const MostBackends = 50_000

// MostWritten bounds the endpoints in all rows of one Service, where nodes have rows of their own: the databases
// hold them, and all nodes read them.
const MostWritten = 500_000

// Backends are the endpoints of each port of a Service that are served: the more addresses and ports it has, the fewer,
// and one at least. It has clusterIPs, where it has NodePorts these again, and others outside. Which endpoints these
// are says [endpointslice.Behind].
func Backends(clusterIPs, others, ports int, nodePorts bool) int {
	addresses := clusterIPs + others
	if nodePorts {
		addresses += clusterIPs
	}
	return max(1, MostBackends/max(1, addresses*ports))
}

// Ports are the ports of a Service that are served, [Most] of them.
func Ports(o *corev1.Service) []corev1.ServicePort {
	return o.Spec.Ports[:min(len(o.Spec.Ports), Most)]
}

// Ranges are the source ranges of a Service that admit somebody, [Most] of them; as they are written.
func Ranges(o *corev1.Service) []string {
	return o.Spec.LoadBalancerSourceRanges[:min(len(o.Spec.LoadBalancerSourceRanges), Most)]
}

// HostPorts are the host ports of a pod's [Lasting] containers, [Most] of them, and how many more there are.
func HostPorts(o *corev1.Pod) (ports []corev1.ContainerPort, more int) {
	for c := range Lasting(o) {
		for _, port := range c.Ports {
			switch {
			case port.HostPort == 0:
			case len(ports) < Most:
				ports = append(ports, port)
			default:
				more++
			}
		}
	}
	return ports, more
}

// Lasting are the containers of a pod that run as long as it does. Of init containers, these are those that run beside
// the others (restartPolicy Always).
func Lasting(o *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range o.Spec.InitContainers {
			c := &o.Spec.InitContainers[i]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && !yield(c) {
				return
			}
		}
		for i := range o.Spec.Containers {
			if !yield(&o.Spec.Containers[i]) {
				return
			}
		}
	}
}

// Addresses are what a Service asks for outside, each field's in its order and once.
type Addresses struct {
	External   []netip.Addr // spec.externalIPs
	Balancer   []netip.Addr // status.loadBalancer.ingress, those with ipMode VIP
	LeftOut    int          // how many more it asks for than it may
	Unreadable []Unreadable
}

// Unreadable is an address that cannot be read.
type Unreadable struct{ Field, Text, Why string }

// Read takes them from a Service, which has some number of ports that are served. A load balancer of mode Proxy speaks
// to the node ports, and whoever asks for its address must come to it.
func Read(o *corev1.Service, ports int) Addresses {
	var a Addresses
	room := max(1, Most/max(1, ports))
	take := func(list *[]netip.Addr, field, text string) {
		addr, why := endpointslice.ParseIP(text)
		addr = addr.Unmap()
		switch {
		case why == "" && addr.Zone() != "":
			why = "it has a zone, which nobody outside can know"
			fallthrough
		case why != "":
			a.Unreadable = append(a.Unreadable, Unreadable{field, text, why})
		case slices.Contains(*list, addr):
		case len(a.External)+len(a.Balancer) < room:
			*list = append(*list, addr)
		default:
			a.LeftOut++
		}
	}
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for _, ingress := range o.Status.LoadBalancer.Ingress {
			if ingress.IP != "" && (ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP) {
				take(&a.Balancer, "status.loadBalancer.ingress", ingress.IP)
			}
		}
	}
	for _, text := range o.Spec.ExternalIPs {
		take(&a.External, "spec.externalIPs", text)
	}
	return a
}

// Fit says what kind of address nobody outside can have for a Service; "" is a fit one. The cluster's own ranges are
// for the caller to know.
func Fit(addr netip.Addr) (unfit string) {
	switch {
	case addr.IsUnspecified():
		return "no address"
	case addr.IsLoopback():
		return "a loopback address"
	case addr.IsLinkLocalUnicast():
		return "a link-local address"
	case addr.IsMulticast():
		return "a multicast address"
	case !addr.IsGlobalUnicast():
		return "the broadcast address"
	}
	return ""
}

// Hosts is what stays the hosts' own, whatever Services and pods ask for. Without it, whoever may write them would take
// the cluster from those who run it.
type Hosts struct {
	Ports  contract.HostPorts    // of each of their addresses
	Open   []netip.Prefix        // of their addresses, those that Services may have by spec.externalIPs
	Ranges []netip.Prefix        // of hosts that are no nodes
	Nodes  func(netip.Addr) bool // says whether a node's host or gateway has an address
	// Listening says whether a daemon of a node listens at an address that the node's host has.
	Listening  func(protocol string, at netip.AddrPort) bool
	APIServers map[netip.AddrPort]bool // endpoints of the Service default/kubernetes, all of TCP
}

// Owner is whose an address or port is that is not a Service's or a pod's.
type Owner int

// Owners.
const (
	Nobody Owner = iota
	Node
	APIServer
	Host // that is no node
	EveryHost
	Daemon // of a node's host
)

// At says whose an address is.
func (h Hosts) At(addr netip.Addr) Owner {
	if h.Nodes(addr) {
		return Node
	}
	for at := range h.APIServers {
		if at.Addr() == addr {
			return APIServer
		}
	}
	if contain(h.Ranges, addr) {
		return Host
	}
	return Nobody
}

// Keep says who keeps a port of an address; of every node's, where the address is the zero one.
func (h Hosts) Keep(protocol string, at netip.AddrPort) Owner {
	switch {
	case protocol == "tcp" && h.APIServers[at]:
		return APIServer
	case !h.Ports.Has(protocol, at.Port()):
		return Nobody
	case !at.Addr().IsValid():
		return EveryHost
	}
	return h.At(at.Addr())
}

// KeepExternal says who keeps a port of an address outside that a Service asks for: beside what [Hosts.Keep] says,
// a daemon of the node that has the address. NodePorts are not held to it, since the API server gives them. A pod's
// host ports are held to its own node's daemons alone: no other node takes them by claiming that one's address.
func (h Hosts) KeepExternal(protocol string, at netip.AddrPort) Owner {
	if owner := h.Keep(protocol, at); owner != Nobody || !h.Listening(protocol, at) {
		return owner
	}
	return Daemon
}

// Deny says who keeps an address that a Service asks for. Whoever may write Services writes spec.externalIPs, while a
// load balancer's address is what its controller says.
func (h Hosts) Deny(addr netip.Addr, balancer bool) Owner {
	if balancer || contain(h.Open, addr) {
		return Nobody
	}
	return h.At(addr)
}

func contain(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Right is what somebody has to a port that others want, too.
type Right struct {
	// Balancer: it is one of a load balancer's address, which not everybody can write.
	Balancer        bool
	Created         time.Time
	Namespace, Name string
}

// Compare puts the better of two rights to one port first: a load balancer's, then the older object's.
func (r Right) Compare(o Right) int {
	if r.Balancer != o.Balancer {
		if r.Balancer {
			return -1
		}
		return 1
	}
	return cmp.Or(r.Created.Compare(o.Created), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Name, o.Name))
}
