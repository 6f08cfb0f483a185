package records

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Records are decisions of earlier terms that the Northbound holds. They count for more than what
// stands in Kubernetes objects: only controllers write there, while annotations and what follows from
// them are within reach of whoever may create or edit a pod.
type Records struct {
	Pods  map[types.UID][]netip.Addr
	Nodes map[string]Node
	// Egress are the numbers of EgressIPs' routers on the join switch.
	Egress map[string]int
}

// Node is what a node has had; each of its parts may be unknown.
type Node struct {
	Chassis string
	Subnets []netip.Prefix
	Joins   []netip.Prefix // its gateway router's on the join switch, which follow from its ID
	// outside and mac are its gateway router's on the network outside.
	outside []netip.Prefix
	mac     string
	Tunnels []netip.Addr // where its tunnels may end
	Remote  bool         // another zone has said this
}

// HasGateway says whether a node's gateway is what it has had, or there is none.
func (n Node) HasGateway(g *contract.Gateway) bool {
	return g == nil || n.mac == g.MAC && !slices.ContainsFunc(g.Addresses, func(p netip.Prefix) bool {
		return !slices.Contains(n.outside, p)
	})
}

// HasOf says whether a node has had the MAC address or an address of a gateway.
func (n Node) HasOf(g *contract.Gateway) bool {
	return n.mac != "" && n.mac == g.MAC || slices.ContainsFunc(n.outside, func(p netip.Prefix) bool {
		return slices.ContainsFunc(g.Addresses, func(q netip.Prefix) bool { return p.Addr() == q.Addr() })
	})
}

// Of reads them out of rows.
func Of(s *settings.Settings, ports []*nb.LogicalSwitchPort, routerPorts []*nb.LogicalRouterPort) Records {
	r := Records{Pods: map[types.UID][]netip.Addr{}, Nodes: map[string]Node{}, Egress: map[string]int{}}
	for _, port := range ports {
		switch word, name, key := RowOf(port.ExternalIDs); {
		case word == objects.PodKind.String():
			r.Pods[types.UID(key)] = PortIPs(port)
		case word == objects.NodeKind.String() && key == "management":
			n := r.Nodes[name]
			n.Chassis = port.Options["requested-chassis"]
			n.Tunnels = objects.ParseAddrs(port.ExternalIDs[contract.TunnelAddressesKey])
			r.Nodes[name] = n
		case word == objects.NodeKind.String() && port.Type == "remote":
			n := Node{Remote: true, Chassis: port.Options["requested-chassis"]}
			n.Tunnels = objects.ParseAddrs(port.ExternalIDs[contract.TunnelAddressesKey])
			n.mac, n.outside = parseGateway(port.ExternalIDs[contract.RemoteGatewayKey])
			r.Nodes[name] = n
		}
	}
	for _, port := range routerPorts {
		word, name, key := RowOf(port.ExternalIDs)
		if word == objects.EgressKind.String() && key == "join" {
			r.Egress[name] = Node{Joins: Networks(port)}.ID(s)
		}
		if word != objects.NodeKind.String() {
			continue
		}
		n := r.Nodes[name]
		switch key {
		case "switch":
			n.Subnets = Networks(port)
		case "join":
			n.Joins = Networks(port)
		case "external":
			n.outside, n.mac = Networks(port), port.MAC
		}
		r.Nodes[name] = n
	}
	return r
}

// parseGateway reads what [FormatGateway] has written.
func parseGateway(text string) (mac string, outside []netip.Prefix) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return "", nil
	}
	for _, field := range fields[1:] {
		if p, err := netip.ParsePrefix(field); err == nil {
			outside = append(outside, p)
		}
	}
	return fields[0], outside
}

// FormatGateway is a gateway router's port to the network outside, as other zones remember it: "MAC ADDRESS/LENGTH …".
func FormatGateway(port *nb.LogicalRouterPort) string {
	return strings.Join(append([]string{port.MAC}, port.Networks...), " ")
}

// RowOf is the owner and the key that a row's marks name.
func RowOf(ids map[string]string) (word, name, key string) {
	word, name = part.Split(ovsdb.Owner(ids[ovsdb.OwnerMark]))
	return word, name, ids[ovsdb.KeyMark]
}

// Networks are a router port's, IPv4 first as they were written.
func Networks(port *nb.LogicalRouterPort) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range port.Networks {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// ID is the node's number that its join addresses follow from, 0 when it is not known.
func (n Node) ID(s *settings.Settings) int {
	for _, p := range n.Joins {
		if j := ipam.Family(s.Joins, p.Addr()); j != nil {
			if at, ok := ipam.Offset(*j, p.Addr()); ok && at > 1 && at <= uint64(max(s.MaxNodeID(), 0))+1 {
				return int(at) - 1
			}
		}
	}
	return 0
}

// PortIPs are the IP addresses in a port's addresses: it is "MAC IP IP", as portAddresses writes it.
func PortIPs(port *nb.LogicalSwitchPort) []netip.Addr {
	var list []netip.Addr
	for _, text := range port.Addresses {
		for _, word := range strings.Fields(text) {
			if addr, err := netip.ParseAddr(word); err == nil && addr.Zone() == "" {
				list = append(list, addr)
			}
		}
	}
	return list
}
