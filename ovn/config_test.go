package ovn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

func TestConfigValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*settings.Config)
		want []string // words of the error; none means that it is valid
	}{
		{"defaults with what has none", func(*settings.Config) {}, nil},
		{"dual stack", ovntest.Dual, nil},
		{"IPv6 alone drops the IPv4 join range", func(c *settings.Config) {
			c.PodCIDRs, c.ServiceCIDRs = []string{"fd00:10:244::/48"}, []string{"fd00:10:96::/112"}
		}, nil},
		{"empty", func(c *settings.Config) { *c = settings.Config{} }, []string{"pod-cidrs: is empty",
			"service-cidrs: is empty", "join-cidrs: is empty",
			"ovn-northbound: is empty", "lease-name:", "lease-namespace:", "lease-duration:"}},
		{"no CIDR", func(c *settings.Config) { c.PodCIDRs = []string{"10.244.0.0"} },
			[]string{`pod-cidrs: "10.244.0.0" is not a CIDR`, "10.244.0.0/16"}},
		{"host bits", func(c *settings.Config) { c.ServiceCIDRs = []string{"10.96.0.1/16"} },
			[]string{"service-cidrs:", "write 10.96.0.0/16"}},
		{"IPv4 in IPv6", func(c *settings.Config) { c.PodCIDRs = []string{"::ffff:10.244.0.0/112"} },
			[]string{"pod-cidrs:", "write it as IPv4"}},
		{"two of a family", func(c *settings.Config) { c.PodCIDRs = []string{"10.244.0.0/16", "10.245.0.0/16"} },
			[]string{"pod-cidrs:", "more than one range"}},
		{"pods and services overlap", func(c *settings.Config) { c.ServiceCIDRs = []string{"10.244.128.0/20"} },
			[]string{"pod-cidrs: 10.244.0.0/16 overlaps with service-cidrs 10.244.128.0/20"}},
		{"pods and join overlap", func(c *settings.Config) { c.JoinCIDRs = []string{"10.0.0.0/8"} },
			[]string{"overlaps with join-cidrs 10.0.0.0/8"}},
		{"services of a family that pods lack", func(c *settings.Config) {
			c.ServiceCIDRs = append(c.ServiceCIDRs, "fd00:10:96::/112")
		},
			[]string{"service-cidrs: fd00:10:96::/112", "add a pod range"}},
		{"no join range of a family", func(c *settings.Config) { ovntest.Dual(c); c.JoinCIDRs = []string{"100.64.0.0/16"} },
			[]string{"join-cidrs:", "fd00:10:244::/48"}},
		{"a join range without room", func(c *settings.Config) { c.JoinCIDRs = []string{"100.64.0.0/31"} },
			[]string{"join-cidrs: 100.64.0.0/31 has no room"}},
		{"node mask wider than the range", func(c *settings.Config) { c.AllocateNodeCIDRs, c.NodeCIDRMaskIPv4 = true, 12 },
			[]string{"node-cidr-mask-size-ipv4: 12", "from 16 to 29"}},
		{"node mask too long", func(c *settings.Config) {
			ovntest.Dual(c)
			c.AllocateNodeCIDRs, c.NodeCIDRMaskIPv6 = true,
				128
		},
			[]string{"node-cidr-mask-size-ipv6: 128"}},
		{"node mask does not matter when Kubernetes allocates", func(c *settings.Config) { c.NodeCIDRMaskIPv4 = 1 }, nil},
		{"no bound of connections", func(c *settings.Config) { c.WindowsPodConnections, c.WindowsNodeConnections = 0, 0 },
			nil},
		{"fewer connections than none", func(c *settings.Config) { c.WindowsPodConnections = -1 },
			[]string{"windows-pod-connections: -1", "0 for no bound"}},
		{"fewer connections than probes take", func(c *settings.Config) {
			c.WindowsPodConnections, c.WindowsNodeConnections = 1, 4095
		},
			[]string{"windows-pod-connections: 1 is no bound", "kubelet's probes", "give 1024 to",
				"windows-node-connections: 4095", "give 4096 to"}},
		{"the fewest connections", func(c *settings.Config) {
			c.WindowsPodConnections, c.WindowsNodeConnections = 1024, 4096
		}, nil},
		{"more connections than there is room for", func(c *settings.Config) {
			c.WindowsPodConnections, c.WindowsNodeConnections = 1<<21+1, 1<<22
		},
			[]string{"windows-pod-connections: 2097153", "no room", "2097152", "windows-node-connections: 4194304"}},
		{"shared gateway", func(c *settings.Config) {
			ovntest.Dual(c)
			c.SharedGatewayAddresses, c.SharedGatewayNextHops = []string{"2001:db8::50/64", "203.0.113.50/24"},
				[]string{"203.0.113.254", "203.0.113.253", "2001:db8::ffff"}
		}, nil},
		{"next hops without a shared gateway", func(c *settings.Config) {
			c.SharedGatewayNextHops = []string{"203.0.113.254"}
		},
			[]string{"shared-gateway-addresses: is empty"}},
		{"a shared gateway without next hops", func(c *settings.Config) {
			c.SharedGatewayAddresses = []string{"203.0.113.50/24"}
		},
			[]string{"shared-gateway-next-hops:", "203.0.113.50/24"}},
		{"a shared address without a length", sharedGateway("203.0.113.50", "203.0.113.254"),
			[]string{`shared-gateway-addresses: "203.0.113.50"`, "203.0.113.10/24"}},
		{"a shared address that is a subnet's", sharedGateway("203.0.113.0/24", "203.0.113.254"),
			[]string{"shared-gateway-addresses: 203.0.113.0/24 is no host's address"}},
		{"a shared address that is everybody's", sharedGateway("203.0.113.255/24", "203.0.113.254"),
			[]string{"is no host's address"}},
		{"a shared address that is nobody's", sharedGateway("127.0.0.2/8", "127.0.0.1"), []string{"is no host's address"}},
		{"a shared address of a family that pods lack", sharedGateway("2001:db8::50/64", "2001:db8::1"),
			[]string{"has an address family that pod-cidrs"}},
		{"a shared address within the cluster", sharedGateway("10.244.0.50/24", "10.244.0.1"),
			[]string{"overlaps with 10.244.0.0/16"}},
		{"two shared addresses of a family", func(c *settings.Config) {
			c.SharedGatewayAddresses, c.SharedGatewayNextHops = []string{"203.0.113.50/24", "203.0.113.51/24"},
				[]string{"203.0.113.254"}
		}, []string{"more than one address of a family"}},
		{"a next hop elsewhere", sharedGateway("203.0.113.50/24", "198.51.100.1"),
			[]string{"shared-gateway-next-hops: 198.51.100.1 is not another address"}},
		{"a next hop that is the gateway", sharedGateway("203.0.113.50/24", "203.0.113.50"),
			[]string{"shared-gateway-next-hops: 203.0.113.50 is not another address"}},
		{"a next hop that is no address", sharedGateway("203.0.113.50/24", "router"),
			[]string{`shared-gateway-next-hops: "router" is not an IP address`}},
		{"a shared network without a name", func(c *settings.Config) {
			sharedGateway("203.0.113.50/24", "203.0.113.254")(c)
			c.SharedGatewayNetwork = ""
		},
			[]string{"shared-gateway-network:"}},
		{"unknown scheme", func(c *settings.Config) { c.Northbound = []string{"http://10.0.0.1:6641"} },
			[]string{"ovn-northbound:", `"http://10.0.0.1:6641"`, "ssl:HOST:PORT"}},
		{"no port", func(c *settings.Config) { c.Northbound = []string{"tcp:10.0.0.1"} },
			[]string{"ovn-northbound:", "missing port"}},
		{"no path", func(c *settings.Config) { c.Northbound = []string{"unix:"} },
			[]string{"ovn-northbound:", "names no socket"}},
		{"zones", func(c *settings.Config) { c.Northbound = []string{"a=tcp:10.0.0.1:6641", "b=unix:/run/b.sock"} }, nil},
		{"zones and none", func(c *settings.Config) { c.Northbound = []string{"a=tcp:10.0.0.1:6641", "tcp:10.0.0.2:6641"} },
			[]string{"ovn-northbound:", `"a=tcp:10.0.0.1:6641"`, `"tcp:10.0.0.2:6641"`, "of none"}},
		{"a zone with a wrong name", func(c *settings.Config) { c.Northbound = []string{"A_1=tcp:10.0.0.1:6641"} },
			[]string{"ovn-northbound:", `zone "A_1"`, contract.ZoneLabel}},
		{"a zone without a name", func(c *settings.Config) { c.Northbound = []string{"=tcp:10.0.0.1:6641"} },
			[]string{"ovn-northbound:", `"=tcp:10.0.0.1:6641"`, "unknown scheme"}},
		{"a zone's wrong endpoint", func(c *settings.Config) { c.Northbound = []string{"a=http:10.0.0.1:6641"} },
			[]string{"ovn-northbound:", "unknown scheme"}},
		{"too many zones", func(c *settings.Config) {
			c.Northbound = nil
			for i := range 65 {
				c.Northbound = append(c.Northbound, fmt.Sprintf("z%d=unix:/run/%d.sock", i, i))
			}
		}, []string{"ovn-northbound: names 65 zones"}},
		{"zones with a small transit-cidr", func(c *settings.Config) { twoZones(c); c.TransitCIDR = "100.88.0.0/20" },
			[]string{"transit-cidr:", `"100.88.0.0/20"`}},
		{"zones with another transit-cidr", func(c *settings.Config) { twoZones(c); c.TransitCIDR = "100.64.0.0/16" },
			[]string{"transit-cidr 100.64.0.0/16", "join-cidrs"}},
		{"a transit-cidr without zones", func(c *settings.Config) { c.TransitCIDR = "none" }, nil},
		{"zones with a shared gateway", func(c *settings.Config) {
			sharedGateway("203.0.113.50/24", "203.0.113.254")(c)
			c.Northbound = []string{"a=unix:/run/a.sock"}
		}, []string{"shared-gateway-addresses:", "with zones"}},
		{"ssl without files", func(c *settings.Config) { c.Northbound = []string{"ssl:[fd00::1]:6641"} },
			[]string{"ovn-ca:", "ovn-certificate:", "ovn-private-key:"}},
		{"ssl", func(c *settings.Config) {
			c.Northbound, c.CA, c.Certificate, c.PrivateKey = []string{"ssl:10.0.0.1:6641"}, "ca.pem", "cert.pem", "key.pem"
		}, nil},
		{"metrics address", func(c *settings.Config) { c.MetricsAddress = "9641" }, []string{"metrics-address:", `"9641"`,
			"HOST:PORT"}},
		{"lease name", func(c *settings.Config) { c.LeaseName = "Weft Controller" },
			[]string{"lease-name:", `"Weft Controller"`}},
		{"latency interval", func(c *settings.Config) { c.LatencyInterval = time.Second }, []string{"latency-interval: 1s",
			"10s or more"}},
		{"lease duration", func(c *settings.Config) { c.LeaseDuration = time.Second }, []string{"lease-duration: 1s"}},
		{"all at once", func(c *settings.Config) { c.PodCIDRs, c.Northbound, c.LeaseName = []string{"x"}, nil, "" },
			[]string{"pod-cidrs:", "ovn-northbound:", "lease-name:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := ovntest.Config()
			c.edit(&config)
			err := config.Validate()
			if len(c.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("no error; want %s", c.want)
			}
			for _, word := range c.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error lacks %q:\n%v", word, err)
				}
			}
		})
	}
}

func sharedGateway(address, next string) func(*settings.Config) {
	return func(c *settings.Config) {
		c.SharedGatewayAddresses, c.SharedGatewayNextHops = []string{address}, []string{next}
	}
}

// The default bounds of a Windows node's zones fill the driver's table and do not overfill it, with as many pods as
// kubelet has by default.
func TestDefaultConnectionsFitTheTable(t *testing.T) {
	const maxPods, table = 110, 1 << 21
	s := ovntest.Settings(t, func(*settings.Config) {})
	// each zone is there twice: TCP has one of its own
	if all := 2 * (maxPods*s.PodConnections + contract.Shares*s.NodeConnections); all != table {
		t.Errorf("%d places of %d are shared out", all, table)
	}
}
