package ovn

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// podBook is what is known of the pods that want a port: their addresses, and their ports on their nodes' hosts.
type podBook struct {
	*outbox
	around    podSurroundings
	recorded  map[types.UID][]netip.Addr // addresses of earlier terms, as far as no pod has claimed them yet
	beginning bool

	all        map[string]*podState
	dirty      map[string]struct{}
	hostPorted map[numberedPort]map[string]struct{} // pods, by key
}

// podSurroundings are what pods need of the other parts.
type podSurroundings interface {
	// node is what is known of a node, or will be; forgetNode drops it where it is nothing any more.
	node(name string) *nodeState
	forgetNode(n *nodeState)
	// podSeen is told of each pod that is there or gone (nil), whether it wants a port or not; podBegins and podEnds of
	// those that do.
	podSeen(key string, object *pod)
	podBegins(key string, p *podState)
	podEnds(key string, p *podState)
	// awaitsNamespace says whether pods wait until a Namespace is there.
	awaitsNamespace(name string) bool
	// hostsKeep says whether an address and port stays the hosts' own, serviceHas whether a Service has one of a node's.
	hostsKeep(protocol string, at netip.AddrPort) bool
	serviceHas(wanted claim) bool
	// hostPortsChanged is told of a pod with host ports that comes or goes.
	hostPortsChanged()
}

func newPodBook(o *outbox, around podSurroundings) podBook {
	return podBook{outbox: o, around: around, all: map[string]*podState{}, dirty: map[string]struct{}{},
		hostPorted: map[numberedPort]map[string]struct{}{}}
}
