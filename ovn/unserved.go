package ovn

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unserved is something that users ask for by an annotation of Kubernetes', of kube-proxy's or of another
// network's, and that weft does not do.
type unserved struct {
	kind       string // of the object that has it
	annotation string
	// value is the one that asks for something; "" is any.
	value  string
	reason string // of the Event
	effect string
	remedy string
}

// Remedies of several.
const (
	anyAddress   = "a pod has whatever address of its node's pod subnet is free"
	byName       = "remove the annotation; find the pod by a Service, a StatefulSet's names or its labels, and give it an EgressIP where its address counts outside"
	noBandwidth  = "the pod's bandwidth is not bounded"
	boundInside  = "remove the annotation; bound the rate in the application, or on the network outside"
	oneNetwork   = "weft attaches the pod to its own network alone"
	noOtherPlace = "remove the annotation; where a meta plugin as Multus calls weft it serves the annotation itself, and nothing is to be done"
)

// unservedAnnotations is the whole table, as the documentation shows it.
var unservedAnnotations = []unserved{
	{"Pod", "kubernetes.io/ingress-bandwidth", "", "BandwidthNotBounded", noBandwidth, boundInside},
	{"Pod", "kubernetes.io/egress-bandwidth", "", "BandwidthNotBounded", noBandwidth, boundInside},
	{"Pod", "ovn.kubernetes.io/ingress_rate", "", "BandwidthNotBounded", noBandwidth, boundInside},
	{"Pod", "ovn.kubernetes.io/egress_rate", "", "BandwidthNotBounded", noBandwidth, boundInside},
	{"Pod", "k8s.v1.cni.cncf.io/networks", "", "NetworkNotServed", oneNetwork, noOtherPlace},
	{"Pod", "v1.multus-cni.io/default-network", "", "NetworkNotServed", oneNetwork, noOtherPlace},
	{"Pod", "ovn.kubernetes.io/logical_switch", "", "NetworkNotServed", oneNetwork, noOtherPlace},
	{"Pod", "ovn.kubernetes.io/ip_address", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "ovn.kubernetes.io/ip_pool", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "ovn.kubernetes.io/mac_address", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "cni.projectcalico.org/ipAddrs", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "cni.projectcalico.org/ipAddrsNoIpam", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "cni.projectcalico.org/ipv4pools", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "cni.projectcalico.org/ipv6pools", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "cni.projectcalico.org/floatingIPs", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "cni.projectcalico.org/hwAddr", "", "AddressNotServed", anyAddress, byName},
	{"Pod", "ipam.cilium.io/ip-pool", "", "AddressNotServed", anyAddress, byName},
	{"Service", "preserve-destination", "true", "DestinationNotPreserved",
		"endpoints on Windows nodes get packets with their own address and port as destination, not the Service's",
		"remove the annotation; have the server listen at the pod's address and the target port"},
}

// wishes are the lines of the table that an object's annotations ask for, as a set of bits.
type wishes uint32

// trimUnserved notes what an object asks for in vain. Almost none does.
func trimUnserved(kind string, annotations map[string]string) (found wishes) {
	for i, u := range unservedAnnotations {
		if text := strings.TrimSpace(annotations[u.annotation]); u.kind == kind && text != "" && (u.value == "" || text == u.value) {
			found |= 1 << i
		}
	}
	return found
}

// unservedProblems are what an object's owner is told, one Event a reason.
func unservedProblems(kind string, meta *metav1.ObjectMeta, found wishes) (told []problem) {
	keys := map[string][]string{}
	for i, u := range unservedAnnotations {
		if found&(1<<i) != 0 {
			keys[u.reason] = append(keys[u.reason], u.annotation)
		}
	}
	for _, u := range unservedAnnotations {
		if list := keys[u.reason]; len(list) > 0 {
			told = append(told, limitf(kind, meta, u.reason, "%s: %s; %s", annotationWords(list), u.effect, u.remedy))
			delete(keys, u.reason)
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
