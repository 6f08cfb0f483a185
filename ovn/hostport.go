package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/capability"
)

// hostPorts are the load balancers of a pod's ports on its node's host: on the node's switch and its
// gateway router. What the host itself, a Service or an older pod has of the node's addresses is not theirs: the node's agent has the
// same rule, and tells the pod.
func (r *rows) hostPorts(p *pod, addresses []netip.Prefix, n *placement, taken func(claim) bool) {
	for _, kind := range []protocol{"tcp", "udp", "sctp"} {
		vips := map[string]string{}
		for _, port := range p.hostPorts {
			if port.protocol != kind || kind == "sctp" && n.windows() {
				continue
			}
			for _, to := range contract.Addrs(addresses) {
				for _, at := range n.nodePortAddresses(to.Is4()) {
					text := netip.AddrPortFrom(at, port.port).String()
					// Of one pod's two ports there, as one of all addresses and one of this, the first has it.
					if (!port.ip.IsValid() || port.ip == at) && vips[text] == "" && !taken(claim{at, port.port, kind}) {
						vips[text] = netip.AddrPortFrom(to, port.into).String()
					}
				}
			}
		}
		if len(vips) == 0 {
			continue
		}
		options := map[string]string{"hairpin_snat_ip": strings.Join(hairpinAddresses[:], " "), "neighbor_responder": "none", "skip_snat": "true"}
		if kind == "udp" && !n.windows() { // a Windows node forgets none, see docs/services.md
			options["ct_flush"] = "true"
		}
		id := r.add(nb.LoadBalancerTable, "hostport/"+string(kind), &nb.LoadBalancer{
			Name: balancerName(p.Namespace, p.Name, "hostport", kind), Protocol: (*string)(&kind), Vips: vips, Options: options})
		r.member(nb.LogicalSwitchTable, switchID(n.name), "load_balancer", id)
		if n.facts.Gateway != nil {
			r.member(nb.LogicalRouterTable, gatewayID(n.name), "load_balancer", id)
		}
	}
}

// hostPortProblems are the host ports that a pod cannot have on its node.
func hostPortProblems(p *pod, n *placement) []problem {
	if len(p.hostPorts)+p.hostPortsLeft == 0 {
		return nil
	}
	found := newComplaints("Pod", &p.ObjectMeta)
	if p.hostPortsLeft > 0 {
		found.add("TooManyHostPorts", func() string {
			return fmt.Sprintf("spec.containers[].ports[].hostPort: %d are left out, since a pod has at most %d; use fewer, or several pods", p.hostPortsLeft, outside.Most)
		})
	}
	has := slices.Concat(n.nodePortAddresses(true), n.nodePortAddresses(false))
	for _, port := range p.hostPorts {
		switch {
		case port.protocol == "sctp" && n.windows():
			found.limit("NoSCTPOnWindows", func() string {
				return fmt.Sprintf("hostPort %d: SCTP is not served on Windows nodes: Open vSwitch there lacks %s; run the pod on a Linux node (nodeSelector kubernetes.io/os: linux)",
					port.port, capability.TrackedProtocols.Feature)
			})
		case port.ip.IsValid() && len(n.facts.Addresses) > 0 && !slices.Contains(has, port.ip):
			found.add("UnknownHostIP", func() string {
				return fmt.Sprintf("hostPort %d: hostIP %s is no address of Node %s, and nobody can reach the port; leave hostIP out, or give one of %s",
					port.port, port.ip, n.name, quoted(strings.Join(texts(has), ", ")))
			})
		}
	}
	return found.problems()
}

// numberedPort is a port of whatever address.
type numberedPort struct {
	port     uint16
	protocol protocol
}

// indexHostPorts notes which of a pod's host ports have come to its node and gone; either may be nil.
func (b *podBook) indexHostPorts(n *nodeState, name string, before, now *pod) {
	if before != nil {
		for _, p := range before.hostPorts {
			leave(b.hostPorted, numberedPort{p.port, p.protocol}, name)
			leave(n.hostPorted, p.claim(), name)
		}
	}
	if now != nil {
		for _, p := range now.hostPorts {
			enter(b.hostPorted, numberedPort{p.port, p.protocol}, name)
			enter(n.hostPorted, p.claim(), name)
		}
	}
	if before != nil && len(before.hostPorts) > 0 || now != nil && len(now.hostPorts) > 0 {
		b.services.touchSelves()
	}
}

// touchRivals has the other pods of a pod's node looked at again that want host ports of its, at an address that both can have.
func (b *podBook) touchRivals(p *podState) {
	if len(p.object.hostPorts) == 0 {
		return
	}
	touch := func(at claim) {
		for name := range p.node.hostPorted[at] {
			if p.node.pods[name] != p {
				b.dirty[name] = struct{}{}
			}
		}
	}
	all := slices.Concat(p.node.nodePortAddresses(true), p.node.nodePortAddresses(false))
	for _, has := range p.object.hostPorts {
		wanted := has.claim()
		touch(wanted.everywhere())
		if has.ip.IsValid() {
			touch(wanted)
			continue
		}
		for _, wanted.addr = range all { // what pods want at other addresses none of them gets
			touch(wanted)
		}
	}
}

// olderHas says whether an older pod of a pod's node has a port there. The node's agent has the same rule, and tells
// the younger one.
func (b *podBook) olderHas(p *podState, wanted claim) bool {
	for _, at := range []claim{wanted, wanted.everywhere()} {
		for name := range p.node.hostPorted[at] {
			other := p.node.pods[name]
			if other != p && len(other.addresses) > 0 && !b.policies.lacks(other.object.Namespace) && comesBefore(other.object, p.object) {
				return true
			}
		}
	}
	return false
}

// comesBefore orders pods that want one host port.
func comesBefore(a, b *pod) bool {
	right := func(p *pod) outside.Right {
		return outside.Right{Created: p.CreationTimestamp.Time, Namespace: p.Namespace, Name: p.Name}
	}
	return right(a).Compare(right(b)) < 0
}

// touchHostPorts has the pods looked at again whose host ports are claimed.
func (b *podBook) touchHostPorts(claims []claim) {
	for _, one := range claims {
		for name := range b.hostPorted[numberedPort{one.port, one.protocol}] {
			b.dirty[name] = struct{}{}
		}
	}
}

// keptFrom says whether a pod does not have a port of its node's that it wants: the host or a daemon of it keeps it,
// or a Service or an older pod has it. What other nodes say of the address makes no difference.
func (b *podBook) keptFrom(p *podState, wanted claim) bool {
	kind, at := string(wanted.protocol), netip.AddrPortFrom(wanted.addr, wanted.port)
	return b.services.hostsKeep(kind, at) || p.node.listens(kind, at) ||
		b.services.has(wanted) || b.olderHas(p, wanted)
}
