package pools

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// Owner is whose problems those of a Service's addresses are; no rows have it.
func Owner(service string) ovsdb.Owner { return ovsdb.Owner("AddressPool for Service/" + service) }

// balancerStatus is the status of a Service as far as it is about its load balancer. Without a list of addresses the
// one that is there is taken away.
type balancerStatus struct {
	LoadBalancer struct {
		Ingress []corev1.LoadBalancerIngress `json:"ingress"`
	} `json:"loadBalancer"`
}

// At is part of [part.Body].
func (s balancerStatus) At(time.Time) any { return s }

// noted is a status that was asked for: of which Service, with which addresses, and in place of which.
type noted struct {
	of               types.UID
	ingress, instead string
}

// noteBalancer has a Service's status name the addresses that it has.
func (b *Part) noteBalancer(name string, s *objects.Service) {
	h := b.of[name]
	if slices.Equal(h.addresses, objects.ParseAddrs(s.Balancer.Ingress)) {
		h.noted = noted{}
		return
	}
	asked := noted{s.UID, strings.Join(ipam.Texts(h.addresses), ","), s.Balancer.Ingress}
	if asked == h.noted {
		return
	}
	h.noted = asked
	mode := corev1.LoadBalancerIPModeVIP
	status := balancerStatus{}
	status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{}
	for _, addr := range h.addresses {
		status.LoadBalancer.Ingress = append(status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: addr.String(), IPMode: &mode})
	}
	b.Note(part.PatchStatus(objects.ServiceKind, &s.ObjectMeta, status))
}

// poolStatus is an AddressPool's.
type poolStatus struct {
	Conditions         part.Conditions `json:"conditions"`
	Free               int64           `json:"free"`
	ObservedGeneration int64           `json:"observedGeneration"`
	Used               int64           `json:"used"`
}

// At is part of [part.Body].
func (s poolStatus) At(now time.Time) any {
	s.Conditions = s.Conditions.At(now)
	return s
}

// notePool has an AddressPool's status written.
func (b *Part) notePool(p *state) {
	used, free := p.Used(), p.Free()
	ready := p.object.Ready(inUse, "all ranges are in use"+p.silent)
	switch {
	case p.wrong != "" && len(p.Ranges) == 0:
		ready = p.object.Ready(p.reason, p.wrong)
	case p.wrong != "":
		ready = p.object.Ready(p.reason, p.wrong+"; the pool's other addresses are in use"+p.silent)
	case free == 0:
		ready = p.object.Ready(usedUp, "all addresses are taken; add to spec.ranges"+p.silent)
	}
	b.NoteStatus(objects.PoolKind, &p.object.Custom, poolStatus{part.Conditions{ready}, free, p.object.Generation, used},
		&p.noted)
}

// announce decides by which node's gateway router a Service's addresses are answered on the network that has them.
func (b *Part) announce(name string) {
	s := b.services.Service(name)
	ingress := objects.ParseAddrs(s.Balancer.Ingress)
	for _, addr := range b.of[name].addresses {
		holder, _ := b.addresses.Holder(addr)
		if !slices.Contains(ingress, addr) { // nobody knows of it yet
			b.announcers.set(addr, "", false, holder)
			continue
		}
		node := ""
		if p, reserved := b.inPool(addr), b.reserved.outside[addr]; p != nil && reserved == "" {
			node = b.announcers.choose(addr, p, name, s)
		}
		b.announcers.set(addr, node, true, holder)
	}
}

// moveAnnouncers has the Services looked at again whose addresses some nodes have announced, or may take over. Where
// the addresses come in stays as it is.
func (b *Part) moveAnnouncers(nodes []*topology.Node) {
	if len(nodes) == 0 {
		return
	}
	for name, h := range b.of {
		s := b.services.Service(name)
		for _, addr := range h.addresses {
			if slices.ContainsFunc(nodes, func(n *topology.Node) bool { return b.announcers.moves(addr, name, s, n) }) {
				delete(b.announcers.outside.ways, addr)
				b.touched[name] = struct{}{}
			}
		}
	}
}

// reannounce has the Services looked at again whose addresses are of pools that select other nodes than before.
func (b *Part) reannounce() {
	if len(b.reselected) == 0 {
		return
	}
	for name, h := range b.of {
		for _, addr := range h.addresses {
			if _, other := b.reselected[b.inPool(addr)]; other {
				delete(b.announcers.outside.ways, addr)
				b.touched[name] = struct{}{}
			}
		}
	}
}

// announceOn has a node's gateway router tell its network of addresses that it answers for, when it comes
// to have them. OVN's own list would be that of all load balancers on the router, those too that other
// nodes or other programs answer for.
func announceOn(change *ovsdb.Change, g *contract.Gateway, addresses []netip.Addr) {
	if g == nil || len(addresses) == 0 {
		return
	}
	for _, r := range change.Rows {
		if port, ok := r.Model.(*nb.LogicalSwitchPort); ok && r.Key == "external" {
			port.Options["nat-addresses"] = g.MAC + " " + strings.Join(ipam.Texts(addresses), " ")
		}
	}
}
