package hostservice

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/hostservice/listeners"
)

// Socket is where a host listens for what is not its own.
type Socket struct {
	Protocol string // "tcp" or "udp"
	At       netip.AddrPort
	// Owner is the Service or pod that has the port.
	Owner Object
	// To is where the connections go; of a Service with externalTrafficPolicy Local, those for which no endpoint is known.
	To netip.AddrPort
	// Endpoints are those to which the connections of such a Service are led, sorted.
	Endpoints []netip.Addr
}

// Rehearsal is an agent without a host: what it would decide with these objects.
type Rehearsal struct {
	Node    string // its name
	Host    Host
	Pods    []Pod
	Objects []runtime.Object // Services, Nodes and EndpointSlices
	// Listeners are the daemons of the host.
	Listeners contract.Listeners
}

// Outcome is what an agent does with OVN's and its host's ports.
type Outcome struct {
	Entries []extbridge.Entry // as [Watcher.Entries]
	Routes  []netip.Addr      // as [Watcher.Routes]
	Sockets []Socket          // sorted
}

// Run makes the plan.
func (r Rehearsal) Run() (Outcome, error) {
	s := state{host: r.Host, nodes: map[netip.Addr]struct{}{}, nodeHosts: map[netip.Addr]struct{}{},
		internal:   map[string][]netip.Addr{},
		apiServers: map[netip.AddrPort]bool{}, listening: map[netip.Addr][]contract.Listeners{},
		node: r.Node, endpoints: map[string][]*slice{}, daemons: listeners.Reported(r.Listeners)}
	for _, o := range r.Objects {
		if err := s.add(o); err != nil {
			return Outcome{}, err
		}
	}
	slices.SortFunc(s.services, older)
	s.pods = slices.SortedFunc(slices.Values(r.Pods), olderPod)
	p := makePlan(s)
	outcome := Outcome{Entries: p.entries, Routes: p.routes}
	for at, to := range p.sockets {
		if s.daemons.Has(at) { // as [proxy.Sockets.Apply] has it
			continue
		}
		one := Socket{Protocol: at.Protocol, At: at.At, Owner: p.holders[at].object, To: to.To}
		if to.Backends != nil {
			for _, b := range to.Backends.List {
				one.Endpoints = append(one.Endpoints, b.Endpoint)
			}
		}
		outcome.Sockets = append(outcome.Sockets, one)
	}
	slices.SortFunc(outcome.Sockets, func(a, b Socket) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), a.At.Compare(b.At))
	})
	return outcome, nil
}

func (s *state) add(o runtime.Object) error {
	switch o := o.(type) {
	case *corev1.Service:
		trimmed, err := trimService(o)
		if err != nil {
			return err
		}
		if one := trimmed.(*service); one.outside {
			s.services = append(s.services, one)
		}
	case *corev1.Node:
		trimmed, err := trimNode(o)
		if err != nil {
			return err
		}
		s.know(trimmed.(*node))
	case *discoveryv1.EndpointSlice:
		trimmed, err := trimSlice(o)
		if err != nil {
			return err
		}
		one := trimmed.(*slice)
		if one.key() == metav1.NamespaceDefault+"/"+apiServer {
			s.serve(one)
		}
		s.endpoints[one.key()] = append(s.endpoints[one.key()], one)
	default:
		return fmt.Errorf("%T: the agent decides nothing by it", o)
	}
	return nil
}
