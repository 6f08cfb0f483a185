package objects

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/policy"
)

// Pod is a Pod.
type Pod struct {
	metav1.ObjectMeta
	Node        string
	HostNetwork bool         // a host-process pod of Windows has it, too: the API server demands it
	Completed   bool         // Succeeded or Failed: its containers will not run again
	Controlled  bool         // see [madeByController]
	Network     string       // contract.PodNetworkAnnotation
	IPs         []netip.Addr // status.podIPs
	Labels      LabelSet
	HostPorts   []HostPort
	// HostPortsLeft is how many more it has than are served.
	HostPortsLeft int
	Ports         []ContainerPort // that have a name, sorted
	Asked         Unserved        // of what weft does not serve
}

// HostPort is a port of a pod's node that leads to the pod.
type HostPort struct {
	Protocol   Protocol
	IP         netip.Addr // of the host; none: all
	Port, Into uint16     // the host's and the container's
}

// Claim is what a pod wants by a host port; one of all addresses wants it everywhere on its node.
func (h HostPort) Claim() Claim { return Claim{h.IP, h.Port, h.Protocol} }

func TrimPod(o *corev1.Pod) *Pod {
	p := &Pod{
		ObjectMeta:  trimMeta(&o.ObjectMeta),
		Node:        Interned(o.Spec.NodeName),
		HostNetwork: o.Spec.HostNetwork,
		Completed:   o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed,
		Network:     o.Annotations[contract.PodNetworkAnnotation],
		Labels:      NewLabelSet(o.Labels),
		Controlled:  madeByController(o),
	}
	if !p.HostNetwork { // which has no network of weft's
		p.Asked = trimUnserved(podKind, o.Annotations)
	}
	p.trimHostPorts(o)
	p.trimPorts(o)
	for _, ip := range o.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			p.IPs = append(p.IPs, addr)
		}
	}
	return p
}

// trimHostPorts reads those of all containers.
func (p *Pod) trimHostPorts(o *corev1.Pod) {
	if p.HostNetwork {
		return
	}
	ports, more := outside.HostPorts(o)
	p.HostPortsLeft = more
	for i := range ports {
		kind, ok := protocolOf(ports[i].Protocol)
		ip, readable := contract.HostIP(ports[i].HostIP)
		if ok && readable && !ip.IsLoopback() { // the agent serves the host's own
			p.HostPorts = append(p.HostPorts,
				HostPort{kind, ip, uint16(ports[i].HostPort), uint16(ports[i].ContainerPort)})
		}
	}
}

// madeByController says whether a controller of the control plane has made a pod, and no node.
func madeByController(o *corev1.Pod) bool {
	if _, mirror := o.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind != "Node"
}

// ParseNetwork reads the annotation as it stands at the pod.
func (p *Pod) ParseNetwork() (contract.PodNetwork, error) {
	return ParseAnnotation[contract.PodNetwork](contract.PodNetworkAnnotation, p.Network)
}

func (p *Pod) equal(o *Pod) bool {
	return p.UID == o.UID && p.Node == o.Node && p.HostNetwork == o.HostNetwork && p.Completed == o.Completed &&
		p.Controlled == o.Controlled && p.Network == o.Network && p.Asked == o.Asked && p.Labels == o.Labels &&
		p.HostPortsLeft == o.HostPortsLeft && slices.Equal(p.HostPorts, o.HostPorts) &&
		slices.Equal(p.Ports, o.Ports) && slices.Equal(p.IPs, o.IPs)
}

// ContainerPort is a named port of a pod.
type ContainerPort struct {
	Name     string
	Protocol policy.Protocol
	Number   uint16
}

// protocolOrder is the order in which the numbers behind a name count: a pod may have more than [MaxNumbers].
var protocolOrder = []policy.Protocol{policy.TCP, policy.UDP, policy.SCTP}

func CompareContainerPorts(a, b ContainerPort) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name),
		cmp.Compare(slices.Index(protocolOrder, a.Protocol), slices.Index(protocolOrder, b.Protocol)),
		cmp.Compare(a.Number, b.Number))
}

// trimPorts reads a pod's named ports, sorted.
func (p *Pod) trimPorts(o *corev1.Pod) {
	for c := range outside.Lasting(o) {
		for _, port := range c.Ports {
			if kind, ok := protocolOf(port.Protocol); ok && port.Name != "" && port.ContainerPort > 0 &&
				port.ContainerPort <= 65535 {
				p.Ports = append(p.Ports,
					ContainerPort{Interned(port.Name), policy.Protocol(kind), uint16(port.ContainerPort)})
			}
		}
	}
	slices.SortFunc(p.Ports, CompareContainerPorts)
	p.Ports = slices.Compact(p.Ports)
}

// PortNumber is what is behind a port's name.
type PortNumber struct {
	Protocol policy.Protocol
	Number   uint16
}

// MaxNumbers bounds how many numbers one pod has behind one name: each is an ACL in every policy that names
// it, whoever wrote that. The first count, in the order of [CompareContainerPorts].
const MaxNumbers = 16

// Numbers are those behind the name of a pod's port.
func (p *Pod) Numbers(name string) []PortNumber {
	var list []PortNumber
	for _, port := range p.Ports {
		if port.Name == name && len(list) < MaxNumbers {
			list = append(list, PortNumber{port.Protocol, port.Number})
		}
	}
	return list
}
