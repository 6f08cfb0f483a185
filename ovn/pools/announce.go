package pools

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// noteBalancer has a Service's status name the addresses that it has.
func (b *Part) noteBalancer(name string, s *objects.Service) {
	h := b.of[name]
	if slices.Equal(h.addresses, objects.ParseAddrs(s.Balancer.Ingress)) {
		h.noted = ""
		return
	}
	mode := corev1.LoadBalancerIPModeVIP
	ingress := []corev1.LoadBalancerIngress{}
	for _, addr := range h.addresses {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: addr.String(), IPMode: &mode})
	}
	text, err := json.Marshal(map[string]any{"loadBalancer": map[string]any{"ingress": ingress}})
	if err != nil { // strings alone
		panic(err)
	}
	value := string(text)
	if asked := value + " of " + string(s.UID) + " in place of " + s.Balancer.Ingress; asked != h.noted {
		h.noted = asked
		b.Note(part.NewAnnotation(objects.ServiceKind, &s.ObjectMeta, part.StatusKey, value))
	}
}

// notePool has an AddressPool's status written.
func (b *Part) notePool(p *state) {
	used, free := p.Used(), p.Free()
	ready := p.object.Ready(true, "InUse", "all ranges are in use"+p.silent)
	switch {
	case p.wrong != "" && len(p.Ranges) == 0:
		ready = p.object.Ready(false, p.reason, p.wrong)
	case p.wrong != "":
		ready = p.object.Ready(false, p.reason, p.wrong+"; the pool's other addresses are in use"+p.silent)
	case free == 0:
		ready = p.object.Ready(true, "UsedUp", "all addresses are taken; add to spec.ranges")
	}
	b.NoteStatus(objects.PoolKind, &p.object.Custom, map[string]any{"observedGeneration": p.object.Generation,
		"conditions": []metav1.Condition{ready}, "used": used, "free": free}, &p.noted)
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
