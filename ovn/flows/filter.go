package flows

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// Filter says which flows are asked for: those that fit all of its conditions.
type Filter struct {
	conditions []condition
	// fromOwnNode is what flows are asked for to be of [FromOwnNode]; nil for either.
	fromOwnNode *bool
}

// condition is one of a filter.
type condition struct {
	fits func(*api.Flow) bool
	on   end // what it names; without a kind if that is no end
}

// Fits says whether a flow is asked for.
// [Filter.LeavesOut] is another question.
func (f Filter) Fits(flow *api.Flow) bool {
	return !slices.ContainsFunc(f.conditions, func(c condition) bool { return !c.fits(flow) })
}

// LeavesOut says whether a flow is not asked for since its pod's own node has begun it, or another end. It is asked of
// the whole flow, also where a user may not see its source: anyone who may see the pod may see its node's address.
func (f Filter) LeavesOut(whole *api.Flow) bool {
	return f.fromOwnNode != nil && *f.fromOwnNode != FromOwnNode(whole)
}

// FromOwnNode says whether the host of a pod's own node has begun a flow to it, as kubelet does for each probe.
func FromOwnNode(f *api.Flow) bool {
	return f.Source.Kind == api.NodeEnd && f.Destination.Kind == api.PodEnd && f.Source.Name == f.Destination.Node &&
		f.Service == nil
}

// Object is an object of Kubernetes that a filter names.
type Object struct {
	// Kind is [api.PodEnd], [api.ServiceEnd] or [api.NodeEnd].
	Kind string
	// Namespace is that of a pod or a Service; "" for any.
	Namespace, Name string
}

// Objects are those that the filter names. Whether they exist is not known here.
func (f Filter) Objects() (list []Object) {
	for _, c := range f.conditions {
		switch c.on.kind {
		case api.PodEnd, api.ServiceEnd, api.NodeEnd:
			list = append(list, Object{c.on.kind, c.on.namespace, c.on.name})
		}
	}
	return list
}

// conditions are those of each key of a field selector. namespace is the one that is asked for, "" for all.
var conditions = map[string]func(value, namespace string) (condition, error){
	api.NodeSelector: func(value, _ string) (condition, error) {
		node := end{kind: api.NodeEnd, name: value}
		return condition{func(f *api.Flow) bool { return isOn(f, value) }, node}, checkName(value)
	},
	api.PodSelector: func(value, namespace string) (condition, error) {
		pod := end{kind: api.PodEnd, namespace: namespace, name: value}
		return condition{func(f *api.Flow) bool { return pod.is(&f.Source) || pod.is(&f.Destination) }, pod}, checkName(value)
	},
	api.ServiceSelector: func(value, namespace string) (condition, error) {
		service := end{kind: api.ServiceEnd, namespace: namespace, name: value}
		return condition{func(f *api.Flow) bool { return service.isService(f.Service) }, service}, checkName(value)
	},
	api.SourceSelector: func(value, namespace string) (condition, error) {
		source, err := parseEnd(value, namespace)
		if err == nil && source.kind == api.ServiceEnd {
			err = fmt.Errorf("%q is a Service, which begins no connections; name a pod", value)
		}
		return condition{func(f *api.Flow) bool { return source.is(&f.Source) }, source}, err
	},
	api.DestinationSelector: func(value, namespace string) (condition, error) {
		destination, err := parseEnd(value, namespace)
		return condition{func(f *api.Flow) bool {
			return destination.is(&f.Destination) || destination.isService(f.Service)
		}, destination}, err
	},
	api.ProtocolSelector: func(value, _ string) (condition, error) {
		c := condition{fits: func(f *api.Flow) bool { return strings.EqualFold(f.Protocol, value) }}
		if _, err := strconv.ParseUint(value, 10, 8); err == nil || isAmong(protocols, value) {
			return c, nil
		}
		return c, fmt.Errorf("%q is no protocol: give one of %s, or the number of another one", value,
			strings.Join(protocols, ", "))
	},
	api.StateSelector: func(value, _ string) (condition, error) {
		c := condition{fits: func(f *api.Flow) bool { return strings.EqualFold(f.State, value) }}
		if isAmong(stages, value) {
			return c, nil
		}
		return c, fmt.Errorf("%q is no state of a TCP or SCTP connection: give one of %s", value, strings.Join(stages, ", "))
	},
}

// checkName refuses what no pod, Service or node can be called.
func checkName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("%q is no name: give the name alone, such as web-0; its namespace is that of the question", name)
	}
	return nil
}

// protocols are those that Open vSwitch has a name for (ct_dpif_format_ipproto in lib/ct-dpif.c).
var protocols = []string{"TCP", "UDP", "SCTP", "ICMP", "ICMPV6", "UDPLITE", "DCCP", "IGMP"}

func isAmong(words []string, word string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// ParseFilter reads a field selector of flows of a namespace, "" being all.
func ParseFilter(text, namespace string) (filter Filter, err error) {
	selector, err := fields.ParseSelector(text)
	if err != nil {
		return filter, fmt.Errorf("fieldSelector: %w; give KEY=VALUE, with commas between several", err)
	}
	for _, r := range selector.Requirements() {
		parse, known := conditions[r.Field]
		own := r.Field == api.FromOwnNodeSelector
		if !known && !own || r.Operator != selection.Equals && r.Operator != selection.DoubleEquals || r.Value == "" {
			return filter, fmt.Errorf("fieldSelector: %s%s%q is not served: give KEY=VALUE with one of the keys %s", r.Field,
				r.Operator, r.Value, strings.Join(keys(), ", "))
		}
		if own {
			wanted, err := strconv.ParseBool(r.Value)
			if err != nil {
				return filter, fmt.Errorf("fieldSelector: %s: %q is neither true nor false", r.Field, r.Value)
			}
			filter.fromOwnNode = &wanted
			continue
		}
		condition, err := parse(r.Value, namespace)
		if err != nil {
			return filter, fmt.Errorf("fieldSelector: %s: %w", r.Field, err)
		}
		filter.conditions = append(filter.conditions, condition)
	}
	return filter, nil
}

func keys() (list []string) {
	list = slices.AppendSeq([]string{api.FromOwnNodeSelector}, maps.Keys(conditions))
	slices.Sort(list)
	return list
}

// isOn says whether a flow has an end on a node, or whether the node has told of it.
func isOn(f *api.Flow, node string) bool {
	on := func(e *api.FlowEnd) bool { return e.Node == node || e.Kind == api.NodeEnd && e.Name == node }
	return on(&f.Source) || on(&f.Destination) || slices.Contains(f.Nodes, node)
}

// end is one that is asked for.
type end struct {
	kind            string
	namespace, name string // namespace is "" for any
	prefix          netip.Prefix
}

// parseEnd reads [NAMESPACE/]POD, svc/[NAMESPACE/]NAME, node/NAME, outside, an address or a CIDR.
func parseEnd(text, namespace string) (end, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return end{kind: api.AddressEnd, prefix: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return end{kind: api.AddressEnd, prefix: prefix.Masked()}, nil
	}
	words := strings.Split(text, "/")
	e := end{kind: api.PodEnd, namespace: namespace, name: words[len(words)-1]}
	switch {
	case text == "outside":
		return end{kind: api.OutsideEnd}, nil
	case len(words) == 2 && words[0] == "node":
		e, words = end{kind: api.NodeEnd, name: e.name}, words[1:]
	case len(words) > 1 && words[0] == "svc":
		e.kind, words = api.ServiceEnd, words[1:]
	}
	if len(words) == 2 {
		e.namespace = words[0]
	}
	if len(words) > 2 || slices.ContainsFunc(words, func(name string) bool { return checkName(name) != nil }) {
		return end{}, fmt.Errorf("%q is neither a pod, as [NAMESPACE/]NAME, nor svc/[NAMESPACE/]NAME, nor node/NAME, nor "+
			"outside, nor an address, nor a CIDR", text)
	}
	return e, nil
}

// is says whether an end of a flow is meant.
func (e end) is(at *api.FlowEnd) bool {
	if e.kind == api.AddressEnd {
		return e.holds(at.Address)
	}
	return e.kind == at.Kind && (e.name == "" || e.name == at.Name) && (e.namespace == "" || e.namespace == at.Namespace)
}

// isService says whether what a source has asked is meant.
func (e end) isService(s *api.FlowService) bool {
	switch {
	case s == nil:
		return false
	case e.kind == api.AddressEnd:
		return e.holds(s.Address)
	}
	return e.kind == api.ServiceEnd && e.name == s.Name && (e.namespace == "" || e.namespace == s.Namespace)
}

func (e end) holds(address string) bool {
	addr, err := netip.ParseAddr(address)
	return err == nil && e.prefix.Contains(addr)
}
