package domains

import (
	"slices"
	"strings"

	"github.com/weftnet/weft/ovn/objects"
)

// Whoever is believed about a domain name opens the rules of all that name it. So a right that follows from a pod's
// being on a node must not be one that the node gives to itself. With a kubelet's credentials it makes mirror pods of
// any namespace, labels, and status on itself: each becomes an endpoint of the Services that select it, ready or not.
// Its owner is what a node cannot choose: NodeRestriction has a mirror pod owned by its Node, as its controller, so
// that no other adopts it, and no request for a pod's status changes its owners. So a pod counts that a controller has
// made (a ReplicaSet, a DaemonSet), and the Scheduler has placed.

// UpdatePod takes in a pod that may be a DNS server's, which may be on its host's network.
func (d *Part) UpdatePod(name string, object *objects.Pod) {
	namespace, _, _ := strings.Cut(name, "/")
	if !slices.ContainsFunc(d.settings.DNSServices, func(service string) bool {
		return strings.HasPrefix(service, namespace+"/")
	}) {
		return
	}
	uid, known := d.podUID[name]
	counts := object != nil && object.Controlled && !object.Completed && object.Node != ""
	if known && counts && object.UID == uid && object.Node == d.pods[uid].Node {
		return
	}
	if known {
		delete(d.pods, uid)
		delete(d.podUID, name)
	}
	if counts {
		d.pods[object.UID], d.podUID[name] = object, object.UID
	}
	d.moved = d.moved || known || counts
}

// UpdateSlices is told of a Service's slices.
func (d *Part) UpdateSlices(name string) {
	d.moved = d.moved || slices.Contains(d.settings.DNSServices, name)
}

// followServers finds the nodes that DNS servers run on. Other nodes are not believed: their agents see no
// server, and what they say would open policies of all.
func (d *Part) followServers() {
	if !d.moved {
		return
	}
	d.moved = false
	clear(d.servers)
	for _, node := range d.settings.DNSNodes {
		d.servers[node] = struct{}{}
	}
	for _, name := range d.settings.DNSServices {
		for _, slice := range d.services.SlicesOf(name) {
			for i := range slice.Endpoints {
				if e := &slice.Endpoints[i]; d.isServer(slice.Namespace, e) {
					d.servers[e.Node] = struct{}{}
				}
			}
		}
	}
	for node := range d.servers {
		if object := d.seen[node]; object != nil && d.taken[node] != object {
			d.take(node, object)
		}
	}
}

// isServer says whether an endpoint is a DNS server on the node that it names.
func (d *Part) isServer(namespace string, e *objects.Endpoint) bool {
	p := d.pods[e.Pod]
	return p != nil && e.Serving && p.Namespace == namespace && p.Node == e.Node
}
