package trace

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/northbound"
)

// end is one of a connection's.
type end struct {
	text      string // as "pod shop/web"
	object    string // as "Pod shop/web"; "" of an address
	addresses []netip.Addr
	port      *port // where its packets enter OVN; nil of one that is not asked for, or has none
	node      string
	service   *service
}

// of is the end's address of a family.
func (e *end) of(family string) (netip.Addr, bool) {
	for _, addr := range e.addresses {
		if familyOf(addr) == family {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// podEnd is a pod, or the host whose network it shares.
func (t *tracing) podEnd(field string, e api.TraceEnd) (end, error) {
	key := e.Namespace + "/" + e.Name
	name := contract.PodPort(e.Namespace, e.Name)
	ports, err := t.south.ports(t.ctx, name)
	if err != nil {
		return end{}, err
	}
	if p, there := ports[name]; there && p.owner == string(northbound.PodOwner(key)) {
		pod := end{text: "pod " + key, object: "Pod " + key, port: &p, addresses: bare(p.addresses)}
		pod.node, err = t.nodeOf(p.datapath)
		return pod, err
	}
	host, err := t.whyNoPort(t.ctx, field, e)
	if err != nil {
		return end{}, err
	}
	shared, err := t.hostEnd(field, host)
	shared.text, shared.object = fmt.Sprintf("pod %s in the network of node %s", key, host), "Pod "+key
	return shared, err
}

// hostEnd is a node's host, which meets the pods through its management port.
func (t *tracing) hostEnd(field, name string) (end, error) {
	n, there := t.nodes[name]
	if !there {
		return end{}, questionErrorf(field, "there is no node %s", name)
	}
	port := contract.ManagementPort(name)
	ports, err := t.south.ports(t.ctx, port)
	if err != nil {
		return end{}, err
	}
	p, there := ports[port]
	if !there {
		return end{}, questionErrorf(field, "node %s has no management port in the Southbound; `weft status` says what it "+
			"lacks", name)
	}
	return end{text: "node " + name, object: "Node " + name, port: &p, node: name, addresses: n.addresses}, nil
}

// source is where the connection begins. A host's packets to pods and Services have its address among the pods.
func (t *tracing) source() (from end, err error) {
	switch t.q.from.Kind {
	case api.AddressEnd:
		return t.clientEnd()
	case api.PodEnd:
		from, err = t.podEnd("spec.source", t.q.from)
	default:
		from, err = t.hostEnd("spec.source", t.q.from.Name)
	}
	if err == nil {
		from.addresses = bare(from.port.addresses)
	}
	return from, err
}

// destination is where the connection goes.
func (t *tracing) destination() (end, error) {
	switch t.q.to.Kind {
	case api.PodEnd:
		return t.podEnd("spec.destination", t.q.to)
	case api.NodeEnd:
		return t.hostEnd("spec.destination", t.q.to.Name)
	case api.ServiceEnd:
		s, err := t.service(t.ctx, &t.q)
		if err != nil {
			return end{}, err
		}
		return end{text: "Service " + s.key, object: "Service " + s.key, addresses: s.addresses, service: s}, nil
	}
	return end{text: t.q.address.String(), addresses: []netip.Addr{t.q.address}}, nil
}

// bare are addresses without their lengths.
func bare(list []netip.Prefix) []netip.Addr { return contract.Addrs(list) }

// nodeOf is the node whose switch a datapath is.
func (t *tracing) nodeOf(datapath string) (string, error) {
	router, err := t.routerOf(datapath)
	return strings.TrimPrefix(router, northbound.ClusterRouterPort("")), err
}

// routerOf names the router's port to a node's switch.
func (t *tracing) routerOf(datapath string) (string, error) {
	patches, err := t.south.portsOfSwitch(t.ctx, datapath, "patch")
	if err != nil {
		return "", err
	}
	for _, p := range patches {
		if strings.HasPrefix(p.peer, northbound.ClusterRouterPort("")) {
			return p.peer, nil
		}
	}
	return "", fmt.Errorf("the logical switch %s has no port to the cluster's router; see whether ovn-northd runs",
		datapath)
}

// macOf is the MAC address of a router's port.
func (t *tracing) macOf(name string) (net.HardwareAddr, error) {
	ports, err := t.south.ports(t.ctx, name)
	return ports[name].mac, err
}

// firstHop is the MAC address to which a host on a node's switch sends what is for an address: that of the router, or
// of whom it finds on its own subnet; none where it finds nobody.
func (t *tracing) firstHop(datapath string, to netip.Addr) (net.HardwareAddr, error) {
	name, err := t.routerOf(datapath)
	if err != nil {
		return nil, err
	}
	ports, err := t.south.ports(t.ctx, name)
	if err != nil {
		return nil, err
	}
	router := ports[name]
	for _, subnet := range router.addresses {
		if !subnet.Contains(to) || subnet.Addr() == to {
			continue
		}
		neighbours, err := t.south.portsOfSwitch(t.ctx, datapath, "")
		for i := range neighbours {
			if neighbours[i].has(to) {
				return neighbours[i].mac, nil
			}
		}
		return nil, err
	}
	return router.mac, nil
}
