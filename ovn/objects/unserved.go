package objects

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/reasons"
)

// unservedAnnotation is something that users ask for by an annotation of Kubernetes', of kube-proxy's or of another
// network's, and that weft does not do.
type unservedAnnotation struct {
	Kind       string // of the object that has it
	Annotation string
	// Value is the one that asks for something; "" is any.
	Value  string
	Reason *reasons.Event
	Effect string
	Remedy string
}

// The kinds that users ask such things of.
const podKind, serviceKind = "Pod", "Service"

// Remedies of several.
const (
	anyAddress = "weft gives the pod any free address of its node's pod subnet, and a MAC address made of it"
	byName     = "remove the annotation; reach the pod by a Service or by a StatefulSet's names; name it in policies by " +
		"its labels; if hosts outside must see a fixed address of it, give it an EgressIP"
	noBandwidth  = "the pod's bandwidth is not bounded"
	boundInside  = "remove the annotation; bound the rate in the application, or on the network outside"
	oneNetwork   = "weft attaches the pod to its own network alone"
	noOtherPlace = "remove the annotation, unless a meta plugin such as Multus calls weft and serves the annotation"
)

// UnservedAnnotations is the whole table, as the documentation shows it.
var UnservedAnnotations = []unservedAnnotation{
	{podKind, "kubernetes.io/ingress-bandwidth", "", bandwidthNotBounded, noBandwidth, boundInside},
	{podKind, "kubernetes.io/egress-bandwidth", "", bandwidthNotBounded, noBandwidth, boundInside},
	{podKind, "ovn.kubernetes.io/ingress_rate", "", bandwidthNotBounded, noBandwidth, boundInside},
	{podKind, "ovn.kubernetes.io/egress_rate", "", bandwidthNotBounded, noBandwidth, boundInside},
	{podKind, "k8s.v1.cni.cncf.io/networks", "", networkNotServed, oneNetwork, noOtherPlace},
	{podKind, "v1.multus-cni.io/default-network", "", networkNotServed, oneNetwork, noOtherPlace},
	{podKind, "ovn.kubernetes.io/logical_switch", "", networkNotServed, oneNetwork, noOtherPlace},
	{podKind, "ovn.kubernetes.io/ip_address", "", addressNotServed, anyAddress, byName},
	{podKind, "ovn.kubernetes.io/ip_pool", "", addressNotServed, anyAddress, byName},
	{podKind, "ovn.kubernetes.io/mac_address", "", addressNotServed, anyAddress, byName},
	{podKind, "cni.projectcalico.org/ipAddrs", "", addressNotServed, anyAddress, byName},
	{podKind, "cni.projectcalico.org/ipAddrsNoIpam", "", addressNotServed, anyAddress, byName},
	{podKind, "cni.projectcalico.org/ipv4pools", "", addressNotServed, anyAddress, byName},
	{podKind, "cni.projectcalico.org/ipv6pools", "", addressNotServed, anyAddress, byName},
	{podKind, "cni.projectcalico.org/floatingIPs", "", addressNotServed, anyAddress, byName},
	{podKind, "cni.projectcalico.org/hwAddr", "", addressNotServed, anyAddress, byName},
	{podKind, "ipam.cilium.io/ip-pool", "", addressNotServed, anyAddress, byName},
	{serviceKind, "preserve-destination", "true", destinationNotPreserved,
		"endpoints on Windows nodes get packets with their own address and port as destination, not the Service's",
		"remove the annotation; have the server listen at the pod's address and the target port"},
}

// Unserved are the lines of the table that an object's annotations ask for, as a set of bits.
type Unserved uint32

// trimUnserved notes what an object asks for in vain. Almost none does.
func trimUnserved(kind string, annotations map[string]string) (found Unserved) {
	for i, u := range UnservedAnnotations {
		if text := strings.TrimSpace(annotations[u.Annotation]); u.Kind == kind && text != "" &&
			(u.Value == "" || text == u.Value) {
			found |= 1 << i
		}
	}
	return found
}

// UnservedProblems are what an object's owner is told, one Event for each reason: with the words of the first line that
// is asked for.
func UnservedProblems(kind *Kind, meta *metav1.ObjectMeta, found Unserved) (told []Problem) {
	keys := map[*reasons.Event][]string{}
	for i, u := range UnservedAnnotations {
		if found&(1<<i) != 0 {
			keys[u.Reason] = append(keys[u.Reason], u.Annotation)
		}
	}
	for i, u := range UnservedAnnotations {
		if list := keys[u.Reason]; found&(1<<i) != 0 && len(list) > 0 {
			told = append(told, Limitf(kind, meta, u.Reason, "%s: %s; %s", annotationWords(list), u.Effect, u.Remedy))
			delete(keys, u.Reason)
		}
	}
	return told
}

func annotationWords(keys []string) string {
	word := "annotation"
	if len(keys) > 1 {
		word = "annotations"
	}
	return fmt.Sprintf("weft does not serve %s %s", word, strings.Join(keys, ", "))
}
