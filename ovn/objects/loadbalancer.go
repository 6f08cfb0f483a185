package objects

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
)

// LoadBalancer is what the allocator of load balancer addresses reads of a Service.
type LoadBalancer struct {
	Wanted    bool // type LoadBalancer; else ingress is what is left of a time when it was
	Class     string
	Addresses string // addresses that it asks for, separated by commas
	ByField   bool   // by spec.loadBalancerIP, else by the annotation
	Families  string // "4", "6", "4,6" or "6,4"
	Labels    LabelSet
	Local     bool   // externalTrafficPolicy: Local
	Ingress   string // the addresses in its status of mode VIP, separated by commas: no pool gives others
	Answered  bool   // somebody has written to its status where it is met, be it a name
}

func trimLoadBalancer(o *corev1.Service) LoadBalancer {
	b := LoadBalancer{Wanted: o.Spec.Type == corev1.ServiceTypeLoadBalancer}
	var ingress []string
	for _, i := range o.Status.LoadBalancer.Ingress {
		mode := Deref(i.IPMode, corev1.LoadBalancerIPModeVIP)
		if addr, err := netip.ParseAddr(i.IP); err == nil && mode == corev1.LoadBalancerIPModeVIP {
			ingress = append(ingress, addr.String())
		}
	}
	b.Ingress = strings.Join(ingress, ",")
	if !b.Wanted {
		return b
	}
	b.Class, b.Answered = Deref(o.Spec.LoadBalancerClass, ""), len(o.Status.LoadBalancer.Ingress) > 0
	asked := o.Annotations[v1alpha1.AddressesAnnotation]
	b.Addresses, b.ByField = Cut(cmp.Or(asked, o.Spec.LoadBalancerIP), maxQuoted), asked == ""
	b.Labels = NewLabelSet(o.Labels)
	b.Local = o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	var families []string
	for _, f := range o.Spec.IPFamilies {
		families = append(families, map[corev1.IPFamily]string{corev1.IPv4Protocol: "4", corev1.IPv6Protocol: "6"}[f])
	}
	b.Families = strings.Join(families, ",")
	return b
}

// Field is where a Service says which addresses it wants.
func (b LoadBalancer) Field() string {
	if b.ByField {
		return "spec.loadBalancerIP"
	}
	return "annotation " + v1alpha1.AddressesAnnotation
}

// Has says whether a Service has a family.
func (b LoadBalancer) Has(ipv4 bool) bool {
	family := "6"
	if ipv4 {
		family = "4"
	}
	return strings.Contains(b.Families, family)
}

func SplitAddrs(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// ParseAddrs reads addresses that commas separate.
func ParseAddrs(text string) (list []netip.Addr) {
	for word := range strings.SplitSeq(text, ",") {
		if addr, err := netip.ParseAddr(strings.TrimSpace(word)); err == nil {
			list = append(list, addr)
		}
	}
	return list
}
