package main

import (
	"os"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/ovsdriver"
)

// systemFlags are the keys of this system's nodes alone. Each system has those of all, since the reference lists them.
var systemFlags = map[string]func(*pflag.FlagSet, nodeconfig.Config){
	"linux": linuxFlags, "windows": windowsFlags}[runtime.GOOS]

// nodeFlags are the keys that nodes of all systems have.
func nodeFlags(f *pflag.FlagSet, defaults nodeconfig.Config) {
	const requiredIfHosted = "required on Windows nodes with chassis: hosted"
	const requiredTogether = requiredIfHosted + ", and with tunnel-certificate"
	hostname, _ := os.Hostname() // without one the key has no default, and its absence is reported
	f.String("kubeconfig", "", kubeconfigUsage)
	f.String("node-name", strings.ToLower(hostname), "the Node's name in Kubernetes; by default in lower case")
	markHostDefault(f, "node-name")
	f.StringSlice("ovn-southbound", nil, "endpoints of the OVN Southbound as ovn-controller dials them, such as "+
		"ssl:192.0.2.1:6642,ssl:192.0.2.2:6642"+required)
	f.Bool("ovn-monitor-all", defaults.MonitorAll, "whether ovn-controller reads the whole Southbound, or (false) "+
		"only the part that the node needs, which takes less memory in large clusters")
	f.String("ovn-rundir", "", "folder in which ovn-controller has its control socket; empty: the folder of the "+
		`socket of ovs-database, or the folder ovn beside it; if ovs-database is tcp:, /var/run/ovn, on Windows `+
		`C:\openvswitch\var\run\openvswitch`)
	f.String("ovs-database", defaults.OVSDatabase, "the node's Open_vSwitch database, unix:PATH or tcp:HOST:PORT")
	f.String("ovs-ofctl", defaults.OVSOfctl, "Open vSwitch's program ovs-ofctl: a path, or a name that is found in PATH")
	f.String("datapath-type", defaults.DatapathType, "datapath of Open vSwitch: system (in the kernel) or netdev (in "+
		"userspace)")
	f.String("encap-type", defaults.EncapType, "protocol of the tunnels between nodes; only geneve is supported")
	f.String("encap-address", "", "the node's address at which the tunnels of other nodes end"+required)
	f.Int("uplink-mtu", defaults.UplinkMTU, "MTU of the network between nodes, in bytes; 0: that of the interface that "+
		"has encap-address")
	f.String("gateway", "", "how pods reach the outside: local (by the node's own gateway router, with its address), "+
		"routed (by it, with their own addresses), shared (by the gateway nodes) or none; empty: on Linux, local if "+
		"gateway-interface or gateway-addresses is set, else none; on Windows, local")
	f.String("gateway-network", defaults.GatewayNetwork, "name of the network outside that the gateway is on; the "+
		"agent adds it with the external bridge to ovn-bridge-mappings")
	f.StringSlice("gateway-addresses", nil, "addresses of the gateway router with their prefix lengths, at most one "+
		"for each address family; empty: the first one of each family that the host has on the external bridge")
	f.StringSlice("gateway-next-hops", nil, "next hops of the gateway router's default routes; empty: those of the "+
		"host's default routes by the external bridge")
	f.StringSlice("bridge-mappings", nil, "bridges to further networks outside, each NETWORK:BRIDGE; the agent "+
		"adds them to ovn-bridge-mappings")
	f.String("cni-socket", defaults.CNISocket, "socket at which weft-cni finds the agent: a unix socket, on Windows a "+
		"named pipe")
	f.String("cni-conf-dir", defaults.CNIConfDir, "folder in which the container runtime reads CNI configurations")
	f.String("cni-conf-name", defaults.CNIConfName, "name of Weft's file in cni-conf-dir")
	f.String("cni-cache-dir", defaults.CNICacheDir, "folder in which the container runtime keeps results of CNI; the "+
		"agent removes those of Weft and of loopback that a power failure has made unreadable")
	f.Duration("cni-timeout", defaults.CNITimeout, "how long a CNI ADD or DEL may take; an ADD waits for the pod's "+
		"address and, on Linux, for its flows")
	f.String("tunnel-address", defaults.TunnelAddress, "HOST:PORT where the agent takes connections of chassis "+
		"hosts and of weft observe; without HOST it listens on all addresses, and the clients connect to "+
		"encap-address")
	f.String("tunnel-ca", "", "PEM file of the CA that signed the certificates of chassis hosts and of weft observe; "+
		requiredTogether)
	f.String("tunnel-certificate", "", "PEM file of the node's certificate for these connections, with the DNS "+
		"name NODE.node.weft.net; "+requiredIfHosted+"; other nodes without it take no connections")
	f.String("tunnel-private-key", "", "PEM file of the key of tunnel-certificate; "+requiredTogether)
	f.String("capture", defaults.Capture, "packets that users with the right may capture on this node by weft "+
		"capture: off, pods (those of pods) or all (those of the node's tunnels, too)")
	metricsFlags(f, defaults.MetricsAddress)
}

// linuxFlags are the keys of a Linux node alone.
func linuxFlags(f *pflag.FlagSet, defaults nodeconfig.Config) {
	f.String("gateway-interface", "", "device that joins gateway-bridge; empty: the bridge has a device already. "+
		"Without gateway-addresses the bridge takes over the device's addresses and routes")
	f.StringSlice("dns-services", defaults.DNSServices, "the cluster's DNS Services, each NAMESPACE/NAME; answers of "+
		"their pods on this node say which addresses the domain names in policies have")
	f.String("encryption", string(defaults.Encryption), "encryption of packets to other nodes: off, begin (ESP "+
		"with nodes that can, clear packets with others) or enforce (ESP alone)")
	f.String("encryption-ca", "", "PEM file of the CAs that sign nodes' certificates for IKE")
	f.String("encryption-certificate", "", "PEM file of the node's certificate for IKE, with the subject CN=ENCAP-ADDRESS")
	f.String("encryption-private-key", "", "PEM file of the key of encryption-certificate")
	f.String("encryption-charon", defaults.EncryptionCharon, "socket (vici) of charon, strongSwan's daemon")
	f.String("data-dir", defaults.DataDir, "folder of files that the agent needs after a restart of the machine: "+
		"the ports that daemons of the host have")
	f.String("gateway-bridge", defaults.GatewayBridge, "bridge to the outside of a node that has a gateway of its own")
}

// windowsFlags are the keys of a Windows node alone.
func windowsFlags(f *pflag.FlagSet, defaults nodeconfig.Config) {
	f.Bool("service", false, "run under the service control manager; only the flag does that, which the service has "+
		"that \"weft service install\" makes")
	f.String("log-file", "", "further file to which the log is written; empty: weft-node.log in state-dir for a "+
		"service, else none")
	f.String("adapter", "", "network adapter that pods share with the host; empty: the one that has encap-address")
	f.String("hns-network", defaults.HNSNetwork, "name of the HNS network that the agent makes on the adapter")
	f.String("ovs-driver", "", "kind of Open vSwitch's driver: "+ovsdriver.Names()+"; empty: the one that is installed")
	f.String("ovs-openflow", "", "connection by which br-int takes OpenFlow, unix:PATH or tcp:HOST:PORT; empty: "+
		"br-int.mgmt in the folder of the socket of ovs-database; if that is tcp:, required with chassis: hosted or "+
		"tunnel-certificate")
	f.String("ovs-control", "", "connection by which ovs-vswitchd takes commands, unix:PATH or tcp:HOST:PORT; empty: "+
		"found in the folder of the socket of ovs-database")
	f.String("chassis", defaults.Chassis, "where the node's ovn-controller runs: hosted (on a chassis host) or local "+
		"(on the node)")
	f.String("state-dir", defaults.StateDir, "folder of the agent's own files")
	f.Bool("cni-socket-prime", false, "connect to cni-socket once at the start, which Wine needs and Windows does not")
	_ = f.MarkHidden("cni-socket-prime") // the flag is there
	f.String("conntrack-lookup", defaults.ConntrackLookup, "whether packets are looked up in connection tracking once "+
		"more before their connection is committed, which Open vSwitch's driver needs since 2.17: true, false, or auto (the "+
		"agent finds out whether the driver needs it)")
	f.Lookup("conntrack-lookup").NoOptDefVal = nodeconfig.LookupOn
	f.Bool("conntrack-flush", false, "let the driver forget connections to UDP endpoints that are gone; Open "+
		"vSwitch's driver then forgets other connections, too, and may stop the machine")
	f.Bool("conntrack-ftp", false, "let packets of FTP (TCP port 21) and TFTP (UDP port 69) pass; Open vSwitch's "+
		"driver reads their contents, and may stop the machine")
	f.Duration("vnic-timeout", defaults.VNICTimeout, "how long a pod may lack its network interface or its flows "+
		"before an Event says so")
}
