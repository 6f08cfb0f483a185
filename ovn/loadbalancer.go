package ovn

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
)

// balancer is what the allocator of load balancer addresses reads of a Service.
type balancer struct {
	balances bool // type LoadBalancer; else ingress is what is left of a time when it was
	class    string
	wanted   string // addresses that it asks for, separated by commas
	byField  bool   // by spec.loadBalancerIP, else by the annotation
	families string // "4", "6", "4,6" or "6,4"
	labels   labelSet
	local    bool   // externalTrafficPolicy: Local
	ingress  string // the addresses in its status of mode VIP, separated by commas: no pool gives others
	answered bool   // somebody has written to its status where it is met, be it a name
}

func trimBalancer(o *corev1.Service) balancer {
	b := balancer{balances: o.Spec.Type == corev1.ServiceTypeLoadBalancer}
	var ingress []string
	for _, i := range o.Status.LoadBalancer.Ingress {
		if addr, err := netip.ParseAddr(i.IP); err == nil && deref(i.IPMode, corev1.LoadBalancerIPModeVIP) == corev1.LoadBalancerIPModeVIP {
			ingress = append(ingress, addr.String())
		}
	}
	b.ingress = strings.Join(ingress, ",")
	if !b.balances {
		return b
	}
	b.class, b.answered = deref(o.Spec.LoadBalancerClass, ""), len(o.Status.LoadBalancer.Ingress) > 0
	asked := o.Annotations[v1alpha1.AddressesAnnotation]
	b.wanted, b.byField = cut(cmp.Or(asked, o.Spec.LoadBalancerIP), maxQuoted), asked == ""
	b.labels = newLabelSet(o.Labels)
	b.local = o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	var families []string
	for _, f := range o.Spec.IPFamilies {
		families = append(families, map[corev1.IPFamily]string{corev1.IPv4Protocol: "4", corev1.IPv6Protocol: "6"}[f])
	}
	b.families = strings.Join(families, ",")
	return b
}

// wish is where a Service says which addresses it wants.
func (b balancer) wish() string {
	if b.byField {
		return "spec.loadBalancerIP"
	}
	return "annotation " + v1alpha1.AddressesAnnotation
}

// has says whether a Service has a family.
func (b balancer) has(ipv4 bool) bool {
	family := "6"
	if ipv4 {
		family = "4"
	}
	return strings.Contains(b.families, family)
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// addrsOf reads addresses that commas separate.
func addrsOf(text string) (list []netip.Addr) {
	for word := range strings.SplitSeq(text, ",") {
		if addr, err := netip.ParseAddr(strings.TrimSpace(word)); err == nil {
			list = append(list, addr)
		}
	}
	return list
}
