package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Datapath types of Open vSwitch. On [DatapathNetdev] packets are switched in userspace, and the
// agent does for each attached device what that needs: no partial checksums, no second copy of a
// frame in the node's own stack.
const (
	DatapathSystem = "system"
	DatapathNetdev = "netdev"
)

// Config is what `weft node` is told. The key in front of each comment is the user's name for the
// field, in flags, environment and file.
type Config struct {
	// kubeconfig: credentials of a kubelet's kind (own Node, own Pods); empty inside a pod.
	Kubeconfig string
	// node-name: the Node's name in Kubernetes.
	NodeName string
	// ovn-southbound: the Southbound as ovn-controller shall dial it, for example
	// "ssl:192.0.2.1:6642,ssl:192.0.2.2:6642".
	OVNSouthbound string
	// ovn-rundir: where ovn-controller has its control socket. Empty: the folder of the OVS
	// database's socket, then the neighbouring "ovn".
	OVNRunDir string
	// ovs-database: the node's Open_vSwitch database.
	OVSDatabase string
	// datapath-type: "system" (kernel) or "netdev" (userspace).
	DatapathType string
	// encap-type: the tunnel protocol; OVN clusters with Windows nodes speak "geneve" only.
	EncapType string
	// encap-address: the node's tunnel end point.
	EncapAddress netip.Addr
	// uplink-mtu: in bytes; 0 reads it from the interface that holds encap-address.
	UplinkMTU int
	// gateway-interface: the device that joins gateway-bridge; empty if the bridge has one already.
	GatewayInterface string
	// gateway-bridge: the bridge to the outside; used where gateway-addresses is set.
	GatewayBridge string
	// gateway-network: the bridge's name in ovn-bridge-mappings.
	GatewayNetwork string
	// gateway-addresses: the gateway router's own on that network, at most one an address family.
	GatewayAddresses []netip.Prefix
	// gateway-next-hops: of the gateway router's default routes, at most one an address family.
	GatewayNextHops []netip.Addr
	// cni-socket: where the agent listens for weft-cni.
	CNISocket string
	// cni-conf-dir, cni-conf-name: the file that tells the container runtime about weft.
	CNIConfDir  string
	CNIConfName string
	// cni-timeout: how long an ADD waits for the pod's address and flows; kubelet's own limit for
	// a sandbox is four minutes, containerd's for a plugin none.
	CNITimeout time.Duration
	// metrics-address: of /metrics, /healthz and /readyz; empty serves none. Nobody has to say who
	// they are there, so it is the node's own unless the user opens it.
	MetricsAddress string
}

// DefaultConfig has a value for every key that has one.
func DefaultConfig() Config {
	return Config{
		OVSDatabase:    "unix:/var/run/openvswitch/db.sock",
		DatapathType:   DatapathSystem,
		EncapType:      "geneve",
		GatewayBridge:  "br-ex",
		GatewayNetwork: "external",
		CNISocket:      "/run/weft/cni.sock",
		CNIConfDir:     "/etc/cni/net.d",
		CNIConfName:    "10-weft.conflist",
		CNITimeout:     50 * time.Second,
		MetricsAddress: "127.0.0.1:9471",
	}
}

// Least MTU of an uplink: IPv6 wants 1280 bytes inside the tunnel.
const minUplinkMTU = 1280 + overheadIPv4

// Validate reports every mistake at once, each with the key as the user writes it.
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if c.NodeName == "" {
		bad("node-name", "is empty; set it to the Node's name in Kubernetes")
	}
	if err := validRemotes(c.OVNSouthbound); err != nil {
		bad("ovn-southbound", "%v", err)
	}
	if err := validRemotes(c.OVSDatabase); err != nil {
		bad("ovs-database", "%v", err)
	}
	if c.DatapathType != DatapathSystem && c.DatapathType != DatapathNetdev {
		bad("datapath-type", "%q is neither %q nor %q", c.DatapathType, DatapathSystem, DatapathNetdev)
	}
	if c.EncapType != "geneve" {
		bad("encap-type", "%q is not supported; set it to \"geneve\"", c.EncapType)
	}
	if !c.EncapAddress.IsValid() || c.EncapAddress.IsUnspecified() || c.EncapAddress.IsLoopback() || c.EncapAddress.IsMulticast() {
		bad("encap-address", "%v cannot end a tunnel; set it to the node's address on the network between nodes", c.EncapAddress)
	}
	if c.UplinkMTU != 0 && (c.UplinkMTU < minUplinkMTU || c.UplinkMTU > 65535) {
		bad("uplink-mtu", "%d is outside %d to 65535; 0 reads it from the interface", c.UplinkMTU, minUplinkMTU)
	}
	c.validateGateway(bad)
	c.validateCNI(bad)
	if c.MetricsAddress != "" {
		if _, _, err := net.SplitHostPort(c.MetricsAddress); err != nil {
			bad("metrics-address", "%v; write it like \"127.0.0.1:9471\", or \":9471\" to serve everybody who reaches the node", err)
		}
	}
	return errors.Join(errs...)
}

func (c Config) validateCNI(bad func(key, format string, args ...any)) {
	if !filepath.IsAbs(c.CNISocket) {
		bad("cni-socket", "%q is not an absolute path", c.CNISocket)
	}
	if len(c.CNISocket) > 107 {
		bad("cni-socket", "%q is longer than the 107 bytes of a unix socket's address", c.CNISocket)
	}
	if !filepath.IsAbs(c.CNIConfDir) {
		bad("cni-conf-dir", "%q is not an absolute path", c.CNIConfDir)
	}
	if filepath.Base(c.CNIConfName) != c.CNIConfName || filepath.Ext(c.CNIConfName) != ".conflist" {
		bad("cni-conf-name", "%q is not a file name that ends with .conflist", c.CNIConfName)
	}
	if c.CNITimeout < time.Second {
		bad("cni-timeout", "%v is shorter than a second", c.CNITimeout)
	}
}

func (c Config) validateGateway(bad func(key, format string, args ...any)) {
	if len(c.GatewayAddresses) == 0 {
		if c.GatewayInterface != "" {
			bad("gateway-addresses", "is empty although gateway-interface is %q; the gateway router needs addresses of its own", c.GatewayInterface)
		}
		if len(c.GatewayNextHops) > 0 {
			bad("gateway-next-hops", "%v are of no use without gateway-addresses", c.GatewayNextHops)
		}
		return
	}
	for key, value := range map[string]string{"gateway-bridge": c.GatewayBridge, "gateway-interface": c.GatewayInterface} {
		if value == "" && key == "gateway-interface" {
			continue
		}
		if !interfaceName.MatchString(value) || value == "br-int" {
			bad(key, "%q is not the name of an interface that weft may use", value)
		}
	}
	if !networkName.MatchString(c.GatewayNetwork) {
		bad("gateway-network", "%q is not a name of letters, digits, '.', '_' and '-'", c.GatewayNetwork)
	}
	families := map[bool]netip.Prefix{}
	for _, prefix := range c.GatewayAddresses {
		if other, taken := families[prefix.Addr().Is4()]; taken {
			bad("gateway-addresses", "%v and %v are of one address family; one is enough", other, prefix)
		}
		if prefix.Masked().Addr() == prefix.Addr() && !prefix.IsSingleIP() {
			bad("gateway-addresses", "%v is a subnet; write the router's own address with the subnet's length", prefix)
		}
		families[prefix.Addr().Is4()] = prefix
	}
	for _, hop := range c.GatewayNextHops {
		if prefix, ok := families[hop.Is4()]; !ok || !prefix.Contains(hop) || prefix.Addr() == hop {
			bad("gateway-next-hops", "%v is not a neighbour in the subnet of gateway-addresses %v", hop, c.GatewayAddresses)
		}
	}
}

var (
	interfaceName = regexp.MustCompile(`^[^\s/:]{1,15}$`)
	networkName   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// validRemotes checks a comma-separated list of OVSDB connection methods.
func validRemotes(list string) error {
	if list == "" {
		return errors.New(`is empty; write it like "ssl:192.0.2.1:6642" or "unix:/path/db.sock"`)
	}
	for remote := range strings.SplitSeq(list, ",") {
		method, target, _ := strings.Cut(remote, ":")
		switch method {
		case "unix":
			if !filepath.IsAbs(target) {
				return fmt.Errorf("%q has no absolute path", remote)
			}
		case "tcp", "ssl":
			if host, port, err := net.SplitHostPort(target); err != nil || host == "" || port == "" {
				return fmt.Errorf("%q is not %s:ADDRESS:PORT", remote, method)
			}
		default:
			return fmt.Errorf("%q is neither unix:PATH nor tcp:ADDRESS:PORT nor ssl:ADDRESS:PORT", remote)
		}
	}
	return nil
}
