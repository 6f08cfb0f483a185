package nodeconfig

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// validConfig is what works on each system, without what some have alone.
func validConfig() Config {
	c := Default()
	c.Chassis, c.HNSNetwork, c.Gateway, c.GatewayBridge, c.ConntrackLookup = ChassisLocal, "", "", "br-ex", ""
	c.NodeName, c.EncapAddress = "n1", netip.MustParseAddr("192.0.2.10")
	c.OVNSouthbound = "ssl:192.0.2.1:6642,ssl:[2001:db8::1]:6642"
	return c
}

func TestValidateAcceptsWhatWorks(t *testing.T) {
	withGateway := validConfig()
	withGateway.GatewayInterface = "eth1"
	withGateway.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24"),
		netip.MustParsePrefix("2001:db8:1::5/64")}
	withGateway.GatewayNextHops = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:1::1")}
	several := withGateway
	several.GatewayNextHops = append(slices.Clone(several.GatewayNextHops), netip.MustParseAddr("198.51.100.2"),
		netip.MustParseAddr("fe80::1"))
	several.Gateway = GatewayRouted
	hosts := validConfig()
	hosts.GatewayInterface, hosts.GatewayNextHops = "eth1", several.GatewayNextHops
	theirs := validConfig()
	theirs.Gateway = GatewayLocal // by a bridge that has a device already
	without := hosts
	without.Gateway, without.GatewayNextHops = GatewayShared, nil
	mapped := without
	mapped.BridgeMappings = []BridgeMapping{{"external", "br-ex"}, {"storage", "vEthernet (Storage)"}}
	for _, c := range []Config{validConfig(), withGateway, several, hosts, theirs, without, mapped} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestValidateNamesTheKey(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"node-name":                    func(c *Config) { c.NodeName = "" },
		"ovn-southbound: is empty":     func(c *Config) { c.OVNSouthbound = "" },
		"ovn-southbound: \"192":        func(c *Config) { c.OVNSouthbound = "192.0.2.1:6642" },
		"ovn-southbound: \"ssl:":       func(c *Config) { c.OVNSouthbound = "ssl:192.0.2.1" },
		"ovs-database":                 func(c *Config) { c.OVSDatabase = "unix:db.sock" },
		"datapath-type":                func(c *Config) { c.DatapathType = "dpdk" },
		"encap-type":                   func(c *Config) { c.EncapType = "vxlan" },
		"encap-address: 127.0.0.1":     func(c *Config) { c.EncapAddress = netip.MustParseAddr("127.0.0.1") },
		"encap-address: is empty":      func(c *Config) { c.EncapAddress = netip.Addr{} },
		"uplink-mtu":                   func(c *Config) { c.UplinkMTU = 1300 },
		"gateway: \"all\"":             func(c *Config) { c.Gateway = "all" },
		"gateway-interface: \"br-ex\"": func(c *Config) { c.GatewayInterface = "br-ex" },
		"of no use while gateway is \"none\"": func(c *Config) {
			c.Gateway, c.GatewayAddresses = GatewayNone, []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24")}
		},
		"gateway-next-hops: 198.51.100.1 is there twice": func(c *Config) {
			c.GatewayInterface = "eth1"
			c.GatewayNextHops = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.1")}
		},
		"gateway-next-hops: 198.51.100.5": func(c *Config) {
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24")}
			c.GatewayNextHops = []netip.Addr{netip.MustParseAddr("198.51.100.5")}
		},
		"bridge-mappings: \"a b\"":    func(c *Config) { c.BridgeMappings = []BridgeMapping{{"a b", "br1"}} },
		"bridge-mappings: \"br-int\"": func(c *Config) { c.BridgeMappings = []BridgeMapping{{"storage", "br-int"}} },
		"bridge-mappings: \"br1,x\"":  func(c *Config) { c.BridgeMappings = []BridgeMapping{{"storage", "br1,x"}} },
		"storage has the bridges br1 and b": func(c *Config) {
			c.BridgeMappings = []BridgeMapping{{"storage", "br1"}, {"storage", "br2"}}
		},
		"names gateway-network": func(c *Config) {
			c.GatewayInterface, c.BridgeMappings = "eth1", []BridgeMapping{{"external", "br1"}}
		},
		"gateway-addresses: 198.51.100.0/24 is a subnet": func(c *Config) {
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		},
		"one address family": func(c *Config) {
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24"),
				netip.MustParsePrefix("198.51.100.6/24")}
		},
		"gateway-next-hops: 203.0.113.1": func(c *Config) {
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24")}
			c.GatewayNextHops = []netip.Addr{netip.MustParseAddr("203.0.113.1")}
		},
		"gateway-next-hops: [198.51.100.1]": func(c *Config) {
			c.GatewayNextHops = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
		},
		"gateway-bridge": func(c *Config) {
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24")}
			c.GatewayBridge = "br-int"
		},
		"gateway-interface": func(c *Config) {
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24")}
			c.GatewayInterface = "a name with spaces"
		},
		"gateway-network": func(c *Config) {
			c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24")}
			c.GatewayNetwork = "a,b:c"
		},
		"cni-socket":      func(c *Config) { c.CNISocket = "cni.sock" },
		"cni-conf-dir":    func(c *Config) { c.CNIConfDir = "net.d" },
		"cni-cache-dir":   func(c *Config) { c.CNICacheDir = "cni" },
		"cni-conf-name":   func(c *Config) { c.CNIConfName = "../10-weft.conf" },
		"cni-timeout":     func(c *Config) { c.CNITimeout = 0 },
		"metrics-address": func(c *Config) { c.MetricsAddress = "9471" },
	} {
		c := validConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("want %q in %v", key, err)
		}
	}
}

func TestGatewayByDefault(t *testing.T) {
	addresses := []netip.Prefix{netip.MustParsePrefix("198.51.100.5/24")}
	for name, test := range map[string]struct {
		change        func(*Config)
		want          string
		hosts, shares bool
	}{
		"nothing is said": {func(*Config) {}, GatewayNone, false, false},
		"an interface":    {func(c *Config) { c.GatewayInterface = "eth1" }, GatewayLocal, true, true},
		"addresses":       {func(c *Config) { c.GatewayAddresses = addresses }, GatewayLocal, false, false},
		"both": {func(c *Config) { c.GatewayInterface, c.GatewayAddresses = "eth1", addresses },
			GatewayLocal, false, false},
		"local by a bridge that is": {func(c *Config) { c.Gateway = GatewayLocal }, GatewayLocal, true, false},
		"routed": {func(c *Config) { c.Gateway, c.GatewayInterface = GatewayRouted, "eth1" },
			GatewayRouted, true, true},
		"shared, with an interface": {func(c *Config) { c.Gateway, c.GatewayInterface = GatewayShared, "eth1" },
			GatewayShared, false, false},
		"none, with an interface": {func(c *Config) { c.Gateway, c.GatewayInterface = GatewayNone, "eth1" },
			GatewayNone, false, false},
		"Windows, nothing is said": {func(c *Config) { c.HNSNetwork = "weft" }, GatewayLocal, true, true},
		"Windows, local": {func(c *Config) { c.HNSNetwork, c.Gateway = "weft", GatewayLocal }, GatewayLocal,
			true, true},
		"Windows, local, of addresses": {func(c *Config) { c.HNSNetwork, c.GatewayAddresses = "weft", addresses },
			GatewayLocal, false, true},
	} {
		c := validConfig()
		test.change(&c)
		if c.GatewayMode() != test.want || c.HostGateway() != test.hosts || c.SharesAdapter() != test.shares {
			t.Errorf("%s: %s, host's addresses %v, shared adapter %v", name, c.GatewayMode(), c.HostGateway(), c.SharesAdapter())
		}
	}
}

func TestBridgeMappingsAsTheUserWritesThem(t *testing.T) {
	for text, want := range map[string]BridgeMapping{
		"storage:br-storage": {"storage", "br-storage"}, "a:b:c": {"a", "b:c"}, "storage": {}, ":br": {}, "storage:": {},
		"": {},
	} {
		if got, err := ParseBridgeMapping(text); got != want || (err == nil) != (want != BridgeMapping{}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// hostedConfig is what works on a node with a hosted chassis and a shared adapter. Its paths are of no
// system.
func hostedConfig() Config {
	c := validConfig()
	c.OVSDatabase, c.OVSOpenFlow = "tcp:127.0.0.1:16640", "tcp:127.0.0.1:16653"
	c.Chassis, c.TunnelAddress = ChassisHosted, ":16642"
	c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey = "ca", "crt", "key"
	c.HNSNetwork, c.Gateway = "weft", GatewayNone
	return c
}

func TestValidateOfHostedNodesNamesTheKey(t *testing.T) {
	gateway := []netip.Prefix{netip.MustParsePrefix("192.0.2.110/24")}
	for key, spoil := range map[string]func(*Config){
		"":                               func(*Config) {},
		"chassis: \"both\"":              func(c *Config) { c.Chassis = "both" },
		"ovs-database: \"ssl":            func(c *Config) { c.OVSDatabase = "ssl:127.0.0.1:1" },
		"ovs-openflow: is empty":         func(c *Config) { c.OVSOpenFlow = "" },
		"ovs-openflow: \"ssl":            func(c *Config) { c.OVSOpenFlow = "ssl:127.0.0.1:1" },
		"ovs-openflow: \"tcp:1.1.1.1:1,": func(c *Config) { c.OVSOpenFlow = "tcp:1.1.1.1:1,tcp:1.1.1.1:2" },
		"ovs-control: \"ssl":             func(c *Config) { c.OVSControl = "ssl:127.0.0.1:1" },
		"ovs-control: \"tcp:1.1.1.1:1,":  func(c *Config) { c.OVSControl = "tcp:1.1.1.1:1,tcp:1.1.1.1:2" },
		"tunnel-address: address":        func(c *Config) { c.TunnelAddress = "16642" },
		"tunnel-address: \":0\"":         func(c *Config) { c.TunnelAddress = ":0" },
		"tunnel-ca":                      func(c *Config) { c.TunnelCA = "" },
		"tunnel-certificate":             func(c *Config) { c.TunnelCertificate = "" },
		"tunnel-private-key":             func(c *Config) { c.TunnelPrivateKey = "" },
		"adapter":                        func(c *Config) { c.Adapter = "a/b" },
		"hns-network":                    func(c *Config) { c.HNSNetwork = "a;b" },
		"gateway: \"all\"":               func(c *Config) { c.Gateway = "all" },
		"of no use while gateway is \"shared\"": func(c *Config) {
			c.Gateway, c.GatewayAddresses = GatewayShared, gateway
		},
		"state-dir":    func(c *Config) { c.StateDir = "weft" },
		"data-dir":     func(c *Config) { c.DataDir = "weft" },
		"vnic-timeout": func(c *Config) { c.VNICTimeout = 0 },
		"conntrack-lookup: \"sometimes\" is neither \"auto\"": func(c *Config) { c.ConntrackLookup = "sometimes" },
	} {
		c := hostedConfig()
		spoil(&c)
		err := c.Validate()
		if key == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("want %q in %v", key, err)
		}
	}
}

func TestTunnelEndIsWhereTheChassisHostFindsTheNode(t *testing.T) {
	for listen, want := range map[string]string{
		":16642": "192.0.2.10:16642", "0.0.0.0:16642": "192.0.2.10:16642", "[::]:1": "192.0.2.10:1",
		"198.51.100.1:2": "198.51.100.1:2", "[2001:db8::1]:3": "[2001:db8::1]:3",
	} {
		c := hostedConfig()
		c.TunnelAddress = listen
		if got := c.TunnelEnd(); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}

func TestMetricsAreTheNodesOwnByDefault(t *testing.T) {
	address, err := netip.ParseAddrPort(Default().MetricsAddress)
	if err != nil || !address.Addr().IsLoopback() {
		t.Errorf("metrics-address %q, %v", Default().MetricsAddress, err)
	}
}

func TestValidateReportsAllMistakes(t *testing.T) {
	c := validConfig()
	c.NodeName, c.DatapathType, c.CNISocket = "", "x", "x"
	err := c.Validate()
	for _, key := range []string{"node-name", "datapath-type", "cni-socket"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("no %s in %v", key, err)
		}
	}
}

func TestPodMTU(t *testing.T) {
	for _, test := range []struct {
		uplink int
		encap  string
		esp    bool
		want   int
	}{
		{1500, "192.0.2.1", false, 1442}, {1500, "2001:db8::1", false, 1422}, {9000, "192.0.2.1", false, 8942},
		{1500, "192.0.2.1", true, 1408}, {1500, "2001:db8::1", true, 1388}, {9000, "192.0.2.1", true, 8908},
		{1499, "192.0.2.1", true, 1404},
	} {
		if got := PodMTU(test.uplink, netip.MustParseAddr(test.encap), test.esp); got != test.want {
			t.Errorf("%d over %s, ESP %v: %d, want %d", test.uplink, test.encap, test.esp, got, test.want)
		}
	}
}

func TestBridgeTarget(t *testing.T) {
	socket := "unix:" + filepath.FromSlash("/run/openvswitch/br-ex.mgmt")
	for database, want := range map[string]string{
		"unix:/run/openvswitch/db.sock":                    socket,
		"unix:/run/openvswitch/db.sock,tcp:127.0.0.1:6640": socket,
		"tcp:127.0.0.1:16640":                              "br-ex",
	} {
		if got := (Config{OVSDatabase: database}).BridgeTarget("br-ex"); got != want {
			t.Errorf("%s: got %s, want %s", database, got, want)
		}
	}
}

func TestParseConntrackLookup(t *testing.T) {
	for text, want := range map[string]string{
		"auto": LookupAuto, "true": LookupOn, "True": LookupOn, "1": LookupOn, "false": LookupOff, "0": LookupOff,
		"": "", "Auto": "", "yes": "", "automatic": "",
	} {
		got, err := ParseConntrackLookup(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
}
