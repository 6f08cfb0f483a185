package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ipam"
)

// Config is what the controller is told. Fields that hold addresses are kept as the user wrote them,
// so that [Config.Validate] can name the key and the value of what it refuses.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file; empty means the pod's own service account.
	// Key: kubeconfig.
	Kubeconfig string
	// Northbound are the endpoints of the OVN Northbound database: unix:PATH, tcp:HOST:PORT or
	// ssl:HOST:PORT. In a cluster with zones, each has its zone's name in front, as a=ssl:HOST:PORT.
	// Key: ovn-northbound.
	Northbound []string
	// TransitCIDR is the range of the addresses on the switch between the zones. It never leaves OVN. Key: transit-cidr.
	TransitCIDR string
	// CA, Certificate and PrivateKey are PEM files for ssl endpoints.
	// Keys: ovn-ca, ovn-certificate, ovn-private-key.
	CA, Certificate, PrivateKey string

	// PodCIDRs are the ranges of all pod addresses, at most one an address family. Key: pod-cidrs.
	PodCIDRs []string
	// ServiceCIDRs are the ranges of ClusterIPs from the start, at most one an address family; those of
	// the API server's ServiceCIDR objects are added at run time. Key: service-cidrs.
	ServiceCIDRs []string
	// NodePortRange are the ports that the API server gives Services on nodes, as its
	// --service-node-port-range has them. Key: node-port-range.
	NodePortRange string
	// HostPorts are ports of hosts' addresses that no Service and no pod gets, as tcp/22 or tcp/10250-10259.
	// Key: host-ports.
	HostPorts []string
	// HostCIDRs are addresses of hosts that are no nodes, as chassis hosts: no Service gets them by
	// spec.externalIPs. Those in ovn-northbound are among them anyway. Key: host-cidrs.
	HostCIDRs []string
	// HostExternalIPCIDRs are ranges of hosts' addresses that Services may have by spec.externalIPs all the same.
	// Key: host-external-ip-cidrs.
	HostExternalIPCIDRs []string
	// JoinCIDRs are the ranges that link the cluster's router with the nodes' gateway routers. They
	// never leave OVN, but must not overlap with anything pods talk to. Key: join-cidrs.
	JoinCIDRs []string
	// AllocateNodeCIDRs lets weft cut the nodes' pod subnets out of PodCIDRs where Kubernetes does
	// not (Node.spec.podCIDRs is empty). Key: allocate-node-cidrs.
	AllocateNodeCIDRs bool
	// NodeCIDRMaskIPv4 and NodeCIDRMaskIPv6 are the prefix lengths of such subnets.
	// Keys: node-cidr-mask-size-ipv4, node-cidr-mask-size-ipv6.
	NodeCIDRMaskIPv4, NodeCIDRMaskIPv6 int

	// SharedGatewayAddresses are those that pods of nodes with the shared gateway have outside, at most one an
	// address family, each with the length of its subnet, like 203.0.113.10/24; empty: there is no shared gateway.
	// Key: shared-gateway-addresses.
	SharedGatewayAddresses []string
	// SharedGatewayNextHops are the shared gateway's routers to everywhere else, in those subnets.
	// Key: shared-gateway-next-hops.
	SharedGatewayNextHops []string
	// SharedGatewayNetwork is the name that the gateway nodes' ovn-bridge-mappings give the bridge with
	// those subnets: the gateway-network of their agents. Key: shared-gateway-network.
	SharedGatewayNetwork string

	// DefaultGatewayNetwork is the network outside that the gateways of nodes without the label
	// weft.net/gateway-network may be on; empty: none is granted without the label. Key: default-gateway-network.
	DefaultGatewayNetwork string

	// WindowsPodConnections is how many connections a pod of a Windows node may have at a time, since all that the
	// node tracks is in one table; 0: as many as there is room for. Key: windows-pod-connections.
	WindowsPodConnections int
	// WindowsNodeConnections is how many connections each zone of a Windows node's gateway router may have; the host's
	// and the external bridge's may have more, see contract.Shares. 0: as many as there is room for.
	// Key: windows-node-connections.
	WindowsNodeConnections int

	// AllocateLoadBalancerAddresses has Services of type LoadBalancer without a loadBalancerClass get
	// addresses of AddressPools. Those with the class weft.net/address-pool get them in any case.
	// Key: allocate-load-balancer-addresses.
	AllocateLoadBalancerAddresses bool

	// PodNetworks has the controller tell nodes the addresses of their pods by one object PodNetworks for each node, in
	// place of an annotation of each pod. Key: pod-networks.
	PodNetworks bool

	// DNSServices are the cluster's DNS Services, as NAMESPACE/NAME: what nodes report of names in policies
	// counts where one of their pods runs. Key: dns-services.
	DNSServices []string

	// DNSNodes are Nodes whose word counts whatever pods are there, such as those with DNS servers that are static pods
	// or no pods. Key: dns-server-nodes.
	DNSNodes []string

	// MetricsAddress is where /metrics, /healthz and /readyz are served, as HOST:PORT; empty serves
	// nothing. Key: metrics-address.
	MetricsAddress string
	// Profiling adds /debug/pprof there, for clients of the host itself. Key: profiling.
	Profiling bool

	// LatencyInterval is how often the leader measures how long the Northbound takes to ovn-northd and to all chassis;
	// 0: never. Key: latency-interval.
	LatencyInterval time.Duration

	// LeaseNamespace and LeaseName name the Lease that elects the leader among several controllers.
	// Keys: lease-namespace, lease-name.
	LeaseNamespace, LeaseName string
	// LeaseDuration is how long a silent leader is still believed to be one. Key: lease-duration.
	LeaseDuration time.Duration
	// Identity tells this controller from the others that want the Lease; empty means host name and
	// a random suffix. Key: identity.
	Identity string
}

// DefaultConfig holds every default; what has none (pod-cidrs, service-cidrs, ovn-northbound) must be
// filled in.
func DefaultConfig() Config {
	return Config{
		TransitCIDR:      "100.88.0.0/16",
		JoinCIDRs:        []string{"100.64.0.0/16", "fd98::/64"},
		NodePortRange:    "30000-32767",
		HostPorts:        slices.Clone(contract.DefaultHostPorts),
		NodeCIDRMaskIPv4: 24,
		NodeCIDRMaskIPv6: 64,

		SharedGatewayNetwork:  "external",
		DefaultGatewayNetwork: "external",

		WindowsPodConnections:  defaultPodConnections,
		WindowsNodeConnections: defaultNodeConnections,

		DNSServices: slices.Clone(contract.DNSServices),

		MetricsAddress: "127.0.0.1:9641",

		LatencyInterval: time.Minute,

		LeaseNamespace: "kube-system",
		LeaseName:      "weft-controller",
		LeaseDuration:  6 * time.Second,
	}
}

// Validate checks everything and returns all that is wrong at once, each as "key: value: what is
// wrong; remedy".
func (c Config) Validate() error {
	_, err := c.Settings()
	return err
}

// Settings is a Config that was found good, in the types that the translation works with.
type Settings struct {
	Pods, Services, Joins []netip.Prefix // IPv4 first
	Allocate              bool
	mask4, mask6          int
	Shared                *contract.Gateway // nil when there is no shared gateway
	DefaultNetwork        string            // granted to nodes without a label, "" for none
	AllocateBalancers     bool
	PodConnections        int // of a pod on a Windows node, 0: not bounded
	NodeConnections       int // a share of the zones that all pods of a Windows node share, 0: not bounded
	NodePorts             PortRange
	HostPorts             contract.HostPorts
	ToldHostPorts         []string       // to nodes; nil: they know the default ones
	Hosts, HostExternals  []netip.Prefix // of hosts that are no nodes; of hosts that externalIPs may name
	PodNetworks           bool
	DNSServices           []string
	DNSNodes              []string
	Lacks                 Features
	Zones                 []Zone       // none: all nodes have one Northbound
	Transit               netip.Prefix // of the switch between the zones
}

// Features are what a Northbound older than the models lacks.
type Features struct{ AclTiers, ConditionalNAT bool }

// Mask is the prefix length of the node subnets cut out of pods.
func (s *Settings) Mask(pods netip.Prefix) int {
	if pods.Addr().Is4() {
		return s.mask4
	}
	return s.mask6
}

func (c Config) Settings() (*Settings, error) {
	var errs []error
	complain := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	prefixes := func(key string, values []string) []netip.Prefix {
		list, err := parseCIDRs(key, values)
		complain(err)
		return list
	}
	s := &Settings{
		Pods:     prefixes("pod-cidrs", c.PodCIDRs),
		Services: prefixes("service-cidrs", c.ServiceCIDRs),
		Joins:    prefixes("join-cidrs", c.JoinCIDRs),
		Allocate: c.AllocateNodeCIDRs, mask4: c.NodeCIDRMaskIPv4, mask6: c.NodeCIDRMaskIPv6,
		AllocateBalancers: c.AllocateLoadBalancerAddresses, PodNetworks: c.PodNetworks,
		DNSServices: c.DNSServices, DNSNodes: c.DNSNodes,
		DefaultNetwork: c.DefaultGatewayNetwork,
		PodConnections: c.WindowsPodConnections, NodeConnections: c.WindowsNodeConnections,
	}
	nodePorts, err := ParsePortRange(c.NodePortRange)
	complain(err)
	s.NodePorts = nodePorts
	complain(c.hostSettings(s))
	complain(c.zoneSettings(s))
	if c.DefaultGatewayNetwork != "" {
		complain(checkNetwork("default-gateway-network", c.DefaultGatewayNetwork,
			"give the gateway-network of the nodes that have no label of their own, or leave it empty"))
	}
	if len(errs) == 0 {
		complain(s.checkFamilies())
		complain(s.checkOverlaps())
		complain(s.checkMasks())
		shared, err := c.sharedGateway(s)
		complain(err)
		s.Shared = shared
	}
	complain(contract.CheckDNSServices(c.DNSServices))
	complain(checkDNSNodes(c.DNSNodes))
	complain(c.checkConnections())
	complain(c.checkNorthbound())
	complain(c.checkServing())
	complain(c.checkLatency())
	complain(c.checkLease())
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// parseCIDRs reads the values of one key: at least one, at most one a family, IPv4 first.
func parseCIDRs(key string, values []string) ([]netip.Prefix, error) {
	var v4, v6 []netip.Prefix
	for _, value := range values {
		p, err := netip.ParsePrefix(strings.TrimSpace(value))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %q is not a CIDR; write it like 10.244.0.0/16 or fd00:10:244::/48", key, value)
		case p != p.Masked():
			return nil, fmt.Errorf("%s: %q has bits set beyond its prefix length; write %s", key, value, p.Masked())
		case p.Addr().Is4In6():
			return nil, fmt.Errorf("%s: %q is an IPv4 address dressed as IPv6; write it as IPv4", key, value)
		case p.Addr().Is4():
			v4 = append(v4, p)
		default:
			v6 = append(v6, p)
		}
	}
	if len(v4) > 1 || len(v6) > 1 {
		return nil, fmt.Errorf("%s: %q holds more than one range of an address family; keep one IPv4 and one IPv6 "+
			"range at most",
			key, strings.Join(values, ","))
	}
	if len(v4)+len(v6) == 0 {
		return nil, fmt.Errorf("%s: is empty; give the range, like 10.244.0.0/16", key)
	}
	return append(v4, v6...), nil
}

// checkFamilies wants service and join ranges for exactly the families that pods have. The join
// ranges have defaults in both families: the one that pods lack is dropped.
func (s *Settings) checkFamilies() error {
	var errs []error
	for _, svc := range s.Services {
		if ipam.Family(s.Pods, svc.Addr()) == nil {
			errs = append(errs, fmt.Errorf("service-cidrs: %s has an address family that pod-cidrs %s lacks; add a "+
				"pod range of that family or drop it",
				svc, ipam.Join(s.Pods)))
		}
	}
	var joins []netip.Prefix
	for _, pods := range s.Pods {
		j := ipam.Family(s.Joins, pods.Addr())
		if j == nil {
			errs = append(errs, fmt.Errorf("join-cidrs: %s lacks a range of the address family of pod-cidrs %s; "+
				"add one, like 100.64.0.0/16 or fd98::/64",
				ipam.Join(s.Joins), pods))
			continue
		}
		if ipam.HostBits(*j) < 3 {
			errs = append(errs, fmt.Errorf("join-cidrs: %s has no room for a node; make it larger, like /16", *j))
		}
		joins = append(joins, *j)
	}
	s.Joins = joins
	return errors.Join(errs...)
}

func (s *Settings) checkOverlaps() error {
	type named struct {
		key    string
		prefix netip.Prefix
	}
	var all []named
	add := func(key string, list []netip.Prefix) {
		for _, p := range list {
			all = append(all, named{key, p})
		}
	}
	add("pod-cidrs", s.Pods)
	add("service-cidrs", s.Services)
	add("join-cidrs", s.Joins)
	add("transit-cidr", s.transits())
	add("weft's range", contract.OwnRanges[:])
	var errs []error
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.prefix.Overlaps(b.prefix) {
				errs = append(errs, fmt.Errorf("%s: %s overlaps with %s %s; choose ranges that are disjoint", a.key,
					a.prefix, b.key, b.prefix))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *Settings) checkMasks() error {
	if !s.Allocate {
		return nil
	}
	var errs []error
	for _, pods := range s.Pods {
		key, longest := "node-cidr-mask-size-ipv4", 29
		if pods.Addr().Is6() {
			key, longest = "node-cidr-mask-size-ipv6", 125
		}
		if mask := s.Mask(pods); mask < pods.Bits() || mask > longest {
			errs = append(errs, fmt.Errorf("%s: %d does not cut node subnets out of pod-cidrs %s; choose a length "+
				"from %d to %d",
				key, mask, pods, pods.Bits(), longest))
		}
	}
	return errors.Join(errs...)
}

func (c Config) checkNorthbound() error {
	if len(c.Northbound) == 0 {
		return errors.New("ovn-northbound: is empty; give the Northbound database's endpoints, like " +
			"ssl:10.0.0.1:6641,ssl:10.0.0.2:6641")
	}
	var errs []error
	tls := false
	for _, endpoint := range c.Northbound {
		_, endpoint = splitEndpoint(endpoint)
		scheme, rest, _ := strings.Cut(endpoint, ":")
		switch scheme {
		case "unix":
			if rest == "" {
				errs = append(errs, fmt.Errorf("ovn-northbound: %q names no socket; write "+
					"unix:/run/ovn/ovnnb_db.sock", endpoint))
			}
		case "tcp", "ssl":
			tls = tls || scheme == "ssl"
			if _, _, err := net.SplitHostPort(rest); err != nil {
				errs = append(errs, fmt.Errorf("ovn-northbound: %q: %w; write %s:HOST:PORT", endpoint, err, scheme))
			}
		default:
			errs = append(errs, fmt.Errorf("ovn-northbound: %q has an unknown scheme; write unix:PATH, "+
				"tcp:HOST:PORT or ssl:HOST:PORT", endpoint))
		}
	}
	if tls {
		for _, f := range [][2]string{{"ovn-ca", c.CA}, {"ovn-certificate", c.Certificate},
			{"ovn-private-key", c.PrivateKey}} {
			if f[1] == "" {
				errs = append(errs, fmt.Errorf("%s: is empty while ovn-northbound has ssl endpoints; give the PEM "+
					"file", f[0]))
			}
		}
	}
	return errors.Join(errs...)
}

func (c Config) checkServing() error {
	if c.MetricsAddress == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.MetricsAddress); err != nil {
		return fmt.Errorf("metrics-address: %q: %w; write HOST:PORT, like 127.0.0.1:9641 or :9641", c.MetricsAddress,
			err)
	}
	return nil
}

// leastLatencyInterval is that for each of whose ends all ovn-controllers wake and write to the Southbound.
const leastLatencyInterval = 10 * time.Second

func (c Config) checkLatency() error {
	if c.LatencyInterval != 0 && c.LatencyInterval < leastLatencyInterval {
		return fmt.Errorf("latency-interval: %s is too short, since each measurement wakes the ovn-controllers of all "+
			"nodes; use %s or more, or 0 for none", c.LatencyInterval, leastLatencyInterval)
	}
	return nil
}

func (c Config) checkLease() error {
	var errs []error
	for _, f := range [][2]string{{"lease-name", c.LeaseName}, {"lease-namespace", c.LeaseNamespace}} {
		if problems := validation.IsDNS1123Subdomain(f[1]); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%s: %q is not a Kubernetes name: %s", f[0], f[1],
				strings.Join(problems, "; ")))
		}
	}
	if c.LeaseDuration < 3*time.Second {
		errs = append(errs, fmt.Errorf("lease-duration: %s is too short to survive a slow API server; use 3s or "+
			"more (default 6s)", c.LeaseDuration))
	}
	return errors.Join(errs...)
}

// PortRange is all ports from first to last.
type PortRange struct{ First, Last uint16 }

func (r PortRange) Contains(port uint16) bool { return r.First <= port && port <= r.Last }

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// ParsePortRange reads the key node-port-range as kube-apiserver reads --service-node-port-range: FIRST-LAST,
// FIRST+MORE, or a single port.
func ParsePortRange(text string) (PortRange, error) {
	bad := fmt.Errorf("node-port-range: %q is not a range of ports; write it like 30000-32767", text)
	var first, last uint16
	for _, form := range []string{"%d-%d", "%d+%d", "%d"} {
		n, _ := fmt.Sscanf(text, form, &first, &last)
		if n == 0 {
			return PortRange{}, bad
		}
		switch form {
		case "%d":
			last = first
		case "%d+%d":
			if n == 2 && int(first)+int(last) > 65535 {
				return PortRange{}, bad
			}
			if n == 2 {
				last += first
			}
		}
		if r := (PortRange{first, last}); (form == "%d" || n == 2) && text == map[string]string{
			"%d-%d": r.String(), "%d+%d": fmt.Sprintf("%d+%d", first, last-first), "%d": fmt.Sprint(first)}[form] {
			if first == 0 || last < first {
				return PortRange{}, bad
			}
			return r, nil
		}
	}
	return PortRange{}, bad
}

// KeptByHosts are the addresses of hosts that are no nodes, except for ranges in which Services may have all of them.
func (s *Settings) KeptByHosts() []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(s.Hosts), func(p netip.Prefix) bool {
		return slices.ContainsFunc(s.HostExternals, func(open netip.Prefix) bool {
			return open.Bits() <= p.Bits() && open.Contains(p.Addr())
		})
	})
}

// ClusterRange is one of the cluster's own ranges that an address is in, and its key.
func (s *Settings) ClusterRange(overlaps func(netip.Prefix) bool) (key string, in netip.Prefix, ok bool) {
	for _, own := range []struct {
		key  string
		list []netip.Prefix
	}{{"pod-cidrs", s.Pods}, {"service-cidrs", s.Services}, {"join-cidrs", s.Joins}, {"transit-cidr", s.transits()},
		{"weft's range", contract.OwnRanges[:]}} {
		for _, p := range own.list {
			if overlaps(p) {
				return own.key, p, true
			}
		}
	}
	return "", netip.Prefix{}, false
}

// JoinAddresses are a router's on the join switch: the cluster's router is number 0, the gateway
// router of a node has the node's ID, and the shared gateway the number after the largest ID.
func (s *Settings) JoinAddresses(number int) []netip.Prefix {
	list := make([]netip.Prefix, len(s.Joins))
	for i, j := range s.Joins {
		list[i] = netip.PrefixFrom(JoinAddress(j, number), j.Bits())
	}
	return list
}

// JoinAddress is that of a router by its number. Endpoints see it as the client of what a gateway router balances,
// except for Services with externalTrafficPolicy: Local.
func JoinAddress(join netip.Prefix, number int) netip.Addr { return ipam.Nth(join, uint64(1+number)) }

// MaxNodeID is the largest node ID that has an address in every join range.
func (s *Settings) MaxNodeID() int {
	most := ipam.MaxPool
	for _, j := range s.Joins {
		if b := ipam.HostBits(j); b < 16 {
			most = min(most, 1<<b)
		}
	}
	most -= 4 // network, cluster router, shared gateway, broadcast
	if len(s.Zones) > 0 {
		most = min(most, lastNumber-mostZones)
	}
	return most
}

// SharedNumber is the shared gateway's on the join switch.
func (s *Settings) SharedNumber() int { return s.MaxNodeID() + 1 }

// Families are those of pods' addresses.
func (s *Settings) Families() []bool {
	list := make([]bool, len(s.Pods))
	for i, p := range s.Pods {
		list[i] = p.Addr().Is4()
	}
	return list
}

// checkDNSNodes checks the key dns-server-nodes.
func checkDNSNodes(nodes []string) error {
	for _, node := range nodes {
		if why := validation.IsDNS1123Subdomain(node); len(why) > 0 {
			return fmt.Errorf("dns-server-nodes: %q is no name of a Node: %s", node, why[0])
		}
	}
	return nil
}

// checkNetwork checks the name of a network outside, which nodes' labels have to hold. The remedy follows.
func checkNetwork(key, name, remedy string) error {
	if problems := validation.IsValidLabelValue(name); len(problems) > 0 || name == "" {
		return fmt.Errorf("%s: %q is no name of a network: it has 63 letters, digits, '.', '_' and '-' at most, "+
			"and begins and ends with a letter or digit; %s",
			key, strings.TrimSpace(name), remedy)
	}
	return nil
}
