package topology

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
)

// What the options of rows of the Northbound are called.
const (
	routerPortOption  = "router-port"
	networkNameOption = "network_name"
	chassisOption     = "chassis"
	localnetType      = "localnet"
)

// far is the other side of a router's port.
type far struct{ name, network string }

// list puts together what the sources have said.
func (r *reading) list() *api.NetworkTopologyList {
	t := api.NetworkTopology{
		TypeMeta:   metav1.TypeMeta{Kind: api.NetworkTopologyKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Name: api.NetworkTopologyName},
		Time:       metav1.NewMicroTime(r.at), Nodes: []api.NodeTopology{}, LoadBalancers: r.balancers, Unread: r.unread,
	}
	beyond := r.beyond()
	own := map[string]struct{}{} // routers and router ports of one node
	for _, node := range r.nodes {
		own[northbound.GatewayID(node.Name)] = struct{}{}
		own[northbound.ClusterRouterPort(node.Name)] = struct{}{}
		t.Nodes = append(t.Nodes, r.node(node, beyond))
	}
	slices.SortFunc(t.Nodes, func(a, b api.NodeTopology) int { return cmp.Compare(a.Name, b.Name) })
	for uuid, router := range r.routers {
		if _, is := own[uuid]; !is {
			shown := r.router(router, beyond)
			shown.Ports = slices.DeleteFunc(shown.Ports, func(p api.RouterPortTopology) bool {
				_, is := own[p.Name]
				return is
			})
			t.Routers = append(t.Routers, *shown)
		}
	}
	slices.SortFunc(t.Routers, func(a, b api.RouterTopology) int { return cmp.Compare(a.Name, b.Name) })
	return &api.NetworkTopologyList{
		TypeMeta: metav1.TypeMeta{Kind: api.NetworkTopologyKind + "List", APIVersion: api.GroupVersion},
		Items:    []api.NetworkTopology{t},
	}
}

// beyond is what is on the other side of routers' ports, by their names.
func (r *reading) beyond() map[string]far {
	found := map[string]far{}
	for _, s := range r.switches {
		network := ""
		var routerPorts []string
		for _, uuid := range s.Ports {
			switch port := r.ports[uuid]; {
			case port == nil:
			case port.Type == localnetType:
				network = port.Options[networkNameOption]
			case port.Options[routerPortOption] != "":
				routerPorts = append(routerPorts, port.Options[routerPortOption])
			}
		}
		for _, name := range routerPorts {
			found[name] = far{s.Name, network}
		}
	}
	return found
}

// node is a Node's part.
func (r *reading) node(o *corev1.Node, beyond map[string]far) api.NodeTopology {
	n := api.NodeTopology{Name: o.Name, System: o.Labels[corev1.LabelOSStable]}
	facts, _, _ := contract.Parse[contract.NodeFacts](o.Annotations, contract.NodeFactsAnnotation)
	chassis := cmp.Or(facts.Chassis, o.Name) // see topology.Node.Chassis
	if _, registered := r.chassis[chassis]; registered {
		n.Chassis = chassis
	}
	if gateway := r.routers[northbound.GatewayID(o.Name)]; gateway != nil {
		n.Gateway = r.router(gateway, beyond)
	}
	for _, port := range r.inward {
		if port.Name == northbound.ClusterRouterPort(o.Name) {
			n.Router = ptr.To(routerPort(port, beyond))
		}
	}
	own := r.switches[northbound.SwitchID(o.Name)]
	if own == nil {
		return n
	}
	n.Switch, n.LoadBalancers = own.Name, r.balancersOf(own.LoadBalancer, own.LoadBalancerGroup)
	for _, uuid := range own.Ports {
		switch port := r.ports[uuid]; {
		case port == nil || port.Type != "":
		case port.Name == contract.ManagementPort(o.Name):
			n.Host = ptr.To(r.port(port))
		default:
			n.Pods = append(n.Pods, r.port(port))
		}
	}
	slices.SortFunc(n.Pods, func(a, b api.PortTopology) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return n
}

// port is a port of a pod or of a host. A pod's is named after its namespace and name, see contract.PodPort.
func (r *reading) port(row *nb.LogicalSwitchPort) api.PortTopology {
	p := api.PortTopology{Name: row.Name, Chassis: r.claimed[row.Name], Up: ptr.Deref(row.Up, false)}
	if namespace, pod, ok := strings.Cut(row.Name, "_"); ok {
		p.Namespace, p.Name = namespace, pod
	}
	for _, addresses := range row.Addresses { // a MAC address and its IP addresses
		if words := strings.Fields(addresses); len(words) > 0 {
			p.MAC, p.Addresses = words[0], append(p.Addresses, words[1:]...)
		}
	}
	return p
}

func (r *reading) router(row *nb.LogicalRouter, beyond map[string]far) *api.RouterTopology {
	router := &api.RouterTopology{Name: row.Name, Chassis: row.Options[chassisOption],
		LoadBalancers: r.balancersOf(row.LoadBalancer, row.LoadBalancerGroup)}
	for _, uuid := range row.Ports {
		if port := r.inward[uuid]; port != nil {
			router.Ports = append(router.Ports, routerPort(port, beyond))
		}
	}
	slices.SortFunc(router.Ports, func(a, b api.RouterPortTopology) int { return cmp.Compare(a.Name, b.Name) })
	return router
}

func routerPort(row *nb.LogicalRouterPort, beyond map[string]far) api.RouterPortTopology {
	other := beyond[row.Name]
	return api.RouterPortTopology{Name: row.Name, MAC: row.MAC, Networks: row.Networks, Switch: other.name,
		Network: other.network}
}

// balancersOf is how many load balancers a switch or a router has, by itself and by groups.
func (r *reading) balancersOf(own, groups []string) int {
	count := len(own)
	for _, group := range groups {
		count += r.groups[group]
	}
	return count
}

// Of is the part of a topology that a question is about: of a namespace its pods alone, by node, and of a node its own
// part. An empty namespace or node is all of them.
func Of(all *api.NetworkTopologyList, namespace, node string) *api.NetworkTopologyList {
	if namespace == "" && node == "" {
		return all
	}
	list := *all
	list.Items = nil
	for _, t := range all.Items {
		whole := t.Nodes
		t.Nodes = []api.NodeTopology{}
		if namespace != "" {
			t.Routers, t.LoadBalancers, t.Unread = nil, 0, nil
		}
		for _, n := range whole {
			if namespace != "" {
				n = podsOf(n, namespace)
			}
			// Who sees a namespace does not learn which other nodes there are, not even by their names.
			if (node == "" || node == n.Name) && (namespace == "" || len(n.Pods) > 0) {
				t.Nodes = append(t.Nodes, n)
			}
		}
		list.Items = append(list.Items, t)
	}
	return &list
}

// podsOf is a node without all but the pods of a namespace. Whoever sees these Pods sees the name of their node.
func podsOf(n api.NodeTopology, namespace string) api.NodeTopology {
	cut := api.NodeTopology{Name: n.Name}
	for _, p := range n.Pods {
		if p.Namespace == namespace {
			p.Chassis = ""
			cut.Pods = append(cut.Pods, p)
		}
	}
	return cut
}
