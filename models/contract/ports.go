package contract

// Port is a port at the addresses of hosts by which Weft's programs, and those of OVN and others for them, are reached.
type Port struct {
	Protocol string // tcp or udp
	Number   uint16
	Opener   string // the program that listens, and on which hosts
	Clients  string // to which it must be open
	Purpose  string
	Key      string // of the opener, which has the port; empty: none of Weft's
}

// Ports are all of these. The ports of Services and pods on nodes are no part of it: these are their owners'.
var Ports = []Port{
	{"udp", 500, "charon of strongSwan, on Linux nodes with encryption", "all other Linux nodes with encryption",
		"IKE, the protocol by which nodes agree on keys", ""},
	{"udp", TunnelPort, "Open vSwitch, on all nodes", "all other nodes", "GENEVE, the tunnels between nodes", ""},
	{"tcp", 6641, "ovsdb-server of the Northbound, on central hosts", "controllers and central hosts",
		"the Northbound, for controllers and ovn-northd", ""},
	{"tcp", 6642, "weft southbound, on central hosts", "Linux nodes, chassis hosts, and Windows nodes with chassis: local",
		"the Southbound, for the ovn-controller of each node", "listen"},
	{"tcp", 6643, "ovsdb-server of the Northbound, on central hosts", "central hosts", "the cluster of the database", ""},
	{"tcp", 6644, "ovsdb-server of the Southbound, on central hosts", "central hosts", "the cluster of the database", ""},
	{"tcp", 6645, "weft observe, on central hosts", "API servers", "the aggregated API observe.weft.net", "listen"},
	{"tcp", 9471, "weft node, on all nodes", "the node itself", "metrics and probes", "metrics-address"},
	{"tcp", 9472, "weft chassis, on chassis hosts", "the host itself", "metrics and probes", "metrics-address"},
	{"tcp", 9641, "weft controller", "the host itself", "metrics and probes", "metrics-address"},
	{"tcp", 9642, "weft southbound, on central hosts", "the host itself", "metrics and probes", "metrics-address"},
	{"tcp", 9643, "weft observe, on central hosts", "the host itself", "metrics and probes", "metrics-address"},
	{"tcp", 16642, "weft node, on Windows nodes with chassis: hosted, and on other nodes with tunnel-certificate",
		"chassis hosts (of Windows nodes), and hosts with weft observe",
		"Open vSwitch of Windows nodes, and questions of weft observe", "tunnel-address"},
}
