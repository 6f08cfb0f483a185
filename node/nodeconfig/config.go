package nodeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/hostfile"
	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/ovsdriver"
	"github.com/weftnet/weft/node/statefile"
	"github.com/weftnet/weft/ovsdb"
)

// Datapath types of Open vSwitch. On [DatapathNetdev] packets are switched in userspace, and the
// agent does for each attached device what that needs: no partial checksums, no second copy of a
// frame in the node's own stack.
const (
	DatapathSystem = "system"
	DatapathNetdev = "netdev"
)

// IntegrationBridge is the bridge that ovn-controller programs, with the ports of pods and host.
const IntegrationBridge = "br-int"

// Where a node's ovn-controller runs.
const (
	// ChassisLocal: on the node itself.
	ChassisLocal = "local"
	// ChassisHosted: on a chassis host, which reaches the node's Open vSwitch by the agent's tunnel.
	ChassisHosted = "hosted"
)

// How the pods of a node reach the outside.
const (
	// GatewayLocal: by the node's own gateway router, which gives them its address.
	GatewayLocal = "local"
	// GatewayRouted: by the node's own gateway router, with their own addresses. Whoever routes outside
	// knows that the node's pod subnets are behind it.
	GatewayRouted = "routed"
	// GatewayShared: by the gateway nodes.
	GatewayShared = "shared"
	// GatewayNone: not at all.
	GatewayNone = "none"
)

// What conntrack-lookup may be. Empty is as [LookupOff], on systems that do not have the key.
const (
	LookupAuto = "auto" // as the datapath needs it, see package ctprobe
	LookupOn   = "true"
	LookupOff  = "false"
)

// What an agent captures for users of `weft observe` who have the right.
const (
	CaptureOff  = "off"
	CapturePods = "pods" // the packets of pods
	CaptureAll  = "all"  // those of the node's tunnels, too
)

// ParseConntrackLookup reads auto, true or false.
func ParseConntrackLookup(text string) (string, error) {
	if text == LookupAuto {
		return LookupAuto, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return "", fmt.Errorf("%q is neither %q, %q nor %q", text, LookupAuto, LookupOn, LookupOff)
	}
	return strconv.FormatBool(on), nil
}

// Config is what `weft node` is told. The key in front of each comment is the user's name for the
// field, in flags, environment and file. Not every system offers every key; the fields of those
// that it does not offer keep what [Default] gives them.
type Config struct {
	// kubeconfig: credentials of a kubelet's kind (own Node, own Pods); empty inside a pod.
	Kubeconfig string
	// node-name: the Node's name in Kubernetes.
	NodeName string
	// ovn-southbound: the Southbound as ovn-controller dials it, for example
	// "ssl:192.0.2.1:6642,ssl:192.0.2.2:6642".
	OVNSouthbound string
	// ovn-monitor-all: whether the node's ovn-controller reads the whole Southbound, or only the part that the node needs.
	MonitorAll bool
	// ovn-rundir: where ovn-controller has its control socket. Empty: the folder of the OVS
	// database's socket, then the neighbouring "ovn".
	OVNRunDir string
	// ovs-database: the node's Open_vSwitch database.
	OVSDatabase string
	// ovs-openflow (Windows): the OpenFlow management connection of br-int. Empty: beside the OVS
	// database's socket.
	OVSOpenFlow string
	// ovs-control (Windows): where ovs-vswitchd takes commands. Empty: beside the OVS database's socket.
	OVSControl string
	// ovs-ofctl: Open vSwitch's program for flows, a path or a name in PATH.
	OVSOfctl string
	// chassis (Windows): [ChassisHosted] or [ChassisLocal].
	Chassis string
	// tunnel-address: HOST:PORT where the agent takes the streams of a chassis host and of `weft observe`. Without
	// HOST it listens on all addresses, and the others are told encap-address.
	TunnelAddress string
	// tunnel-ca, tunnel-certificate, tunnel-private-key: PEM files. A node that is not hosted and has none of them
	// takes no streams.
	TunnelCA, TunnelCertificate, TunnelPrivateKey string
	// capture: [CaptureOff], [CapturePods] or [CaptureAll].
	Capture string
	// adapter (Windows): the network adapter that pods share with the host. Empty: the one that holds
	// encap-address.
	Adapter string
	// hns-network (Windows): the name of the HNS network on it. Empty on systems without HNS.
	HNSNetwork string
	// ovs-driver (Windows): the kind of Open vSwitch's driver, one of ovsdriver.Kinds. Empty: the one that is
	// installed.
	OVSDriver string
	// datapath-type: "system" (kernel) or "netdev" (userspace).
	DatapathType string
	// encap-type: the tunnel protocol; OVN clusters with Windows nodes speak "geneve" only.
	EncapType string
	// encap-address: the node's tunnel end point.
	EncapAddress netip.Addr
	// encryption (Linux): [ipsec.Off], [ipsec.Begin] or [ipsec.Enforce].
	Encryption ipsec.Mode
	// encryption-ca, encryption-certificate, encryption-private-key (Linux): PEM files. The certificate's subject is
	// CN= and encap-address.
	EncryptionCA, EncryptionCertificate, EncryptionPrivateKey string
	// encryption-charon (Linux): the vici socket of strongSwan's charon.
	EncryptionCharon string
	// uplink-mtu: in bytes; 0 reads it from the interface that holds encap-address.
	UplinkMTU int
	// gateway: [GatewayLocal], [GatewayRouted], [GatewayShared] or [GatewayNone]. Empty: local on Windows and where
	// gateway-addresses or gateway-interface is set, else none.
	Gateway string
	// gateway-interface (Linux): the device that joins gateway-bridge; empty if the bridge has one
	// already. Without gateway-addresses the bridge takes over the device's addresses and routes: the
	// host goes on using them there.
	GatewayInterface string
	// gateway-bridge (Linux): the bridge to the outside, of a node that has a gateway of its own. On
	// Windows it is the bridge of the adapter.
	GatewayBridge string
	// gateway-network: the bridge's name in ovn-bridge-mappings.
	GatewayNetwork string
	// gateway-addresses: the gateway router's own on that network, at most one an address family. Empty:
	// it has those of the host on the bridge, see [contract.Gateway].HostAddresses.
	GatewayAddresses []netip.Prefix
	// gateway-next-hops: of the gateway router's default routes; several of one family share the load.
	// Empty: those of the host's default routes by the bridge, whenever they change.
	GatewayNextHops []netip.Addr
	// bridge-mappings: bridges to further external networks, which somebody else has made.
	BridgeMappings []BridgeMapping
	// cni-socket: where the agent listens for weft-cni: a unix socket's path, a named pipe on Windows.
	CNISocket string
	// cni-socket-prime (Windows, not shown): see [cni.Prime].
	PrimeSocket bool
	// state-dir (Windows): the folder of the agent's own files. Elsewhere that of cni-socket.
	StateDir string
	// data-dir (Linux): the folder of what the agent keeps over a boot. Windows keeps it in state-dir.
	DataDir string
	// cni-conf-dir, cni-conf-name: the file that tells the container runtime about weft.
	CNIConfDir  string
	CNIConfName string
	// cni-cache-dir: where the container runtime keeps the results of ADDs, in the folder results.
	CNICacheDir string
	// cni-timeout: how long an ADD waits for the pod's address and flows; kubelet's own limit for
	// a sandbox is four minutes, containerd's for a plugin none.
	CNITimeout time.Duration
	// vnic-timeout (Windows): how long a pod may have no network interface, or no flows, before an
	// Event says so. The agent goes on trying.
	VNICTimeout time.Duration
	// conntrack-lookup (Windows): flows look a packet up in a zone of no meaning before they commit a connection, which
	// Open vSwitch's driver needs since 2.17, see package ctlookup: [LookupAuto], [LookupOn] or [LookupOff]. Empty
	// elsewhere.
	ConntrackLookup string
	// conntrack-flush (Windows): the driver forgets single connections when an endpoint of UDP goes. Open vSwitch's
	// forgets others with them, see package ctlookup.
	ConntrackFlush bool
	// conntrack-ftp (Windows): packets of FTP and TFTP pass. Open vSwitch's driver reads them on its own, and may stop the
	// machine, see package ctlookup.
	ConntrackFTP bool
	// dns-services (Linux): the cluster's DNS Services, each NAMESPACE/NAME. What their pods on the node
	// answer is watched for the domain names in policies.
	DNSServices []string
	// metrics-address: of /metrics, /healthz and /readyz; empty serves none. Nobody has to say who
	// they are there, so it is the node's own unless the user opens it.
	MetricsAddress string
	// profiling: serve /debug/pprof there, too, to clients of the host itself.
	Profiling bool
}

// BridgeMapping says by which bridge a node reaches an external network, see ovn-bridge-mappings in
// ovn-controller(8).
type BridgeMapping struct{ Network, Bridge string }

// ParseBridgeMapping reads NETWORK:BRIDGE.
func ParseBridgeMapping(text string) (BridgeMapping, error) {
	network, bridge, found := strings.Cut(text, ":")
	if !found || network == "" || bridge == "" {
		return BridgeMapping{}, fmt.Errorf("%q is not NETWORK:BRIDGE, for example storage:br-storage", text)
	}
	return BridgeMapping{network, bridge}, nil
}

func (m BridgeMapping) String() string { return m.Network + ":" + m.Bridge }

// Least MTU of an uplink: IPv6 wants 1280 bytes inside the tunnel.
const MinUplinkMTU = 1280 + overheadIPv4

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
	if err := validLocal(c.OVSDatabase); err != nil {
		bad("ovs-database", "%v", err)
	}
	if c.OVSControl != "" {
		if _, err := localEndpoint(c.OVSControl); err != nil {
			bad("ovs-control", "%v", err)
		}
	}
	if c.OVSOfctl == "" {
		bad("ovs-ofctl", "is empty; set it to the program's path, or to \"ovs-ofctl\" where it is in PATH")
	}
	if c.DatapathType != DatapathSystem && c.DatapathType != DatapathNetdev {
		bad("datapath-type", "%q is neither %q nor %q", c.DatapathType, DatapathSystem, DatapathNetdev)
	}
	if c.EncapType != "geneve" {
		bad("encap-type", "%q is not supported; set it to \"geneve\"", c.EncapType)
	}
	if !c.EncapAddress.IsValid() {
		bad("encap-address", "is empty; set it to the node's address on the network between nodes")
	} else if c.EncapAddress.IsUnspecified() || c.EncapAddress.IsLoopback() || c.EncapAddress.IsMulticast() {
		bad("encap-address", "%v cannot end a tunnel; set it to the node's address on the network between nodes",
			c.EncapAddress)
	}
	if c.UplinkMTU != 0 && (c.UplinkMTU < MinUplinkMTU || c.UplinkMTU > 65535) {
		bad("uplink-mtu", "%d is outside %d to 65535; 0 reads it from the interface", c.UplinkMTU, MinUplinkMTU)
	}
	c.validateEncryption(bad)
	c.validateChassis(bad)
	c.validateUplink(bad)
	c.validateGateway(bad)
	c.validateCNI(bad)
	if !slices.Contains([]string{CaptureOff, CapturePods, CaptureAll}, c.Capture) {
		bad("capture", "%q is neither %q, %q nor %q", c.Capture, CaptureOff, CapturePods, CaptureAll)
	}
	if err := contract.CheckDNSServices(c.DNSServices); err != nil {
		errs = append(errs, err)
	}
	if c.MetricsAddress != "" {
		if _, _, err := net.SplitHostPort(c.MetricsAddress); err != nil {
			bad("metrics-address", "%v; write it like \"127.0.0.1:9471\", or \":9471\" to serve everybody who reaches "+
				"the node", err)
		}
	}
	return errors.Join(errs...)
}

func (c Config) validateCNI(bad func(key, format string, args ...any)) {
	if err := validSocket(c.CNISocket); err != nil {
		bad("cni-socket", "%v", err)
	}
	if c.DataDir != "" && !filepath.IsAbs(c.DataDir) {
		bad("data-dir", "%q is not an absolute path", c.DataDir)
	}
	if c.StateDir != "" && !filepath.IsAbs(c.StateDir) {
		bad("state-dir", "%q is not an absolute path", c.StateDir)
	}
	if !filepath.IsAbs(c.CNIConfDir) {
		bad("cni-conf-dir", "%q is not an absolute path", c.CNIConfDir)
	}
	if !filepath.IsAbs(c.CNICacheDir) {
		bad("cni-cache-dir", "%q is not an absolute path", c.CNICacheDir)
	}
	if filepath.Base(c.CNIConfName) != c.CNIConfName || filepath.Ext(c.CNIConfName) != ".conflist" {
		bad("cni-conf-name", "%q is not a file name that ends with .conflist", c.CNIConfName)
	}
	if c.CNITimeout < time.Second {
		bad("cni-timeout", "%v is shorter than a second", c.CNITimeout)
	}
	if c.VNICTimeout < time.Second {
		bad("vnic-timeout", "%v is shorter than a second", c.VNICTimeout)
	}
}

// validateChassis checks what a hosted chassis needs.
func (c Config) validateChassis(bad func(key, format string, args ...any)) {
	switch c.Chassis {
	case ChassisLocal:
		if !c.ServesTunnel() {
			return
		}
	case ChassisHosted:
	default:
		bad("chassis", "%q is neither %q nor %q", c.Chassis, ChassisHosted, ChassisLocal)
		return
	}
	if _, err := c.OpenFlow(); err != nil {
		bad("ovs-openflow", "%v", err)
	}
	if _, port, err := net.SplitHostPort(c.TunnelAddress); err != nil {
		bad("tunnel-address", "%v; write it like \"192.0.2.10:16642\", or \":16642\" for all addresses", err)
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		bad("tunnel-address", "%q has no port from 1 to 65535", c.TunnelAddress)
	}
	for key, file := range map[string]string{
		"tunnel-ca": c.TunnelCA, "tunnel-certificate": c.TunnelCertificate, "tunnel-private-key": c.TunnelPrivateKey,
	} {
		if file == "" {
			bad(key, "is empty; set it to a PEM file, since chassis hosts and `weft observe` are met by mutual TLS only")
		}
	}
}

// validateUplink checks what a system needs whose pods share the host's adapter.
func (c Config) validateUplink(bad func(key, format string, args ...any)) {
	if c.HNSNetwork != "" && !hnsName.MatchString(c.HNSNetwork) {
		bad("hns-network", "%q is not a name of up to 64 letters, digits, spaces, '.', '_' and '-'", c.HNSNetwork)
	}
	if err := ovsdriver.Validate(c.OVSDriver); err != nil {
		bad("ovs-driver", "%v", err)
	}
	if !slices.Contains([]string{"", LookupAuto, LookupOn, LookupOff}, c.ConntrackLookup) {
		bad("conntrack-lookup", "%q is neither %q, %q nor %q", c.ConntrackLookup, LookupAuto, LookupOn, LookupOff)
	}
	if strings.ContainsFunc(c.Adapter, func(r rune) bool { return unicode.IsControl(r) || r == '/' }) {
		bad("adapter", "%q is no name of a network adapter; `Get-NetAdapter` lists them", c.Adapter)
	}
}

// Encrypts says whether tunnels are, or may be, encrypted.
func (c Config) Encrypts() bool { return c.Encryption == ipsec.Begin || c.Encryption == ipsec.Enforce }

func (c Config) validateEncryption(bad func(key, format string, args ...any)) {
	if c.Encryption == "" {
		return
	}
	if _, err := ipsec.ParseMode(string(c.Encryption)); err != nil {
		bad("encryption", "%v", err)
		return
	}
	if !c.Encrypts() {
		return
	}
	if c.DatapathType != DatapathSystem {
		bad("encryption", "%q needs datapath-type %q: the tunnels of %q do not pass the kernel's IPsec; change one of them",
			c.Encryption, DatapathSystem, c.DatapathType)
	}
	for key, path := range map[string]string{
		"encryption-ca": c.EncryptionCA, "encryption-certificate": c.EncryptionCertificate,
		"encryption-private-key": c.EncryptionPrivateKey, "encryption-charon": c.EncryptionCharon,
	} {
		if !filepath.IsAbs(path) {
			bad(key, "%q is not an absolute path, and encryption is %q", path, c.Encryption)
		}
	}
}

// StateFolder is the folder of the agent's own files.
func (c Config) StateFolder() string { return cmp.Or(c.StateDir, filepath.Dir(c.CNISocket)) }

// DataFolder is the folder of the files that outlive the node's uptime.
func (c Config) DataFolder() string { return cmp.Or(c.DataDir, c.StateFolder()) }

var uplinkFile = &hostfile.File{
	Path: "{cni-socket}/../uplink.json", Mode: statefile.Mode,
	Content: "The addresses and routes of the host that are on a shared uplink (Linux).",
	Loss:    "Nothing as long as the host has its addresses, since the agent then reads them on the host.",
}

// UplinkFile is where a Linux node keeps what its host has on a shared uplink. It is beside the agent's socket, in a
// folder that ends with the node's uptime: so does what is in it.
func (c Config) UplinkFile() string { return uplinkFile.In(c.StateFolder()) }

// Owner marks what the agent makes for the node itself.
func (c Config) Owner() ovsdb.Owner { return ovsdb.Owner("Node/" + c.NodeName) }

// GatewayMode is how the node's pods reach the outside.
func (c Config) GatewayMode() string {
	switch {
	case c.Gateway != "":
		return c.Gateway
	// where host and pods share the adapter anyway
	case len(c.GatewayAddresses) > 0, c.GatewayInterface != "", c.HNSNetwork != "":
		return GatewayLocal
	}
	return GatewayNone
}

// OwnGateway says whether the node has a gateway router of its own.
func (c Config) OwnGateway() bool {
	return c.GatewayMode() == GatewayLocal || c.GatewayMode() == GatewayRouted
}

// HostGateway says whether that has the host's addresses.
func (c Config) HostGateway() bool { return c.OwnGateway() && len(c.GatewayAddresses) == 0 }

// SharesAdapter says whether host and pods share the host's adapter: on Windows always, on Linux where
// the gateway router has the host's addresses.
func (c Config) SharesAdapter() bool {
	return c.HNSNetwork != "" || c.HostGateway() && c.GatewayInterface != ""
}

// OpenFlow is where br-int takes OpenFlow connections.
func (c Config) OpenFlow() (ovsdb.Endpoint, error) {
	connection := c.OVSOpenFlow
	if connection == "" {
		first, _, _ := strings.Cut(c.OVSDatabase, ",")
		socket, isUnix := strings.CutPrefix(first, "unix:")
		if !isUnix {
			return ovsdb.Endpoint{}, fmt.Errorf("is empty, and ovs-database %q is no socket that it could be beside; write "+
				"it like \"unix:PATH/%s.mgmt\" or \"tcp:127.0.0.1:16653\"", c.OVSDatabase, IntegrationBridge)
		}
		connection = "unix:" + filepath.Join(filepath.Dir(socket), IntegrationBridge+".mgmt")
	}
	return localEndpoint(connection)
}

// localEndpoint reads a connection method to something on the node itself.
func localEndpoint(connection string) (ovsdb.Endpoint, error) {
	if err := validLocal(connection); err != nil {
		return ovsdb.Endpoint{}, err
	}
	endpoints, err := ovsdb.ParseEndpoints(connection)
	if err != nil {
		return ovsdb.Endpoint{}, err
	}
	if len(endpoints) != 1 {
		return ovsdb.Endpoint{}, fmt.Errorf("%q is more than one connection", connection)
	}
	return endpoints[0], nil
}

// BridgeTarget is a bridge as ovs-ofctl dials it: its socket beside the database's, or just its name.
func (c Config) BridgeTarget(bridge string) string {
	first, _, _ := strings.Cut(c.OVSDatabase, ",")
	socket, isUnix := strings.CutPrefix(first, "unix:")
	if !isUnix {
		return bridge
	}
	return "unix:" + filepath.Join(filepath.Dir(socket), bridge+".mgmt")
}

// ServesTunnel says whether the agent takes streams.
func (c Config) ServesTunnel() bool {
	return c.Chassis == ChassisHosted || c.TunnelCA+c.TunnelCertificate+c.TunnelPrivateKey != ""
}

// TunnelEnd is what chassis host and observer are to dial.
func (c Config) TunnelEnd() string {
	host, port, _ := net.SplitHostPort(c.TunnelAddress) // validated
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = c.EncapAddress.String()
	}
	return net.JoinHostPort(host, port)
}

func (c Config) validateGateway(bad func(key, format string, args ...any)) {
	switch c.GatewayMode() {
	case GatewayLocal, GatewayRouted:
		c.validateOwnGateway(bad)
	case GatewayShared, GatewayNone:
		if len(c.GatewayAddresses) > 0 {
			bad("gateway-addresses", "%v are of no use while gateway is %q; set it to %q or %q", c.GatewayAddresses,
				c.GatewayMode(), GatewayLocal, GatewayRouted)
		}
		if len(c.GatewayNextHops) > 0 {
			bad("gateway-next-hops", "%v are of no use while gateway is %q; set it to %q or %q", c.GatewayNextHops,
				c.GatewayMode(), GatewayLocal, GatewayRouted)
		}
	default:
		bad("gateway", "%q is none of %q, %q, %q and %q", c.Gateway, GatewayLocal, GatewayRouted, GatewayShared, GatewayNone)
	}
	c.validateMappings(bad)
}

func (c Config) validateOwnGateway(bad func(key, format string, args ...any)) {
	for key, value := range map[string]string{"gateway-bridge": c.GatewayBridge, "gateway-interface": c.GatewayInterface} {
		if value == "" && (key == "gateway-interface" || c.HNSNetwork != "") { // the uplink's bridge
			continue
		}
		if !interfaceName.MatchString(value) || value == IntegrationBridge {
			bad(key, "%q is not the name of an interface that weft may use", value)
		}
	}
	if c.GatewayInterface != "" && c.GatewayInterface == c.GatewayBridge {
		bad("gateway-interface", "%q is also gateway-bridge; name the device that leads outside, or leave the key empty "+
			"if the bridge has one", c.GatewayInterface)
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
	for i, hop := range c.GatewayNextHops {
		if slices.Contains(c.GatewayNextHops[:i], hop) {
			bad("gateway-next-hops", "%v is there twice", hop)
		}
		if len(c.GatewayAddresses) > 0 && !OnLink(c.GatewayAddresses, hop) {
			bad("gateway-next-hops", "%v is not a neighbour in the subnet of gateway-addresses %v", hop, c.GatewayAddresses)
		}
	}
}

// OnLink says whether a next hop is a neighbour of whoever has the addresses.
func OnLink(addresses []netip.Prefix, hop netip.Addr) bool {
	return slices.ContainsFunc(addresses, func(p netip.Prefix) bool {
		sameFamily := p.Addr().Is4() == hop.Is4()
		return sameFamily && p.Addr() != hop && (p.Contains(hop) || hop.Is6() && hop.IsLinkLocalUnicast())
	})
}

func (c Config) validateMappings(bad func(key, format string, args ...any)) {
	bridges := map[string]string{}
	if c.OwnGateway() {
		bridges[c.GatewayNetwork] = "" // the gateway's
	}
	for _, m := range c.BridgeMappings {
		other, taken := bridges[m.Network]
		switch {
		case !networkName.MatchString(m.Network):
			bad("bridge-mappings", "%q of %q is not a name of letters, digits, '.', '_' and '-'", m.Network, m)
		case strings.ContainsAny(m.Bridge, ",:/") || m.Bridge == "" || m.Bridge == IntegrationBridge:
			bad("bridge-mappings", "%q of %q is not the name of a bridge to the outside", m.Bridge, m)
		case taken && other == "":
			bad("bridge-mappings", "%q names gateway-network, whose bridge is the gateway's", m)
		case taken:
			bad("bridge-mappings", "network %s has the bridges %s and %s; a node reaches it by one", m.Network, other, m.Bridge)
		}
		bridges[m.Network] = m.Bridge
	}
}

var (
	interfaceName = regexp.MustCompile(`^[^\s/:]{1,15}$`)
	hnsName       = regexp.MustCompile(`^[A-Za-z0-9._ -]{1,64}$`)
	networkName   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// validLocal checks connection methods to something on the node itself. There is no certificate for
// those, so "ssl" is none of them.
func validLocal(list string) error {
	for remote := range strings.SplitSeq(list, ",") {
		if strings.HasPrefix(remote, "ssl:") {
			return fmt.Errorf("%q is not on the node itself; write it like \"unix:/path/db.sock\" or \"tcp:127.0.0.1:6640\"",
				remote)
		}
	}
	return validRemotes(list)
}

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
