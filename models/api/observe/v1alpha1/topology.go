package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of the topology of the network.
const (
	// NetworkTopologyResource is of the cluster, or of a namespace: its pods. It has one object, which is named
	// [NetworkTopologyName].
	NetworkTopologyResource = "networktopologies"
	NetworkTopologyKind     = "NetworkTopology"
	NetworkTopologyName     = "cluster"
	// NetworkTopologyRole is the ClusterRole that lets users list it. An administrator binds it.
	NetworkTopologyRole = "weft-observe-topology"
	// NodeSelector is the only field selector that is served, as spec.nodeName=NODE: the part of one node.
	NodeSelector = "spec.nodeName"
)

// NetworkTopologyList is a list of one item, the topology of the network.
type NetworkTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	// Items is the topology.
	Items []NetworkTopology `json:"items"`
}

// NetworkTopology is which logical switches and routers there are, with their ports, and on which chassis these are. Of
// a namespace it has its pods, by node, and nothing else.
type NetworkTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Time is when the databases were read, by the clock of the door.
	Time metav1.MicroTime `json:"time"`
	// Routers is the logical routers that are not the gateway of one node: the cluster's, the gateway that nodes share,
	// those of EgressIPs, and "alive", whose ports show which nodes live.
	Routers []RouterTopology `json:"routers,omitempty"`
	// Nodes is the Nodes, by name.
	Nodes []NodeTopology `json:"nodes"`
	// LoadBalancers is the number of all load balancers.
	LoadBalancers int `json:"loadBalancers,omitempty"`
	// Unread is the sources that could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

// NodeTopology is a node's part of the network.
type NodeTopology struct {
	// Name is the name of the Node.
	Name string `json:"name"`
	// System is the operating system, linux or windows, by the label kubernetes.io/os.
	System string `json:"system,omitempty"`
	// Chassis is the name of the node's chassis, if the Southbound has it.
	Chassis string `json:"chassis,omitempty"`
	// Switch is the name of the node's logical switch; empty if it has none.
	Switch string `json:"switch,omitempty"`
	// Router is the port by which the cluster's router has the switch.
	Router *RouterPortTopology `json:"router,omitempty"`
	// Host is the port of the node's host, the management port.
	Host *PortTopology `json:"host,omitempty"`
	// LoadBalancers is the number of load balancers that the switch has.
	LoadBalancers int `json:"loadBalancers,omitempty"`
	// Gateway is the node's own gateway router, if it has one.
	Gateway *RouterTopology `json:"gateway,omitempty"`
	// Pods is the ports of pods, by namespace and name.
	Pods []PortTopology `json:"pods,omitempty"`
}

// RouterTopology is a logical router.
type RouterTopology struct {
	// Name is the name of the logical router.
	Name string `json:"name"`
	// Chassis is the name of the chassis that a gateway router is on; empty of a router that is on all.
	Chassis string `json:"chassis,omitempty"`
	// Ports is its ports, by name, without those to nodes' switches.
	Ports []RouterPortTopology `json:"ports,omitempty"`
	// LoadBalancers is the number of load balancers that it has.
	LoadBalancers int `json:"loadBalancers,omitempty"`
}

// RouterPortTopology is a port of a logical router.
type RouterPortTopology struct {
	// Name is the name of the logical router port.
	Name string `json:"name"`
	// MAC is its MAC address.
	MAC string `json:"mac,omitempty"`
	// Networks is its addresses, with the length of their subnets.
	Networks []string `json:"networks,omitempty"`
	// Switch is the name of the logical switch on its other side.
	Switch string `json:"switch,omitempty"`
	// Network is the name of the network outside that the switch is on; empty if it is on none.
	Network string `json:"network,omitempty"`
}

// PortTopology is a port of a pod or of a host on a node's switch.
type PortTopology struct {
	// Namespace is the namespace of the Pod; empty of a host.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the Pod, or of the host's port.
	Name string `json:"name"`
	// MAC is its MAC address.
	MAC string `json:"mac,omitempty"`
	// Addresses is its IP addresses.
	Addresses []string `json:"addresses,omitempty"`
	// Chassis is the name of the chassis that has claimed the port; empty if none has, if the Southbound could not be
	// read, and in answers about a namespace.
	Chassis string `json:"chassis,omitempty"`
	// Up is true if the port works, as that chassis says.
	Up bool `json:"up"`
}
