package v1alpha1

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ParseTraceEnd reads an end of a connection as users write it: [NAMESPACE/]POD, pod/NAMESPACE/NAME,
// svc/[NAMESPACE/]NAME, node/NAME, an address, or a name outside. An address has no slash, and neither has a name
// outside, which has a dot: both are ends of kind Address. What is named without a namespace is in the given one.
func ParseTraceEnd(text, namespace string) (e TraceEnd, err error) {
	words := strings.Split(text, "/")
	if _, err := netip.ParseAddr(text); err == nil || len(words) == 1 && strings.Contains(text, ".") {
		return TraceEnd{Kind: AddressEnd, Name: text}, nil
	}
	e = TraceEnd{Kind: PodEnd, Namespace: namespace, Name: words[len(words)-1]}
	first := words[0]
	switch {
	case len(words) == 2 && first == "node":
		e.Kind, e.Namespace = NodeEnd, ""
	case len(words) > 1 && len(words) < 4 && slices.Contains([]string{"svc", "service", "services"}, first):
		e.Kind = ServiceEnd
		words = words[1:]
	case len(words) == 3 && first == "pod":
		words = words[1:]
	}
	if e.Kind != NodeEnd && len(words) == 2 {
		e.Namespace = words[0]
	}
	if len(words) > 2 || slices.Contains(words, "") {
		return e, fmt.Errorf("%q is neither a pod, as [NAMESPACE/]NAME, nor svc/[NAMESPACE/]NAME, nor node/NAME, nor an "+
			"address, nor a name with a dot", text)
	}
	return e, nil
}
