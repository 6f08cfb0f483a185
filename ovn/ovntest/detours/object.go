package detours

import (
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
)

// APIDetour is a Detour as the API server has it. The type and the resource of a real kind are in models/api/v1alpha1.
type APIDetour struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		// Prefix is that of the packets' destinations.
		Prefix string `json:"prefix"`
		// NextHop is a router in the network of nodes' gateways.
		NextHop string `json:"nextHop"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitempty"`
}

// Kind is a Detour's.
var Kind = objects.NewKind("Detour", v1alpha1.GroupVersion.WithResource("detours"), objects.FromUnstructured(trim),
	(*Detour).equal)

// Detour is what is kept of a Detour.
type Detour struct {
	objects.Custom // what it is called, its generation and its status
	Prefix         netip.Prefix
	NextHop        netip.Addr
}

// trim sets Wrong where the object cannot be used.
func trim(u *unstructured.Unstructured, o *APIDetour, err error) *Detour {
	d := &Detour{Custom: objects.NewCustom(u, o.Status.Conditions, err)}
	if d.Wrong == "" { // it could be read whole
		d.Wrong = d.parse(o)
	}
	return d
}

// parse reads a spec. It returns the mistake in it, with its field and a remedy.
func (d *Detour) parse(o *APIDetour) (wrong string) {
	var err error
	if d.Prefix, err = netip.ParsePrefix(o.Spec.Prefix); err != nil || d.Prefix != d.Prefix.Masked() {
		return fmt.Sprintf("spec.prefix: %q is no prefix; write it like 198.51.100.0/24", objects.Quoted(o.Spec.Prefix))
	}
	if d.NextHop, err = netip.ParseAddr(o.Spec.NextHop); err != nil || d.NextHop.Is4() != d.Prefix.Addr().Is4() {
		return fmt.Sprintf("spec.nextHop: %q is no IP address of the family of spec.prefix; write it like 203.0.113.9",
			objects.Quoted(o.Spec.NextHop))
	}
	return ""
}

// equal compares statuses, too: so the part corrects a status that another writer has changed.
func (d *Detour) equal(o *Detour) bool { return d.AsksTheSame(&o.Custom) && d.Status == o.Status }
