package ovn

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

// records are decisions of earlier terms that the Northbound holds. They count for more than what
// stands in Kubernetes objects: only controllers write there, while annotations and what follows from
// them are within reach of whoever may create or edit a pod.
type records struct {
	pods  map[types.UID][]netip.Addr
	nodes map[string]nodeRecord
	// egress are the numbers of EgressIPs' routers on the join switch.
	egress map[string]int
}

// nodeRecord is what a node has had; each of its parts may be unknown.
type nodeRecord struct {
	chassis string
	subnets []netip.Prefix
	joins   []netip.Prefix // its gateway router's on the join switch, which follow from its ID
	// outside and mac are its gateway router's on the network outside.
	outside []netip.Prefix
	mac     string
	tunnels []netip.Addr // where its tunnels may end
}

// hasGateway says whether a node's gateway is what it has had, or there is none.
func (n nodeRecord) hasGateway(g *contract.Gateway) bool {
	return g == nil || n.mac == g.MAC && !slices.ContainsFunc(g.Addresses, func(p netip.Prefix) bool {
		return !slices.Contains(n.outside, p)
	})
}

// recordsOf reads them out of rows.
func recordsOf(s *settings.Settings, ports []*nb.LogicalSwitchPort, routerPorts []*nb.LogicalRouterPort) records {
	r := records{pods: map[types.UID][]netip.Addr{}, nodes: map[string]nodeRecord{}, egress: map[string]int{}}
	for _, port := range ports {
		switch word, name, key := rowOf(port.ExternalIDs); {
		case word == objects.PodKind.String():
			r.pods[types.UID(key)] = portIPs(port)
		case word == objects.NodeKind.String() && key == "management":
			n := r.nodes[name]
			n.chassis = port.Options["requested-chassis"]
			n.tunnels = objects.ParseAddrs(port.ExternalIDs[contract.TunnelAddressesKey])
			r.nodes[name] = n
		}
	}
	for _, port := range routerPorts {
		word, name, key := rowOf(port.ExternalIDs)
		if word == objects.EgressKind.String() && key == "join" {
			r.egress[name] = nodeRecord{joins: networks(port)}.id(s)
		}
		if word != objects.NodeKind.String() {
			continue
		}
		n := r.nodes[name]
		switch key {
		case "switch":
			n.subnets = networks(port)
		case "join":
			n.joins = networks(port)
		case "external":
			n.outside, n.mac = networks(port), port.MAC
		}
		r.nodes[name] = n
	}
	return r
}

// rowOf is the owner and the key that a row's marks name.
func rowOf(ids map[string]string) (word, name, key string) {
	word, name = part.Split(ovsdb.Owner(ids[ovsdb.OwnerMark]))
	return word, name, ids[ovsdb.KeyMark]
}

// networks are a router port's, IPv4 first as they were written.
func networks(port *nb.LogicalRouterPort) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range port.Networks {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// id is the node's number that its join addresses follow from, 0 when it is not known.
func (n nodeRecord) id(s *settings.Settings) int {
	for _, p := range n.joins {
		if j := ipam.Family(s.Joins, p.Addr()); j != nil {
			if at, ok := ipam.Offset(*j, p.Addr()); ok && at > 1 && at <= uint64(max(s.MaxNodeID(), 0))+1 {
				return int(at) - 1
			}
		}
	}
	return 0
}

// portIPs are the IP addresses in a port's addresses: it is "MAC IP IP", as portAddresses writes it.
func portIPs(port *nb.LogicalSwitchPort) []netip.Addr {
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
