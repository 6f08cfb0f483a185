package services

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/topology"
)

// nodePorts are the addresses of nodes that NodePorts have, and the nodes that have gateway routers: where the cluster
// is entered from outside, as far as Services' rows depend on it.
type nodePorts struct {
	names  []string                     // nodes that have a gateway router, sorted
	nodes  map[netip.Addr]string        // nodes by the addresses that their NodePorts have, the first by name
	hosts  map[netip.Addr][]string      // nodes by the addresses that their gateway routers share with their hosts
	widths [2]int                       // of IPv4 and IPv6: the most addresses that a node has for NodePorts
	own    [2][]loadbalancer.OwnAddress // of IPv4 and IPv6: all nodes' addresses for NodePorts, in order of the nodes
	at     map[netip.Addr][]string      // nodes by the addresses that their NodePorts have, sorted
	// having is, of IPv4 and IPv6, how many nodes have so many addresses for NodePorts.
	having [2][topology.MaxNodePortAddresses + 1]int
}

func newNodePorts() nodePorts {
	return nodePorts{nodes: map[netip.Addr]string{}, hosts: map[netip.Addr][]string{}, at: map[netip.Addr][]string{}}
}

// nodePort is a node's part of them.
type nodePort struct {
	placed, gateway bool
	own             [2][]netip.Addr
	hosts           []netip.Addr // of its gateway router, where that shares them with the host
}

// nodePortNow is a node's.
func nodePortNow(n *topology.Node) (e nodePort) {
	if !n.Placed {
		return e
	}
	e = nodePort{placed: true, own: [2][]netip.Addr{n.NodePortAddresses(true), n.NodePortAddresses(false)}}
	if g := n.Facts.Gateway; g != nil {
		if e.gateway = true; g.HostAddresses {
			e.hosts = contract.Addrs(g.Addresses)
			slices.SortFunc(e.hosts, netip.Addr.Compare)
			e.hosts = slices.Compact(e.hosts)
		}
	}
	return e
}

// put takes in what a node's part was and is now.
func (e *nodePorts) put(name string, was, now nodePort) {
	if was.gateway != now.gateway {
		e.names = toggle(e.names, name)
	}
	for _, addr := range slices.Concat(was.hosts, now.hosts) {
		toggleAt(e.hosts, addr, name)
	}
	for f := range e.own {
		i, _ := slices.BinarySearchFunc(e.own[f], name, func(one loadbalancer.OwnAddress, name string) int {
			return cmp.Compare(one.Node, name)
		})
		block := make([]loadbalancer.OwnAddress, len(now.own[f]))
		for j, addr := range now.own[f] {
			block[j] = loadbalancer.OwnAddress{Addr: addr, Node: name}
		}
		e.own[f] = slices.Replace(e.own[f], i, i+len(was.own[f]), block...)
		for _, addr := range slices.Concat(was.own[f], now.own[f]) {
			toggleAt(e.at, addr, name)
			if delete(e.nodes, addr); len(e.at[addr]) > 0 {
				e.nodes[addr] = e.at[addr][0]
			}
		}
		e.having[f][len(was.own[f])]--
		e.having[f][len(now.own[f])]++
		for e.widths[f] = topology.MaxNodePortAddresses; e.widths[f] > 0 && e.having[f][e.widths[f]] == 0; {
			e.widths[f]--
		}
	}
}

// toggle puts a name into a sorted list, or takes it out if it is there.
func toggle(list []string, name string) []string {
	i, there := slices.BinarySearch(list, name)
	if there {
		return slices.Delete(list, i, i+1)
	}
	return slices.Insert(list, i, name)
}

func toggleAt(index map[netip.Addr][]string, addr netip.Addr, name string) {
	if index[addr] = toggle(index[addr], name); len(index[addr]) == 0 {
		delete(index, addr)
	}
}

// UpdateNodePorts has the Services and pods looked at again whose rows depend on what has changed of
// the touched nodes.
func (b *Part) UpdateNodePorts(touched []*topology.Node) {
	var moved, shared, readdressed bool
	widths, before := b.ports.widths, map[netip.Addr]string{}
	for _, n := range touched {
		b.pods.TouchHostPortsOn(n.Name)
		was, now := b.nodePortsOf[n.Name], nodePortNow(n)
		if b.nodePortsOf[n.Name] = now; !now.placed {
			delete(b.nodePortsOf, n.Name)
		}
		moved = moved || was.gateway != now.gateway
		shared = shared || !slices.Equal(was.hosts, now.hosts)
		if !slices.Equal(was.own[0], now.own[0]) || !slices.Equal(was.own[1], now.own[1]) {
			readdressed = true
			for _, addr := range slices.Concat(was.own[0], was.own[1], now.own[0], now.own[1]) {
				if _, noted := before[addr]; !noted {
					before[addr] = b.ports.nodes[addr]
				}
			}
		}
		b.ports.put(n.Name, was, now)
	}
	if moved {
		b.PlacementsChanged()
	}
	if moved || shared {
		b.touchAll(b.outward)
	}
	b.touchNodePortServices(b.ports.widths != widths, readdressed)
	for addr, node := range before {
		if b.ports.nodes[addr] != node {
			b.touchClaims(addr)
		}
	}
	if readdressed {
		b.TouchSticky()
	}
}

// touchNodePortServices has the Services looked at again that have NodePorts: all of them where nodes have more
// addresses for these than before, or fewer, and otherwise those that have nodes' addresses written out.
func (b *Part) touchNodePortServices(wider, readdressed bool) {
	if !wider && !readdressed {
		return
	}
	for name := range b.claims.WantingAt(netip.Addr{}) {
		if wider || b.all[name].object.ClientIP {
			b.dirty[name] = struct{}{}
		}
	}
}

// NodePortsAt is part of [claims.Services].
func (b *Part) NodePortsAt(addr netip.Addr) (node string, ok bool) {
	node, ok = b.ports.nodes[addr]
	return node, ok
}
