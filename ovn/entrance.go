package ovn

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
)

// entrances are where the cluster is entered from outside, as far as Services' rows depend on it.
type entrances struct {
	names  []string                // nodes that have a gateway router, sorted
	nodes  map[netip.Addr]string   // nodes by the addresses that their NodePorts have, the first by name
	hosts  map[netip.Addr][]string // nodes by the addresses that their gateway routers share with their hosts
	widths [2]int                  // of IPv4 and IPv6: the most addresses that a node has for NodePorts
	own    [2][]ownAddress         // of IPv4 and IPv6: all nodes' addresses for NodePorts, in order of the nodes
}

// ownAddress is one of a node's that its NodePorts have.
type ownAddress struct {
	addr netip.Addr
	node string
}

// entrances are those of all nodes.
func (c *cluster) entrances() entrances {
	e := entrances{nodes: map[netip.Addr]string{}, hosts: map[netip.Addr][]string{}}
	for _, name := range c.nodeNames {
		n := c.nodes[name]
		for _, ipv4 := range []bool{true, false} {
			f, own := family2(ipv4), n.nodePortAddresses(ipv4)
			e.widths[f] = max(e.widths[f], len(own))
			for _, addr := range own {
				e.own[f] = append(e.own[f], ownAddress{addr, name})
				if _, taken := e.nodes[addr]; !taken {
					e.nodes[addr] = name
				}
			}
		}
		g := n.facts.Gateway
		if g == nil {
			continue
		}
		e.names = append(e.names, name)
		if !g.HostAddresses {
			continue
		}
		for _, addr := range contract.Addrs(g.Addresses) {
			e.hosts[addr] = append(e.hosts[addr], name)
		}
	}
	return e
}

// updateEntrances has the Services and pods looked at again whose rows depend on what has changed of
// the touched nodes.
func (c *cluster) updateEntrances(touched []*nodeState) {
	same := true
	for _, n := range touched {
		for name, p := range n.pods {
			if len(p.object.hostPorts) > 0 {
				c.dirtyPods[name] = struct{}{}
			}
		}
		same = c.sameEntrance(n) && same
	}
	if same {
		return
	}
	before := c.gateways
	c.gateways = c.entrances()
	moved := !slices.Equal(before.names, c.gateways.names)
	if moved {
		c.touchPlaced()
	}
	if moved || !maps.EqualFunc(before.hosts, c.gateways.hosts, slices.Equal[[]string]) {
		for name := range c.outward {
			c.dirtyServices[name] = struct{}{}
		}
	}
	wider := before.widths != c.gateways.widths
	readdressed := !slices.Equal(before.own[0], c.gateways.own[0]) || !slices.Equal(before.own[1], c.gateways.own[1])
	if wider || readdressed {
		for name := range c.claims.at[netip.Addr{}] {
			if wider || c.services[name].object.clientIP {
				c.dirtyServices[name] = struct{}{}
			}
		}
	}
	if readdressed {
		c.touchMoved(before.nodes, c.gateways.nodes)
		c.touchMoved(c.gateways.nodes, before.nodes)
		c.touchSelves()
	}
}

// entrance is a node's part of entrances.
type entrance struct {
	placed, gateway bool
	own             [2][]netip.Addr
	hosts           []netip.Addr // of its gateway router, where that shares them with the host
}

// sameEntrance takes in a node's part of entrances, and says whether it is what it was.
func (c *cluster) sameEntrance(n *nodeState) bool {
	before, now := c.entranceOf[n.name], entrance{placed: n.placed}
	if !n.placed {
		delete(c.entranceOf, n.name)
		return !before.placed
	}
	now.own = [2][]netip.Addr{n.nodePortAddresses(true), n.nodePortAddresses(false)}
	if g := n.facts.Gateway; g != nil {
		now.gateway = true
		if g.HostAddresses {
			now.hosts = contract.Addrs(g.Addresses)
		}
	}
	c.entranceOf[n.name] = now
	return before.placed && before.gateway == now.gateway && slices.Equal(before.hosts, now.hosts) &&
		slices.Equal(before.own[0], now.own[0]) && slices.Equal(before.own[1], now.own[1])
}

// touchMoved has the Services looked at again that want addresses which were one node's and are not now.
func (c *cluster) touchMoved(before, now map[netip.Addr]string) {
	for addr, node := range before {
		if now[addr] != node {
			c.touchClaims(addr)
		}
	}
}

// apiServer is the Service that Kubernetes keeps for its API server.
const apiServer = "default/kubernetes"

// updateAPIServers takes in where the API server is.
func (c *cluster) updateAPIServers(state *serviceState) {
	now := map[netip.AddrPort]bool{}
	for _, s := range state.slices {
		for _, p := range s.ports {
			for _, e := range s.endpoints {
				now[netip.AddrPortFrom(e.addr, p.port)] = true
			}
		}
	}
	if maps.Equal(now, c.apiServers) {
		return
	}
	for _, list := range []map[netip.AddrPort]bool{now, c.apiServers} {
		for at := range list {
			c.touchClaims(at.Addr())
			c.touchHostPorts([]claim{{at.Addr(), at.Port(), "tcp"}})
		}
	}
	c.apiServers, c.egress.replan = now, true
}

// updateOutward takes in whether a Service has endpoints that are no pods' addresses: they may be hosts'.
func (c *cluster) updateOutward(name string, state *serviceState) {
	if slices.ContainsFunc(state.slices, func(s *slice) bool {
		return slices.ContainsFunc(s.endpoints, func(e endpoint) bool {
			pods := family(c.settings.pods, e.addr)
			return pods == nil || !pods.Contains(e.addr)
		})
	}) {
		c.outward[name] = struct{}{}
	} else {
		delete(c.outward, name)
	}
}
