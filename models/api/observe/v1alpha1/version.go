package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of the versions of the network.
const (
	// NetworkVersionResource is of the cluster. It has one object, which is named [NetworkVersionName].
	NetworkVersionResource = "networkversions"
	NetworkVersionKind     = "NetworkVersion"
	NetworkVersionName     = "cluster"
	// NetworkVersionRole is the ClusterRole that lets users list it. An administrator binds it.
	NetworkVersionRole = "weft-observe-version"
)

// NetworkVersionList is a list of one item, the versions of the network.
type NetworkVersionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	// Items is the versions.
	Items []NetworkVersion `json:"items"`
}

// NetworkVersion is the versions of Weft's parts, of OVN and of Open vSwitch in a cluster.
type NetworkVersion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// OVN is the version that ovn-northd has written into the Northbound.
	OVN string `json:"ovn,omitempty"`
	// Controller is the controller that leads, or led last, by the Lease kube-system/weft-controller.
	Controller PartVersion `json:"controller"`
	// Doors is the doors, by name.
	Doors []PartVersion `json:"doors"`
	// ChassisHosts is the hosts that run the ovn-controllers of Windows nodes, by name. Their Leases are read in
	// kube-system.
	ChassisHosts []PartVersion `json:"chassisHosts,omitempty"`
	// Nodes is the Nodes, by name.
	Nodes []NodeVersion `json:"nodes"`
	// Unread is the sources that could not be read.
	Unread []Unread `json:"unread,omitempty"`
}

// PartVersion is the version of one of Weft's programs that say by a Lease that they are there.
type PartVersion struct {
	// Name is the identity that the Lease names as its holder; empty if there is none.
	Name string `json:"name,omitempty"`
	// Version is the version of Weft; empty of a program that does not tell it.
	Version string `json:"version,omitempty"`
}

// NodeVersion is the versions on a node.
type NodeVersion struct {
	// Name is the name of the Node.
	Name string `json:"name"`
	// System is the operating system, linux or windows, by the label kubernetes.io/os.
	System string `json:"system,omitempty"`
	// Agent is the version of Weft that the node's agent has; empty of an agent that does not tell it.
	Agent string `json:"agent,omitempty"`
	// OpenVSwitch is the version of the node's Open vSwitch, as its agent tells it; empty of an agent that does not tell
	// it.
	OpenVSwitch string `json:"openVSwitch,omitempty"`
}
