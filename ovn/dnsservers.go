package ovn

import (
	"github.com/weftnet/weft/ovn/objects"
	"slices"
	"strings"
)

// Whoever is believed about a domain name opens the rules of all that name it. So a right that follows from a pod's being on a node
// must not be one that the node gives to itself. With a kubelet's credentials it makes mirror pods of any namespace, labels, and
// status on itself: each becomes an endpoint of the Services that select it, ready or not. Its owner is what a node cannot choose:
// NodeRestriction has a mirror pod owned by its Node, as its controller, so that no other adopts it, and no request for
// a pod's status changes its owners. So a pod counts that a controller has made (a ReplicaSet, a DaemonSet), and the Scheduler has placed.

// updatePod takes in a pod that may be a DNS server's, which may be on its host's network.
func (b *domainBook) updatePod(name string, object *objects.Pod) {
	namespace, _, _ := strings.Cut(name, "/")
	if !slices.ContainsFunc(b.settings.DNSServices, func(service string) bool { return strings.HasPrefix(service, namespace+"/") }) {
		return
	}
	uid, known := b.podUID[name]
	counts := object != nil && object.Controlled && !object.Completed && object.Node != ""
	if known && counts && object.UID == uid && object.Node == b.pods[uid].Node {
		return
	}
	if known {
		delete(b.pods, uid)
		delete(b.podUID, name)
	}
	if counts {
		b.pods[object.UID], b.podUID[name] = object, object.UID
	}
	b.moved = b.moved || known || counts
}

// updateSlices is told of a Service's slices.
func (b *domainBook) updateSlices(name string) {
	b.moved = b.moved || slices.Contains(b.settings.DNSServices, name)
}

// followServers finds the nodes that DNS servers run on. Other nodes are not believed: their agents see no
// server, and what they say would open policies of all.
func (b *domainBook) followServers() {
	if !b.moved {
		return
	}
	b.moved = false
	clear(b.servers)
	for _, node := range b.settings.DNSNodes {
		b.servers[node] = struct{}{}
	}
	for _, name := range b.settings.DNSServices {
		for _, slice := range b.services.slicesOf(name) {
			for i := range slice.Endpoints {
				if e := &slice.Endpoints[i]; b.isServer(slice.Namespace, e) {
					b.servers[e.Node] = struct{}{}
				}
			}
		}
	}
	for node := range b.servers {
		if object := b.seen[node]; object != nil && b.taken[node] != object {
			b.take(node, object)
		}
	}
}

// isServer says whether an endpoint is a DNS server on the node that it names.
func (b *domainBook) isServer(namespace string, e *objects.Endpoint) bool {
	p := b.pods[e.Pod]
	return p != nil && e.Serving && p.Namespace == namespace && p.Node == e.Node
}
