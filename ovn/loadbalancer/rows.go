package loadbalancer

import (
	"slices"

	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// serviceRows are the load balancers of a Service: of each protocol and sort of frontend one for all nodes whose
// clients see the same endpoints behind it, with so many endpoints of each port at most.
func serviceRows(s *objects.Service, from []*objects.EndpointSlice, nodes *Nodes, most int) *rows {
	r := newRows(northbound.ServiceOwner(objects.FullName(s.Namespace, s.Name)))
	if s.Ignored {
		return r
	}
	for _, kind := range []objects.Protocol{"tcp", "udp", "sctp"} {
		list := frontends(s, kind, from, nodes, most)
		for i := range list {
			r.serve(s, &list[i], nodes)
		}
		if s.ClientIP {
			r.affinityBalancers(s, kind, list, nodes)
		}
	}
	r.sourceRangeACLs(s)
	return r
}

// rows are those of one Service.
type rows struct {
	*northbound.Builder
	// endpoints are those of the load balancers, an address without any as one. Rows that are too large with them are
	// not all made: see [Rows].
	endpoints int
}

func newRows(owner ovsdb.Owner) *rows { return &rows{Builder: northbound.NewBuilder(owner)} }

// Problems are what the owner of a Service is told of its rows, which serve so much of it.
func Problems(s *objects.Service, from []*objects.EndpointSlice, to Size, nodes *Nodes) []objects.Problem {
	return slices.Concat(AddressProblems(s), sizeProblems(s, from, to), sliceProblems(s, from),
		tunnelProblems(s, from, nodes), datapathProblems(s, nodes), affinityProblems(s), sourceProblems(s),
		objects.UnservedProblems(objects.ServiceKind, &s.ObjectMeta, s.Asked))
}

// AddressProblems are a Service's own addresses that nobody can read.
func AddressProblems(s *objects.Service) []objects.Problem {
	if len(s.Unreadable) == 0 {
		return nil
	}
	return []objects.Problem{objects.Problemf(objects.ServiceKind, &s.ObjectMeta, badAddress,
		"%d of its addresses cannot be read and are left out, first %s; the others are served; correct or remove them",
		len(s.Unreadable), s.Unreadable[0])}
}

// sliceProblems are the slices with addresses or ports that nobody can use: one of each a slice, which may have a
// thousand of them.
func sliceProblems(s *objects.Service, from []*objects.EndpointSlice) []objects.Problem {
	var found []objects.Problem
	for _, sl := range from {
		if len(sl.Bad) > 0 {
			found = append(found, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, badEndpointAddress,
				"EndpointSlice %s: %d of %d addresses cannot be used, first %s; they are left out and the other endpoints are "+
					"served; correct or remove them in the slice",
				sl.Name, len(sl.Bad), len(sl.Bad)+len(sl.Endpoints), sl.Bad[0]))
		}
		if len(sl.BadPorts) > 0 {
			found = append(found, objects.Problemf(objects.ServiceKind, &s.ObjectMeta, badEndpointPort,
				"EndpointSlice %s: %d of %d ports cannot be used, first %s; they are left out and the others are served; correct "+
					"or remove them in the slice",
				sl.Name, len(sl.BadPorts), len(sl.BadPorts)+len(sl.Ports), sl.BadPorts[0]))
		}
	}
	return found
}

// datapathProblems are what a Service's owner is told was left out for Windows nodes.
func datapathProblems(s *objects.Service, nodes *Nodes) []objects.Problem {
	if len(nodes.Windows) == 0 || !s.Uses("sctp") {
		return nil
	}
	return []objects.Problem{objects.Limitf(objects.ServiceKind, &s.ObjectMeta, noSCTPOnWindows,
		"spec.ports: those of SCTP are not served on Windows nodes, and SCTP endpoints there are left out everywhere: Open "+
			"vSwitch on Windows lacks %s; run clients and endpoints on Linux nodes (nodeSelector kubernetes.io/os: linux)",
		capability.TrackedProtocols.Feature)}
}
