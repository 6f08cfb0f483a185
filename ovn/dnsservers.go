package ovn

import (
	"slices"
	"strings"
)

// Whoever is believed about a domain name opens the rules of all that name it. So a right that follows from a pod's being on a node
// must not be one that the node gives to itself. With a kubelet's credentials it makes mirror pods of any namespace, labels, and
// status on itself: each becomes an endpoint of the Services that select it, ready or not. Its owner is what a node cannot choose:
// NodeRestriction has a mirror pod owned by its Node, as its controller, so that no other adopts it, and no request for
// a pod's status changes its owners. So a pod counts that a controller has made (a ReplicaSet, a DaemonSet), and the Scheduler has placed.

// updatePod takes in a pod that may be a DNS server's, which may be on its host's network.
func (b *domainBook) updatePod(name string, object *pod) {
	namespace, _, _ := strings.Cut(name, "/")
	if !slices.ContainsFunc(b.settings.dnsServices, func(service string) bool { return strings.HasPrefix(service, namespace+"/") }) {
		return
	}
	uid, known := b.podUID[name]
	counts := object != nil && object.controlled && !object.completed && object.node != ""
	if known && counts && object.UID == uid && object.node == b.pods[uid].node {
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
	b.moved = b.moved || slices.Contains(b.settings.dnsServices, name)
}

// followServers finds the nodes that DNS servers run on. Other nodes are not believed: their agents see no
// server, and what they say would open policies of all.
func (b *domainBook) followServers() {
	if !b.moved {
		return
	}
	b.moved = false
	clear(b.servers)
	for _, node := range b.settings.dnsNodes {
		b.servers[node] = struct{}{}
	}
	for _, name := range b.settings.dnsServices {
		for _, slice := range b.services.slicesOf(name) {
			for i := range slice.endpoints {
				if e := &slice.endpoints[i]; b.isServer(slice.Namespace, e) {
					b.servers[e.node] = struct{}{}
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
func (b *domainBook) isServer(namespace string, e *endpoint) bool {
	p := b.pods[e.pod]
	return p != nil && e.serving && p.Namespace == namespace && p.node == e.node
}
