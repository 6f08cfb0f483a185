package objects

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/api/v1alpha1"
)

// EgressIP is an EgressIP.
type EgressIP struct {
	Custom
	Addresses               []netip.Addr // at most one a family, IPv4 first
	Namespaces, Pods, Nodes labels.Selector
	Network                 string
}

// egressNodes is the selector of an EgressIP without one.
var egressNodes, _ = labels.Parse(v1alpha1.EgressLabel + "," + v1alpha1.EgressLabel + "!=false")

func trimEgressIP(u *unstructured.Unstructured, o *v1alpha1.EgressIP, err error) *EgressIP {
	e := &EgressIP{Custom: NewCustom(u, o.Status.Conditions, err), Network: o.Spec.Network}
	e.Namespaces = e.selector("namespaceSelector", &o.Spec.NamespaceSelector, nil)
	e.Pods = e.selector("podSelector", o.Spec.PodSelector, labels.Everything())
	e.Nodes = e.selector("nodeSelector", o.Spec.NodeSelector, egressNodes)
	e.complain(checkSpecNetwork(e.Network))
	e.Addresses, err = ParseOnePerFamily("spec.addresses", o.Spec.Addresses)
	e.complain(err)
	if len(o.Spec.Addresses) == 0 {
		e.complain(fmt.Errorf("spec.addresses: is empty; give one IPv4 or IPv6 address, or one of each"))
	}
	return e
}

func (e *EgressIP) equal(o *EgressIP) bool { return e.Custom.equal(&o.Custom) }
