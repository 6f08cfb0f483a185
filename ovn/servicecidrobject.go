package ovn

import (
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// serviceCIDRs is where the API server has the ranges that ClusterIPs come from. Before Kubernetes 1.33
// it has none, or not in this version: then there are only those of service-cidrs.
var serviceCIDRs = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")

// serviceCIDR is a ServiceCIDR. One that is being deleted holds until it is gone: Services have
// addresses of it.
type serviceCIDR struct {
	metav1.ObjectMeta
	ranges []netip.Prefix
	bad    []string // what is wrong with other ranges of it
}

func (s *serviceCIDR) equal(o *serviceCIDR) bool {
	return s.UID == o.UID && slices.Equal(s.ranges, o.ranges) && slices.Equal(s.bad, o.bad)
}

func trimServiceCIDR(u *unstructured.Unstructured) *serviceCIDR {
	var o networkingv1.ServiceCIDR
	s := &serviceCIDR{}
	s.ObjectMeta = metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp()}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		s.bad = append(s.bad, quoted(err.Error()))
	}
	for _, text := range o.Spec.CIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			s.bad = append(s.bad, fmt.Sprintf("spec.cidrs: %q is not a CIDR, like 10.96.0.0/16 or fd00:10:96::/112", quoted(text)))
			continue
		}
		s.ranges = append(s.ranges, p.Masked())
	}
	return s
}
