package ovn

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// hints are the names of the zones, or of the nodes, that an endpoint is for: sorted, each with a comma
// behind it, which no name has. "" is no hint. As text they can be compared, and endpoints with them.
type hints string

func zoneHints(h *discoveryv1.EndpointHints) hints {
	if h == nil {
		return ""
	}
	names := make([]string, len(h.ForZones))
	for i, zone := range h.ForZones {
		names[i] = zone.Name
	}
	return newHints(names)
}

func nodeHints(h *discoveryv1.EndpointHints) hints {
	if h == nil {
		return ""
	}
	names := make([]string, len(h.ForNodes))
	for i, node := range h.ForNodes {
		names[i] = node.Name
	}
	return newHints(names)
}

func newHints(names []string) hints {
	slices.Sort(names)
	var text strings.Builder
	for _, name := range slices.Compact(names) {
		if name != "" {
			text.WriteString(name)
			text.WriteByte(',')
		}
	}
	return hints(shared(text.String()))
}

func (h hints) has(name string) bool {
	for one := range h.each {
		if one == name {
			return true
		}
	}
	return false
}

// each yields the names.
func (h hints) each(yield func(string) bool) {
	for rest := string(h); rest != ""; {
		var one string
		if one, rest, _ = strings.Cut(rest, ","); !yield(one) {
			return
		}
	}
}
