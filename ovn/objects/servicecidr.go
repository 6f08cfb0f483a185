package objects

import (
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// ServiceCIDR is a ServiceCIDR. One that is being deleted holds until it is gone: Services have
// addresses of it.
type ServiceCIDR struct {
	metav1.ObjectMeta
	Ranges []netip.Prefix
	Bad    []string // what is wrong with other ranges of it
}

func (s *ServiceCIDR) equal(o *ServiceCIDR) bool {
	return s.UID == o.UID && slices.Equal(s.Ranges, o.Ranges) && slices.Equal(s.Bad, o.Bad)
}

func trimServiceCIDR(u *unstructured.Unstructured) *ServiceCIDR {
	var o networkingv1.ServiceCIDR
	s := &ServiceCIDR{}
	s.ObjectMeta = metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		CreationTimestamp: u.GetCreationTimestamp()}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		s.Bad = append(s.Bad, Quoted(err.Error()))
	}
	for _, text := range o.Spec.CIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			s.Bad = append(s.Bad, fmt.Sprintf("spec.cidrs: %q is not a CIDR, like 10.96.0.0/16 or fd00:10:96::/112",
				Quoted(text)))
			continue
		}
		s.Ranges = append(s.Ranges, p.Masked())
	}
	return s
}
