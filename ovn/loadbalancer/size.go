package loadbalancer

import (
	"fmt"

	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// Size is how much of a Service is served, so that it costs each node, and the databases, no more than so much.
type Size struct {
	Endpoints int // of each port
	Ports     int
}

// SizeOf is what a node can bear of a Service: the more addresses and ports it has, the fewer endpoints of each port.
func SizeOf(s *objects.Service, from []*objects.EndpointSlice) Size {
	all := 0
	for _, sl := range from {
		all += len(sl.Endpoints)
	}
	most := outside.Backends(len(s.ClusterIPs), len(s.ExternalIPs)+len(s.Ingress), len(s.Ports), len(s.NodePorts) > 0)
	return Size{Endpoints: min(most, max(1, all)), Ports: len(s.Ports)}
}

// Rows are a Service's rows, and how much of it they serve: of one of which each node has rows of its own that may
// be less than what a node can bear. It is tried out, since what a row has depends on hints and on where the
// endpoints are. A try ends where it has too much.
func Rows(s *objects.Service, from []*objects.EndpointSlice, nodes *Nodes) (ovsdb.Change, Size) {
	to := SizeOf(s, from)
	for {
		r := serviceRows(s.First(to.Ports), from, nodes, to.Endpoints)
		switch {
		case !r.tooLarge() || to == (Size{1, 1}):
			return r.Change, to
		case to.Endpoints > 1:
			to.Endpoints /= 2
		default:
			to.Ports /= 2
		}
	}
}

// tooLarge says whether a Service's rows have more endpoints than the databases are given of one.
func (r *rows) tooLarge() bool { return r.endpoints > outside.MostWritten }

// ownRows are the fields by which nodes or zones have rows of their own of a Service.
const ownRows = "sessionAffinity ClientIP with NodePorts, hints for nodes or zones (trafficDistribution), endpoints " +
	"that are nodes' own addresses, externalTrafficPolicy and internalTrafficPolicy Local"

// sizeProblems are what is left out of a Service that would cost all nodes too much.
func sizeProblems(s *objects.Service, from []*objects.EndpointSlice, to Size) []objects.Problem {
	found := objects.NewComplaints(objects.ServiceKind, &s.ObjectMeta)
	if s.PortsLeft > 0 {
		found.Add(tooManyServicePorts, func() string {
			return fmt.Sprintf("spec.ports: %d are not served, since a Service has at most %d; make several Services of it",
				s.PortsLeft, outside.Most)
		})
	}
	if s.RangesLeft > 0 {
		found.Add(tooManySourceRanges, func() string {
			return fmt.Sprintf("spec.loadBalancerSourceRanges: %d admit nobody, since a Service has at most %d; "+
				"give wider ranges", s.RangesLeft, outside.Most)
		})
	}
	if left := len(s.Ports) - to.Ports; left > 0 {
		found.Add(tooManyServicePorts, func() string {
			return fmt.Sprintf("spec.ports: the last %d are not served: nodes or zones have rows of their own, and all rows "+
				"have at most %d endpoints; do without %s, or make several Services of it", left, outside.MostWritten, ownRows)
		})
	}
	all := 0
	for _, sl := range from {
		all += len(sl.Endpoints)
	}
	if all <= to.Endpoints {
		return found.Problems()
	}
	why := fmt.Sprintf("the addresses and ports of a Service have at most %d together; make several Services of it",
		outside.MostBackends)
	if to.Endpoints < SizeOf(s, from).Endpoints {
		why = fmt.Sprintf("nodes or zones have rows of their own of the Service, and all its rows have at most %d together; "+
			"do without %s, or make several Services of it", outside.MostWritten, ownRows)
	}
	behind := behindService(from)
	for _, port := range s.Ports {
		for _, ipv6 := range []bool{false, true} {
			// how many more costs as many looks
			if len(behind.First(keyOfEndpoints(port, ipv6), to.Endpoints+1, nil)) > to.Endpoints {
				found.Add(tooManyEndpoints, func() string {
					return fmt.Sprintf("spec.ports: %s %d has more endpoints than the %d that are served: %s",
						port.Protocol, port.Port, to.Endpoints, why)
				})
			}
		}
	}
	return found.Problems()
}
