package objects

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/endpointslice"
)

// EndpointSlice is an EndpointSlice.
type EndpointSlice struct {
	metav1.ObjectMeta
	Service   string // the Service's name
	Ignored   bool
	IPv6      bool
	Ports     []ServicePort // port is the endpoints', which is why it differs by slice
	Endpoints []Endpoint
	Bad       []badAddress
	BadPorts  []string
}

type Endpoint struct {
	Addr                        netip.Addr
	Node                        string
	Ready, Serving, Terminating bool
	Zones, Nodes                Hints
	Pod                         types.UID // of endpoints where DNS is spoken
}

// badAddress is an endpoint's address that cannot be served.
type badAddress struct {
	index int
	text  string
	why   string
}

func (b badAddress) String() string {
	return fmt.Sprintf("endpoints[%d] address %q: %s", b.index, Quoted(b.text), strings.TrimSpace(b.why))
}

func TrimSlice(o *discoveryv1.EndpointSlice) *EndpointSlice {
	s := &EndpointSlice{
		ObjectMeta: trimMeta(&o.ObjectMeta),
		Service:    Interned(o.Labels[discoveryv1.LabelServiceName]),
		IPv6:       o.AddressType == discoveryv1.AddressTypeIPv6,
		Ignored:    contract.Unserved(o.Labels) || o.AddressType == discoveryv1.AddressTypeFQDN,
	}
	if s.Ignored || s.Service == "" {
		s.Ignored = true
		return s
	}
	for i := range o.Ports {
		p := &o.Ports[i]
		kind, ok := protocolOf(Deref(p.Protocol, corev1.ProtocolTCP))
		if !ok || p.Port == nil { // a slice without a port number means "any port": no Service port can be mapped to it
			continue
		}
		number, why := endpointslice.ParsePort(*p.Port)
		if why != "" {
			s.BadPorts = append(s.BadPorts, fmt.Sprintf("ports[%d] port %d: %s", i, *p.Port, why))
			continue
		}
		s.Ports = append(s.Ports, ServicePort{Interned(Deref(p.Name, "")), kind, number})
	}
	s.Endpoints = make([]Endpoint, 0, len(o.Endpoints))
	for i := range o.Endpoints {
		s.addEndpoint(i, &o.Endpoints[i])
	}
	return s
}

// addEndpoint takes an endpoint's first address: the others mean the same endpoint, and the API says
// that consumers need not look at them.
func (s *EndpointSlice) addEndpoint(index int, e *discoveryv1.Endpoint) {
	if len(e.Addresses) == 0 {
		s.Bad = append(s.Bad, badAddress{index, "", "the endpoint has no address"})
		return
	}
	addr, why := endpointslice.ParseAddr(e.Addresses[0], s.IPv6)
	if why != "" {
		s.Bad = append(s.Bad, badAddress{index, e.Addresses[0], why})
		return
	}
	c := endpointslice.ReadConditions(e.Conditions)
	s.Endpoints = append(s.Endpoints, Endpoint{
		Addr: addr, Node: Interned(Deref(e.NodeName, "")), Ready: c.Ready, Serving: c.Serving,
		Terminating: c.Terminating,
		Zones:       zoneHints(e.Hints), Nodes: nodeHints(e.Hints),
	})
	if of := e.TargetRef; of != nil && of.Kind == "Pod" && s.speaksDNS() {
		s.Endpoints[len(s.Endpoints)-1].Pod = of.UID
	}
}

// speaksDNS: of the endpoints of other Services nobody asks which pods they are.
func (s *EndpointSlice) speaksDNS() bool {
	return slices.ContainsFunc(s.Ports, func(p ServicePort) bool { return contract.DNSPort(p.Name, p.Port) })
}

func (s *EndpointSlice) equal(o *EndpointSlice) bool {
	return s.UID == o.UID && s.Ignored == o.Ignored && s.Service == o.Service && s.IPv6 == o.IPv6 &&
		slices.Equal(s.Ports, o.Ports) && slices.Equal(s.Endpoints, o.Endpoints) &&
		slices.Equal(s.Bad, o.Bad) && slices.Equal(s.BadPorts, o.BadPorts)
}

// Look is an [endpointslice.Look].
func (e *Endpoint) Look() (addr netip.Addr, node string, c endpointslice.Conditions) {
	return e.Addr, e.Node, endpointslice.Conditions{Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating}
}

// Hints are the names of the zones, or of the nodes, that an endpoint is for: sorted, each with a comma
// behind it, which no name has. "" is no hint. As text they can be compared, and endpoints with them.
type Hints string

func zoneHints(h *discoveryv1.EndpointHints) Hints {
	if h == nil {
		return ""
	}
	names := make([]string, len(h.ForZones))
	for i, zone := range h.ForZones {
		names[i] = zone.Name
	}
	return NewHints(names)
}

func nodeHints(h *discoveryv1.EndpointHints) Hints {
	if h == nil {
		return ""
	}
	names := make([]string, len(h.ForNodes))
	for i, node := range h.ForNodes {
		names[i] = node.Name
	}
	return NewHints(names)
}

func NewHints(names []string) Hints {
	slices.Sort(names)
	var text strings.Builder
	for _, name := range slices.Compact(names) {
		if name != "" {
			text.WriteString(name)
			text.WriteByte(',')
		}
	}
	return Hints(Interned(text.String()))
}

func (h Hints) Has(name string) bool {
	for one := range h.Each {
		if one == name {
			return true
		}
	}
	return false
}

// Each yields the names.
func (h Hints) Each(yield func(string) bool) {
	for rest := string(h); rest != ""; {
		var one string
		if one, rest, _ = strings.Cut(rest, ","); !yield(one) {
			return
		}
	}
}
