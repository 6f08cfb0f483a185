package pods

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
)

// hostPorts are the load balancers of a pod's ports on its node's host: on the node's switch and its gateway router.
// What the host itself, a Service or an older pod has of the node's addresses is not theirs: the node's agent has the
// same rule, and tells the pod.
func hostPorts(r *northbound.Builder, p *objects.Pod, addresses []netip.Prefix, n *topology.Node,
	taken func(objects.Claim) bool) {
	for _, kind := range []objects.Protocol{"tcp", "udp", "sctp"} {
		vips := map[string]string{}
		for _, port := range p.HostPorts {
			if port.Protocol != kind || kind == "sctp" && n.Windows() {
				continue
			}
			for _, to := range contract.Addrs(addresses) {
				for _, at := range n.NodePortAddresses(to.Is4()) {
					text := netip.AddrPortFrom(at, port.Port).String()
					// Of one pod's two ports there, as one of all addresses and one of this, the first has it.
					if (!port.IP.IsValid() || port.IP == at) && vips[text] == "" &&
						!taken(objects.Claim{Addr: at, Port: port.Port, Protocol: kind}) {
						vips[text] = netip.AddrPortFrom(to, port.Into).String()
					}
				}
			}
		}
		if len(vips) == 0 {
			continue
		}
		options := map[string]string{"hairpin_snat_ip": strings.Join(northbound.HairpinAddresses[:], " "),
			"neighbor_responder": "none", "skip_snat": "true"}
		if kind == "udp" && !n.Windows() { // a Windows node forgets none, see docs/services.md
			options["ct_flush"] = "true"
		}
		id := r.Add(nb.LoadBalancerTable, "hostport/"+string(kind), &nb.LoadBalancer{
			Name: northbound.LoadBalancerName(p.Namespace, p.Name, "hostport", kind), Protocol: (*string)(&kind), Vips: vips,
			Options: options})
		r.Member(nb.LogicalSwitchTable, northbound.SwitchID(n.Name), "load_balancer", id)
		if n.Facts.Gateway != nil {
			r.Member(nb.LogicalRouterTable, northbound.GatewayID(n.Name), "load_balancer", id)
		}
	}
}

// HostPortProblems are the host ports that a pod cannot have on its node.
func HostPortProblems(p *objects.Pod, n *topology.Node) []objects.Problem {
	if len(p.HostPorts)+p.HostPortsLeft == 0 {
		return nil
	}
	found := objects.NewComplaints(objects.PodKind, &p.ObjectMeta)
	if p.HostPortsLeft > 0 {
		found.Add(tooManyHostPorts, func() string {
			return fmt.Sprintf("spec.containers[].ports[].hostPort: %d are left out, since a pod has at most %d; use fewer, "+
				"or several pods", p.HostPortsLeft, outside.Most)
		})
	}
	has := slices.Concat(n.NodePortAddresses(true), n.NodePortAddresses(false))
	for _, port := range p.HostPorts {
		switch {
		case port.Protocol == "sctp" && n.Windows():
			found.Limit(noSCTPOnWindows, func() string {
				return fmt.Sprintf("hostPort %d: SCTP is not served on Windows nodes: Open vSwitch there lacks %s; run the pod "+
					"on a Linux node (nodeSelector kubernetes.io/os: linux)",
					port.Port, capability.TrackedProtocols.Feature)
			})
		case port.IP.IsValid() && len(n.Facts.Addresses) > 0 && !slices.Contains(has, port.IP):
			found.Add(unknownHostIP, func() string {
				return fmt.Sprintf("hostPort %d: hostIP %s is no address of Node %s, and nobody can reach the port; leave hostIP "+
					"out, or give one of %s",
					port.Port, port.IP, n.Name, objects.Quoted(strings.Join(ipam.Texts(has), ", ")))
			})
		}
	}
	return found.Problems()
}

// numberedPort is a port of whatever address.
type numberedPort struct {
	port     uint16
	protocol objects.Protocol
}

// indexHostPorts notes which of a pod's host ports have come to its node and gone; either may be nil.
func (b *Part) indexHostPorts(n *nodePods, name string, before, now *objects.Pod) {
	if before != nil {
		for _, p := range before.HostPorts {
			part.Leave(b.hostPorted, numberedPort{p.Port, p.Protocol}, name)
			part.Leave(n.hostPorted, p.Claim(), name)
		}
	}
	if now != nil {
		for _, p := range now.HostPorts {
			part.Enter(b.hostPorted, numberedPort{p.Port, p.Protocol}, name)
			part.Enter(n.hostPorted, p.Claim(), name)
		}
	}
	if before != nil && len(before.HostPorts) > 0 || now != nil && len(now.HostPorts) > 0 {
		b.services.TouchSticky()
	}
}

// touchRivals has the other pods of a pod's node looked at again that want host ports of its, at an address that both
// can have.
func (b *Part) touchRivals(p *Pod) {
	if len(p.object.HostPorts) == 0 {
		return
	}
	touch := func(at objects.Claim) {
		for name := range p.node.hostPorted[at] {
			if p.node.pods[name] != p {
				b.dirty[name] = struct{}{}
			}
		}
	}
	all := slices.Concat(p.node.NodePortAddresses(true), p.node.NodePortAddresses(false))
	for _, has := range p.object.HostPorts {
		wanted := has.Claim()
		touch(wanted.Everywhere())
		if has.IP.IsValid() {
			touch(wanted)
			continue
		}
		for _, wanted.Addr = range all { // what pods want at other addresses none of them gets
			touch(wanted)
		}
	}
}

// olderHas says whether an older pod of a pod's node has a port there. The node's agent has the same rule, and tells
// the younger one.
func (b *Part) olderHas(p *Pod, wanted objects.Claim) bool {
	for _, at := range []objects.Claim{wanted, wanted.Everywhere()} {
		for name := range p.node.hostPorted[at] {
			other := p.node.pods[name]
			if other != p && len(other.addresses) > 0 && !b.policies.Lacks(other.object.Namespace) && comesBefore(other.object,
				p.object) {
				return true
			}
		}
	}
	return false
}

// comesBefore orders pods that want one host port.
func comesBefore(a, b *objects.Pod) bool {
	right := func(p *objects.Pod) outside.Right {
		return outside.Right{Created: p.CreationTimestamp.Time, Namespace: p.Namespace, Name: p.Name}
	}
	return right(a).Compare(right(b)) < 0
}

// TouchHostPorts has the pods looked at again whose host ports are claimed.
func (b *Part) TouchHostPorts(claims []objects.Claim) {
	for _, one := range claims {
		for name := range b.hostPorted[numberedPort{one.Port, one.Protocol}] {
			b.dirty[name] = struct{}{}
		}
	}
}

// keptFrom says whether a pod does not have a port of its node's that it wants: the host or a daemon of it keeps it,
// or a Service or an older pod has it. What other nodes say of the address makes no difference.
func (b *Part) keptFrom(p *Pod, wanted objects.Claim) bool {
	kind, at := string(wanted.Protocol), netip.AddrPortFrom(wanted.Addr, wanted.Port)
	return b.claims.HostsKeep(kind, at) || p.node.Listens(kind, at) ||
		b.claims.Has(wanted) || b.olderHas(p, wanted)
}
