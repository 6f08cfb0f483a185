package ovn

import (
	"github.com/weftnet/weft/ovn/capability"
	"github.com/weftnet/weft/ovsdb"
)

// serviceChange is a Service's load balancers: of each protocol and sort of frontend one for all nodes
// whose clients see the same endpoints behind it.
func serviceChange(s *service, from []*slice, nodes *nodeSet) ovsdb.Change {
	change, _ := sized(s, from, nodes)
	return change
}

// serviceRows are those rows with so many endpoints of each port at most.
func serviceRows(s *service, from []*slice, nodes *nodeSet, most int) *rows {
	r := newRows(serviceOwner(key(s.Namespace, s.Name)))
	if s.ignored {
		return r
	}
	for _, kind := range []protocol{"tcp", "udp", "sctp"} {
		list := frontends(s, kind, from, nodes, most)
		for i := range list {
			r.serve(s, &list[i], nodes)
		}
		if s.clientIP {
			r.confirm(s, kind, list, nodes)
		}
	}
	r.admit(s)
	return r
}

// addressProblems are a Service's own addresses that nobody can read.
func addressProblems(s *service) []problem {
	if len(s.unreadable) == 0 {
		return nil
	}
	return []problem{problemf("Service", &s.ObjectMeta, "BadAddress",
		"%d of its addresses cannot be read and are left out, first %s; the others are served; correct or remove them", len(s.unreadable), s.unreadable[0])}
}

// sliceProblems are the slices with addresses or ports that nobody can use: one of each a slice, which may have a
// thousand of them.
func sliceProblems(s *service, from []*slice) []problem {
	var found []problem
	for _, sl := range from {
		if len(sl.bad) > 0 {
			found = append(found, problemf("Service", &s.ObjectMeta, "BadEndpointAddress",
				"EndpointSlice %s: %d of %d addresses cannot be used, first %s; they are left out and the other endpoints are served; correct or remove them in the slice",
				sl.Name, len(sl.bad), len(sl.bad)+len(sl.endpoints), sl.bad[0]))
		}
		if len(sl.badPorts) > 0 {
			found = append(found, problemf("Service", &s.ObjectMeta, "BadEndpointPort",
				"EndpointSlice %s: %d of %d ports cannot be used, first %s; they are left out and the others are served; correct or remove them in the slice",
				sl.Name, len(sl.badPorts), len(sl.badPorts)+len(sl.ports), sl.badPorts[0]))
		}
	}
	return found
}

// datapathProblems are what a Service's owner is told was left out for Windows nodes.
func datapathProblems(s *service, nodes *nodeSet) []problem {
	if len(nodes.windows) == 0 || !s.uses("sctp") {
		return nil
	}
	return []problem{limitf("Service", &s.ObjectMeta, "NoSCTPOnWindows",
		"spec.ports: those of SCTP are not served on Windows nodes, and SCTP endpoints there are left out everywhere: Open vSwitch on Windows lacks %s; run clients and endpoints on Linux nodes (nodeSelector kubernetes.io/os: linux)",
		capability.TrackedProtocols.Feature)}
}
