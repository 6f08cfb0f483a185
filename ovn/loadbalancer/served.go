package loadbalancer

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/ovn/objects"
)

// Served is an address and port of a Service, as clients have it at an attach point of a node.
type Served struct {
	At       string // as a load balancer has it, which may be with a variable of the node
	NodePort bool
	// Endpoints are one of which each connection gets. Without any, clients have no answer where it is silent, and are
	// refused otherwise.
	Endpoints []netip.AddrPort
	Silent    bool
}

// At are the addresses and ports of a protocol that a Service has for clients at an attach point of a node: by the code
// that makes its rows, with so many endpoints of each port.
func At(s *objects.Service, kind objects.Protocol, from []*objects.EndpointSlice, nodes *Nodes, endpoints int,
	at AttachPoint, node string) (list []Served) {
	for _, f := range frontends(s, kind, from, nodes, endpoints) {
		v := f.viewAt(s, at, node, nodes)
		for _, one := range v.vips {
			served := Served{At: one.at, NodePort: strings.HasPrefix(f.sort, "nodeport"),
				Silent: v.direct && !one.refused && len(one.backends) == 0}
			for _, to := range one.backends {
				served.Endpoints = append(served.Endpoints, to.at)
			}
			list = append(list, served)
		}
	}
	return list
}

// viewAt is what clients at an attach point of a node have of a frontend: nothing, where it is not.
func (f *frontend) viewAt(s *objects.Service, at AttachPoint, node string, nodes *Nodes) view {
	if !slices.Contains(f.places, at) || at == OnRouters && !slices.Contains(nodes.Gateways, node) ||
		f.owner != "" && f.owner != node || !classOf(f.protocol).has(nodes.isWindows(node)) {
		return view{}
	}
	return f.view(s, at, node, f.reaches(s), nodes)
}
