package southbound

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovsdb"
)

// tables are what a guard's replica has.
var tables = []ovsdb.Table{
	{Model: &sb.Chassis{}, Read: []string{"name", "hostname", "encaps", "external_ids", "other_config",
		"transport_zones", "vtep_logical_switches"}},
	{Model: &sb.ChassisPrivate{}, Read: []string{"name", "external_ids"}},
	{Model: &sb.Encap{}, Read: []string{"chassis_name", "type", "ip", "options"}},
	{Model: &sb.DatapathBinding{}, Read: []string{"external_ids", "tunnel_key"}},
	{Model: &sb.PortBinding{}, Read: []string{"logical_port", "type", "options", "chassis", "ha_chassis_group", "datapath",
		"tunnel_key", "external_ids"}},
	{Model: &sb.HAChassisGroup{}, Read: []string{"ha_chassis"}},
	{Model: &sb.HAChassis{}, Read: []string{"chassis"}},
	{Model: &sb.MACBinding{}, Read: []string{"logical_port", "ip"}},
	{Model: &sb.FDB{}, Read: []string{"dp_key", "mac", "port_key"}},
	{Model: &sb.IGMPGroup{}, Read: []string{"chassis_name", "datapath"}},
	{Model: &sb.BFD{}, Read: []string{"chassis_name"}},
	{Model: &sb.ServiceMonitor{}, Read: []string{"chassis_name"}},
}

// replica is what a guard knows of the Southbound.
type replica struct {
	*ovsdb.Client

	mu      sync.Mutex
	current <-chan struct{} // closed when index is of the past
	index   *index
	counted <-chan struct{} // closed when counts are of the past
	counts  map[[2]string]int
	authors authors // of rows that it has and will have
}

// index finds ports and chassis.
type index struct {
	chassis map[string]*sb.Chassis
	named   map[string]*sb.PortBinding
	keyed   map[[2]int]*sb.PortBinding   // by the tunnel keys of datapath and port
	members map[string][]*sb.PortBinding // by datapath
	outside []*sb.PortBinding            // localnet ports
	managed []*sb.PortBinding            // management ports of this zone's nodes
	transit []*sb.PortBinding            // those of other zones' nodes on the transit switch
	routers map[string]bool              // by datapath
}

// ports is the index of all ports, and of chassis, as of now.
func (r *replica) ports() *index {
	now := r.Changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == now {
		return r.index
	}
	ix := &index{chassis: map[string]*sb.Chassis{}, named: map[string]*sb.PortBinding{},
		keyed: map[[2]int]*sb.PortBinding{}, members: map[string][]*sb.PortBinding{}, routers: map[string]bool{}}
	for _, chassis := range ovsdb.List[sb.Chassis](r.Client, nil) {
		ix.chassis[chassis.Name] = chassis
	}
	keys := map[string]int{}
	for _, datapath := range ovsdb.List[sb.DatapathBinding](r.Client, nil) {
		keys[datapath.UUID] = datapath.TunnelKey
		_, isSwitch := datapath.ExternalIDs["logical-switch"]
		ix.routers[datapath.UUID] = !isSwitch
	}
	for _, port := range ovsdb.List[sb.PortBinding](r.Client, nil) {
		ix.named[port.LogicalPort] = port
		ix.keyed[[2]int{keys[port.Datapath], port.TunnelKey}] = port
		ix.members[port.Datapath] = append(ix.members[port.Datapath], port)
		switch {
		case port.Type == "localnet":
			ix.outside = append(ix.outside, port)
		case strings.HasPrefix(port.LogicalPort, contract.ManagementPort("")):
			ix.managed = append(ix.managed, port)
		case port.Type == "remote" && strings.HasPrefix(port.LogicalPort, contract.TransitPort("")):
			ix.transit = append(ix.transit, port)
		}
	}
	r.current, r.index = now, ix
	return ix
}

// management is the port that the controller gives each Node of this Southbound.
func (r *replica) management(node string) (*sb.PortBinding, error) {
	name := contract.ManagementPort(node)
	if port := r.ports().named[name]; port != nil {
		return port, nil
	}
	return nil, errNotYet{fmt.Sprintf("weft controller has not given Node %s its port %s yet: until then the node makes "+
		"no rows here", node, name)}
}

// isHere says why a node makes no rows here: it may be one of another zone, since all zones have one authority. Whoever
// has a chassis here that is not remote is no Node, and an administrator has made its chassis.
func (r *replica) isHere(node string) error {
	_, err := r.management(node)
	if err != nil && r.hasChassis(node, false) {
		return nil
	}
	return err
}

// hasChassis says whether a node has a chassis here that is remote, or one that is not.
func (r *replica) hasChassis(node string, remote bool) bool {
	row := r.ports().chassis[node]
	return row != nil && IsRemote(row) == remote
}

// IsRemote says whether a chassis is that of a node of another zone. OVN reads the key so (lib/smap.c, smap_get_bool).
func IsRemote(row *sb.Chassis) bool { return strings.EqualFold(row.OtherConfig[remoteKey], "true") }

// is says whether a chassis, by its UUID, is a node.
func (r *replica) is(chassis *string, node string) bool {
	if chassis == nil {
		return false
	}
	row, ok := ovsdb.Get[sb.Chassis](r.Client, *chassis)
	return ok && row.Name == node
}

// owns: a port that is meant for a chassis is that one's. One that nobody has said a word about is whose it was
// first, as OVN's own rules have it.
func (r *replica) owns(node string, port *sb.PortBinding) bool {
	return r.has(node, port) || port.Type == "" && port.Options["requested-chassis"] == "" && port.Chassis == nil
}

// has says whether a port is on a node, or meant for it. Those of routers that are everywhere, and all that no
// ovn-controller claims, are on none.
func (r *replica) has(node string, port *sb.PortBinding) bool {
	switch port.Type {
	case "", "l3gateway", "l2gateway", "chassisredirect", "external", "virtual":
	default:
		return false
	}
	if r.is(port.Chassis, node) {
		return true
	}
	switch port.Type {
	case "l3gateway", "l2gateway":
		return slices.Contains(strings.Split(port.Options[port.Type+"-chassis"], ","), node)
	case "chassisredirect", "external":
		return port.HaChassisGroup != nil && r.inGroup(node, *port.HaChassisGroup)
	case "virtual":
		return slices.ContainsFunc(strings.Split(port.Options["virtual-parents"], ","), func(name string) bool {
			parent := r.ports().named[name]
			return parent != nil && parent.Type == "" && r.has(node, parent)
		})
	}
	return slices.Contains(strings.Split(port.Options["requested-chassis"], ","), node)
}

func (r *replica) inGroup(node, group string) bool {
	row, ok := ovsdb.Get[sb.HAChassisGroup](r.Client, group)
	return ok && slices.ContainsFunc(row.HaChassis, func(id string) bool {
		member, ok := ovsdb.Get[sb.HAChassis](r.Client, id)
		return ok && r.is(member.Chassis, node)
	})
}

// learns says whether a node's ovn-controller may learn who a router port's neighbours are: it learns from what a node
// sends by the port. A gateway router's packets are on the router's chassis. Of other routers that is where the network
// behind the port is: on chassis with a port in it, and on those that what is between the port and the world outside is
// meant for.
func (r *replica) learns(node string, port *sb.PortBinding) bool {
	switch port.Type {
	case "l3gateway":
		return r.has(node, port)
	case "patch":
	default:
		return false
	}
	ports := r.ports()
	peer := ports.named[port.Options["peer"]]
	if peer == nil || !ports.routers[port.Datapath] {
		return false
	}
	redirect := ports.named[port.Options["chassis-redirect-port"]]
	if redirect != nil && r.has(node, redirect) {
		return true
	}
	return slices.ContainsFunc(ports.members[peer.Datapath], func(other *sb.PortBinding) bool {
		switch {
		case other == peer:
			return false
		case other.Type == "localnet" && redirect != nil:
			// Of what is sent to all on the network outside, each chassis that is there learns.
			return r.isOutside(node, other.Options["network_name"])
		case other.Type == "", other.Type == "l3gateway", other.Type == "l2gateway", other.Type == "external",
			other.Type == "virtual":
			return r.has(node, other)
		}
		return true // it is on all chassis, such as the port of another router
	})
}

// present says whether a node has a port on a datapath.
func (r *replica) present(node, datapath string) bool {
	return slices.ContainsFunc(r.ports().members[datapath], func(port *sb.PortBinding) bool { return r.has(node, port) })
}

// isOutside says whether a node is on a network outside, by a port of its own on a switch that leads there. Of a switch
// of weft's that is so where an administrator has granted the network: which one its gateway is on a node says itself.
func (r *replica) isOutside(node, network string) bool {
	return slices.ContainsFunc(r.ports().outside, func(localnet *sb.PortBinding) bool {
		granted, ofWeft := localnet.ExternalIDs[contract.GrantedNetworkKey], localnet.ExternalIDs[ovsdb.OwnerMark] != ""
		return localnet.Options["network_name"] == network && (granted == network || !ofWeft) &&
			r.present(node, localnet.Datapath)
	})
}

// hears says whether a node may learn which addresses are behind a switch's port (OVN's FDB): the chassis that has the
// port does, and of a localnet port that must learn all that have one on the switch.
func (r *replica) hears(node string, port *sb.PortBinding) bool {
	if port.Type == "localnet" {
		return port.Options["localnet_learn_fdb"] == "true" && r.present(node, port.Datapath)
	}
	return port.Type == "" && r.has(node, port)
}
