package lab

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/test/lab/machine"
	"github.com/weftnet/weft/test/lab/pki"
)

func config(families Families) Config {
	return Config{Name: "weft", Linux: 3, Windows: 2, Families: families, OVN: OVNPrefix, Gateway: GatewayHost,
		MTU: DefaultMTU, Controllers: 2, Bin: "/project/bin"}
}

var someFiles = files{dir: "/state/weft", bin: "/project/bin", ovn: OVNPrefix, containerd: 1}

func someLayout(c Config) layout { return newLayout(c, someFiles) }

func manifestsOf(c Config) string { return manifests{someLayout(c)}.text() }

// subjectsOf the cluster's certificates, by file name.
func subjectsOf(c Config) map[string]pki.Subject {
	return certificates{someLayout(c)}.clusterSubjects()
}

func TestValidateNamesTheFlag(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--name":        func(c *Config) { c.Name = "Weft/1" },
		"--linux":       func(c *Config) { c.Linux = 0 },
		"--windows":     func(c *Config) { c.Windows = MaxNodes },
		"--ovn":         func(c *Config) { c.OVN = "26.03" },
		"--gateway":     func(c *Config) { c.Gateway = "shared" },
		"--controllers": func(c *Config) { c.Controllers = 9 },
		"--zones":       func(c *Config) { c.Zones = MaxZones + 1 },
	} {
		c := config(IPv4)
		if err := c.Validate(); err != nil {
			t.Fatalf("a good configuration is refused: %v", err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error should name %s, it is: %v", want, err)
		}
	}
}

func TestEveryMachineHasAddressesOfItsOwn(t *testing.T) {
	for families, perInterface := range map[Families]int{IPv4: 1, IPv6: 1, Dual: 2} {
		seen := map[netip.Addr]string{}
		for _, spec := range specs(withZones(families, MaxZones), someFiles) {
			for _, i := range spec.Interfaces {
				if i.Switched != (len(i.Addresses) == 0) {
					t.Errorf("%s: %s of %s is switched: %v, and has the addresses %v", families, i.Name, spec.Name, i.Switched,
						i.Addresses)
				}
				if !i.Switched && len(i.Addresses) != perInterface {
					t.Errorf("%s: %s of %s has %v", families, i.Name, spec.Name, i.Addresses)
				}
				for _, text := range i.Addresses {
					addr := netip.MustParsePrefix(text).Addr()
					if other := seen[addr]; other != "" {
						t.Errorf("%s: %v is an address of %s and of %s", families, addr, other, spec.Name)
					}
					seen[addr] = spec.Name
				}
			}
		}
	}
}

func TestInterfacesAndTheirPortsHaveNamesThatFit(t *testing.T) {
	c := withZones(IPv4, MaxZones)
	c.Linux, c.Windows = 1, MaxNodes-1
	for _, spec := range specs(c, someFiles) {
		for _, i := range spec.Interfaces {
			if port := machine.PortName(spec.Name, i.Bridge); len(port) > 15 || len(i.Name) > 15 {
				t.Errorf("%s or %s is longer than an interface's name may be", port, i.Name)
			}
		}
	}
}

// flag is the value that a component's command gives a flag.
func flag(t *testing.T, spec *machine.Spec, component, name string) string {
	t.Helper()
	i := slices.IndexFunc(spec.Components, func(c machine.Component) bool { return c.Name == component })
	if i < 0 {
		t.Fatalf("%s has no component %s", spec.Name, component)
	}
	for _, arg := range spec.Components[i].Command {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	t.Fatalf("%s has no flag --%s", component, name)
	return ""
}

// flags are those of a lab's components that have addresses, by name.
func flags(t *testing.T, c Config) map[string]string {
	t.Helper()
	central, second := specOf(t, c, Central), nodeSpecs(c, someFiles)[1]
	got := map[string]string{}
	for component, names := range map[string][]string{
		"weft-controller": {"pod-cidrs", "ovn-northbound"}, "kube-apiserver": {"advertise-address"},
		"kube-controller-manager": {"cluster-cidr"},
	} {
		for _, name := range names {
			got[name] = flag(t, central, component, name)
		}
	}
	got["node-ip"] = flag(t, second, "kubelet", "node-ip")
	for _, name := range []string{"encap-address", "ovn-southbound"} {
		got[name] = flag(t, second, "weft-node", name)
	}
	return got
}

func TestComponentsAreToldAddressesOfTheClustersFamilies(t *testing.T) {
	for families, want := range map[Families]map[string]string{
		IPv4: {
			"pod-cidrs": "10.244.0.0/16", "advertise-address": "172.29.0.1", "node-ip": "172.31.0.12",
			"encap-address":  "172.30.0.12",
			"ovn-southbound": "ssl:172.30.0.1:6642", "ovn-northbound": "ssl:172.29.0.1:6641", "cluster-cidr": "10.244.0.0/16",
		},
		IPv6: {
			"pod-cidrs": "fd00:10:244::/48", "advertise-address": "fd00:29::1", "node-ip": "fd00:31::12",
			"encap-address":  "fd00:30::12",
			"ovn-southbound": "ssl:[fd00:30::1]:6642", "ovn-northbound": "ssl:[fd00:29::1]:6641",
			"cluster-cidr": "fd00:10:244::/48",
		},
		Dual: {
			"pod-cidrs": "10.244.0.0/16,fd00:10:244::/48", "advertise-address": "172.29.0.1",
			"node-ip": "172.31.0.12,fd00:31::12", "encap-address": "172.30.0.12",
			"ovn-southbound": "ssl:172.30.0.1:6642", "ovn-northbound": "ssl:172.29.0.1:6641",
			"cluster-cidr": "10.244.0.0/16,fd00:10:244::/48",
		},
	} {
		if got := flags(t, config(families)); !maps.Equal(got, want) {
			t.Errorf("%s: the flags are %v, want %v", families, got, want)
		}
	}
}

func TestAGatewayIsToldAddressesOnlyIfTheyAreItsOwn(t *testing.T) {
	for families, want := range map[Families][3]string{
		IPv4: {"172.29.0.12", "172.31.0.12/24", "172.31.0.254"},
		IPv6: {"fd00:29::12", "fd00:31::12/64", "fd00:31::254"},
		Dual: {"172.29.0.12,fd00:29::12", "172.31.0.12/24,fd00:31::12/64", "172.31.0.254,fd00:31::254"},
	} {
		c := config(families)
		for _, spec := range nodeSpecs(c, someFiles) {
			if file := agentFile(t, spec); file != "gateway: local\n" {
				t.Errorf("%s: the agent of %s, whose gateway shares its host's, is told %q", families, spec.Name, file)
			}
		}
		c.Gateway = GatewayOwn
		node := nodeSpecs(c, someFiles)[1]
		got := [3]string{flag(t, node, "kubelet", "node-ip"), agentKey(t, node, "gateway-addresses"),
			agentKey(t, node, "gateway-next-hops")}
		if got != want {
			t.Errorf("%s: node address, gateway's addresses and next hops are %v, want %v", families, got, want)
		}
	}
}

// The API server refuses a kubelet whose certificate lacks the address that it dials.
func TestKubeletsCertificatesHaveTheNodesAddresses(t *testing.T) {
	for _, gateway := range []string{GatewayHost, GatewayOwn} {
		c := config(Dual)
		c.Gateway = gateway
		for _, spec := range nodeSpecs(c, someFiles) {
			if got, want := join(subjectsOf(c)[spec.Name].Addresses), flag(t, spec, "kubelet", "node-ip"); got != want {
				t.Errorf("--gateway %s: the certificate of %s has %s, its node %s", gateway, spec.Name, got, want)
			}
		}
	}
}

// A node finds its gateway's next hops in its own routes.
func TestDefaultRoutesLeaveByTheNodesNetwork(t *testing.T) {
	for _, gateway := range []string{GatewayHost, GatewayOwn} {
		c := config(Dual)
		c.Gateway = gateway
		for _, spec := range nodeSpecs(c, someFiles) {
			for i, address := range strings.Split(flag(t, spec, "kubelet", "node-ip"), ",") {
				bits := []int{24, 64}[i]
				subnet := netip.PrefixFrom(netip.MustParseAddr(address), bits).Masked()
				if via := netip.MustParseAddr(spec.Routes[i].Via); !subnet.Contains(via) ||
					!strings.HasSuffix(spec.Routes[i].Destination, "/0") {
					t.Errorf("--gateway %s: %s, which is at %s, has the route %+v", gateway, spec.Name, address, spec.Routes[i])
				}
			}
		}
	}
}

func TestEachOtherNodeIsInAnotherZone(t *testing.T) {
	for i, spec := range nodeSpecs(config(IPv4), someFiles) {
		labels := flag(t, spec, "kubelet", "node-labels")
		if want := "topology.kubernetes.io/zone=zone-" + string("ab"[i%2]); !strings.Contains(labels, want) {
			t.Errorf("%s has the labels %s", spec.Name, labels)
		}
	}
}

// The outside host may know the nodes' networks, and nothing of what is behind them.
func TestTheOutsideHostHasNoWayIntoTheCluster(t *testing.T) {
	c := config(Dual)
	for _, route := range specOf(t, c, Outside).Routes {
		destination := netip.MustParsePrefix(route.Destination)
		for _, inside := range []string{podRangeV4, podRangeV6, serviceRangeV4, serviceRangeV6} {
			if destination.Overlaps(netip.MustParsePrefix(inside)) {
				t.Errorf("it has the route %+v to %s", route, inside)
			}
		}
	}
}

func TestControllersAreReplicasWithPortsAndIdentitiesOfTheirOwn(t *testing.T) {
	central := specOf(t, config(IPv4), Central)
	first, second := flag(t, central, "weft-controller", "metrics-address"), flag(t, central, "weft-controller-2",
		"metrics-address")
	if first == second {
		t.Errorf("both controllers listen on %s", first)
	}
	for _, name := range []string{"weft-controller", "weft-controller-2"} {
		if identity := flag(t, central, name, "identity"); identity != name {
			t.Errorf("%s leads as %q", name, identity)
		}
	}
}

func TestTunnelEndpointsKnowEachOther(t *testing.T) {
	for _, families := range []Families{IPv4, IPv6, Dual} {
		c := config(families)
		l, specs := someLayout(c), nodeSpecs(c, someFiles)
		for i, n := range l.nodes() {
			endpoint := tunnelEndpoint{l, n, "bridge"}
			command := strings.Join(endpoint.setNeighbours(), " ")
			for j, peer := range l.nodes() {
				entry := flag(t, specs[j], "weft-node", "encap-address") + " " + peer.underlayMAC()
				if strings.Contains(command, entry) != (i != j) {
					t.Errorf("%s: %s is told its neighbours by %s", families, n.name, command)
				}
			}
			if macOf(endpoint, specs[i]) != n.underlayMAC() {
				t.Errorf("%s has not the MAC address that the others are told", n.name)
			}
		}
	}
}

// macOf a node's tunnel endpoint: its bridge's, or its adapter's.
func macOf(endpoint tunnelEndpoint, spec *machine.Spec) string {
	if i := slices.IndexFunc(spec.Interfaces, func(i machine.Interface) bool { return i.Name == adapter }); i >= 0 {
		return spec.Interfaces[i].MAC
	}
	_, rest, _ := strings.Cut(strings.Join(slices.Concat(endpoint.join()...), " "), "hwaddr=")
	mac, _, _ := strings.Cut(rest, " ")
	return mac
}

func TestSystemOVNIsNotHiddenByTheUnpackedOne(t *testing.T) {
	f := someFiles
	if !strings.HasPrefix(f.path(), "/project/bin/lab/ovn/bin:") {
		t.Errorf("with --ovn prefix the path is %s", f.path())
	}
	f.ovn = OVNSystem
	if strings.Contains(f.path(), "/project/bin/lab/ovn/bin") {
		t.Errorf("with --ovn system the path is %s", f.path())
	}
}

func TestWhatIsMissingIsNamedWithItsRemedy(t *testing.T) {
	nothing := func(string) bool { return false }
	for _, test := range []struct{ ovn, missing, remedy, wrong string }{
		{OVNPrefix, "ovn-northd", "make ovn", "apt-get"},
		{OVNSystem, "ovn-northd", "apt-get install ovn-central ovn-host openvswitch-switch", "make ovn"},
		{OVNSystem, "ovn-nb.ovsschema", "apt-get", "make ovn"},
		{OVNSystem, "/project/bin/weft", "make lab", "apt-get"},
		{OVNPrefix, "ethtool", "make lab-deps", "make ovn"},
	} {
		f := someFiles
		f.ovn = test.ovn
		programs := newPrograms(config(IPv4), f)
		err := programs.check(nothing)
		if err == nil {
			t.Fatal("with nothing there nothing is missing")
		}
		lines := strings.Split(err.Error(), "\n")
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, test.missing) })
		if i < 0 || !strings.Contains(lines[i], test.remedy) || strings.Contains(lines[i], test.wrong) {
			t.Errorf("--ovn %s without %s: %v", test.ovn, test.missing, err)
		}
		if err := programs.check(func(path string) bool {
			return !strings.Contains(path, test.missing)
		}); err == nil ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("--ovn %s without %s alone: %v", test.ovn, test.missing, err)
		}
	}
	if err := newPrograms(config(IPv4), someFiles).check(func(path string) bool {
		return strings.HasPrefix(path, "/")
	}); err != nil {
		t.Errorf("with everything there: %v", err)
	}
}

func TestManifestsOfEachFamily(t *testing.T) {
	for families, want := range map[Families][]string{
		IPv4: {`clusterIPs: ["10.96.0.10"]`, "SingleStack"},
		IPv6: {`clusterIPs: ["fd00:10:96::a"]`, "SingleStack"},
		Dual: {`clusterIPs: ["10.96.0.10", "fd00:10:96::a"]`, "RequireDualStack"},
	} {
		for _, text := range want {
			if !strings.Contains(manifestsOf(config(families)), text) {
				t.Errorf("%s: the manifests lack %s", families, text)
			}
		}
	}
}

func TestContainerdConfigFollowsItsVersion(t *testing.T) {
	for output, want := range map[string]struct {
		major   int
		version string
	}{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3":                   {1, "version = 2"},
		"containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da":                      {1, "version = 2"},
		"containerd github.com/containerd/containerd/v2 v2.2.3 fb4c30d4ede3531652d86197bf3fc9515e5276d": {2, "version = 3"},
	} {
		major, err := majorVersion(output)
		if err != nil || major != want.major {
			t.Errorf("%s: major version %d (%v)", output, major, err)
		}
		f := someFiles
		f.containerd = major
		if config := containerdConfig(f, "runc"); !strings.HasPrefix(config, want.version) {
			t.Errorf("%s: %s", output, config)
		}
	}
	if _, err := majorVersion("zsh: command not found"); err == nil {
		t.Error("no version is a version")
	}
}
