package lab

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/ovn/observe"
	"github.com/weftnet/weft/test/hns"
	"github.com/weftnet/weft/test/lab/machine"
)

// windows is the spec of the first Windows node of a lab.
func windows(t *testing.T, c Config) *machine.Spec {
	t.Helper()
	specs := nodeSpecs(c, someFiles)
	i := slices.IndexFunc(specs, func(s *machine.Spec) bool { return s.Name == "w1" })
	if i < 0 {
		t.Fatal("there is no w1")
	}
	return specs[i]
}

func TestWindowsNodesFollowTheLinuxOnes(t *testing.T) {
	c := config(IPv4)
	if want := []string{"l1", "l2", "l3", "w1", "w2"}; !slices.Equal(c.Nodes(), want) {
		t.Errorf("the nodes are %v, want %v", c.Nodes(), want)
	}
	if got := flag(t, windows(t, c), "kubelet", "node-ip"); got != "172.30.0.14" {
		t.Errorf("w1 is at %s, not on its adapter", got)
	}
}

func TestAWindowsNodeHasOneAdapterForAll(t *testing.T) {
	for families, want := range map[Families]map[string]string{
		IPv4: {"encap-address": "172.30.0.14", "gateway-addresses": "172.30.0.114/24", "gateway-next-hops": "172.30.0.1",
			"tunnel-address": "172.29.0.14:16642"},
		IPv6: {"encap-address": "fd00:30::14", "gateway-addresses": "fd00:30::114/64", "gateway-next-hops": "fd00:30::1",
			"tunnel-address": "[fd00:29::14]:16642"},
		Dual: {"encap-address": "172.30.0.14", "gateway-addresses": "172.30.0.114/24,fd00:30::114/64",
			"gateway-next-hops": "172.30.0.1,fd00:30::1", "tunnel-address": "172.29.0.14:16642"},
	} {
		c := config(families)
		c.Gateway = GatewayOwn
		spec := windows(t, c)
		for name, value := range want {
			if got := agentKey(t, spec, name); got != value {
				t.Errorf("%s: %s is %q, want %q", families, name, got, value)
			}
		}
		uplink := spec.Interfaces[1]
		if uplink.Name != adapter || uplink.Bridge != underlay.bridge || uplink.Switched || len(uplink.Addresses) == 0 {
			t.Errorf("%s: the adapter is %+v: it must begin as the host's own", families, uplink)
		}
		if encap := netip.MustParsePrefix(uplink.Addresses[0]).Addr().String(); encap != want["encap-address"] {
			t.Errorf("%s: the adapter has %s, the tunnels end at %s", families, encap, want["encap-address"])
		}
	}
}

// agentKey is a key of the node's agent, from its file or its flags.
func agentKey(t *testing.T, spec *machine.Spec, name string) string {
	t.Helper()
	for line := range strings.Lines(agentFile(t, spec)) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return flag(t, spec, "weft-node", name)
}

func agentFile(t *testing.T, spec *machine.Spec) string {
	t.Helper()
	i := slices.IndexFunc(spec.Files, func(f machine.File) bool { return f.Path == agentConfig })
	if i < 0 {
		t.Fatalf("%s has no file %s", spec.Name, agentConfig)
	}
	return spec.Files[i].Content
}

func TestEachGatewayHasAnAddressOfItsOwn(t *testing.T) {
	c := config(IPv4)
	c.Gateway = GatewayOwn
	c.Linux, c.Windows = 1, MaxNodes-1
	holders := map[netip.Addr]string{}
	for _, spec := range specs(c, someFiles) {
		for _, i := range spec.Interfaces {
			for _, address := range i.Addresses {
				holders[netip.MustParsePrefix(address).Addr()] = spec.Name
			}
		}
	}
	for _, spec := range nodeSpecs(c, someFiles) {
		gateway, err := netip.ParsePrefix(agentKey(t, spec, "gateway-addresses"))
		if err != nil {
			t.Fatalf("%s: %v", spec.Name, err)
		}
		if holder, taken := holders[gateway.Addr()]; taken {
			t.Fatalf("the gateway of %s has the address of %s, %v", spec.Name, holder, gateway)
		}
	}
}

func TestDoctorHasItsAgentsKeys(t *testing.T) {
	for _, spec := range nodeSpecs(config(IPv4), someFiles) {
		for _, file := range spec.Files {
			if file.Path != "/opt/weft/doctor" {
				continue
			}
			for _, want := range []string{" 'doctor' ", "'--encap-address=" + flag(t, spec, "weft-node", "encap-address") + "'",
				`"$@"`} {
				if !strings.Contains(file.Content, want) {
					t.Errorf("%s: no %s in %s", spec.Name, want, file.Content)
				}
			}
		}
		if !slices.ContainsFunc(spec.Files, func(f machine.File) bool { return f.Path == "/opt/weft/doctor" }) {
			t.Errorf("%s has none", spec.Name)
		}
	}
}

func TestPathsForWindowsPrograms(t *testing.T) {
	if got, want := windowsPath("/etc/cni/net.d"), `Z:\etc\cni\net.d`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	spec := windows(t, config(IPv4))
	for _, name := range []string{"kubeconfig", "tunnel-ca", "tunnel-certificate", "tunnel-private-key", "cni-conf-dir",
		"cni-cache-dir"} {
		if got := flag(t, spec, "weft-node", name); !strings.HasPrefix(got, `Z:\`) || strings.Contains(got, "/") {
			t.Errorf("--%s is %s", name, got)
		}
	}
}

func TestTheTunnelsEndsHaveTheNamesThatTheOthersWant(t *testing.T) {
	c := config(IPv4)
	subjects := subjectsOf(c)
	for pair, want := range map[string][]string{
		tunnelPair("l1"): {tunnel.HostName}, tunnelPair("l2"): {tunnel.HostName}, tunnelPair(Central): {tunnel.ObserverName,
			observe.ServerName},
		agentPair("l1"): {tunnel.AgentName("l1")}, agentPair("w1"): {tunnel.AgentName("w1")},
	} {
		if got := subjects[pair].DNSNames; !slices.Equal(got, want) {
			t.Errorf("the certificate %s has the names %v, want %v", pair, got, want)
		}
	}
	if _, there := subjects[tunnelPair("l3")]; there {
		t.Error("l3 is no chassis host and has a chassis host's certificate")
	}
}

func TestProgramsUnderWineFindTheEmulator(t *testing.T) {
	spec := windows(t, config(IPv4))
	for _, variable := range hns.WineEnv(winePrefix, "", hnsAddress) {
		if key, _, _ := strings.Cut(variable, "="); key != "HOME" && key != "PATH" && !slices.Contains(spec.Env, variable) {
			t.Errorf("the machine lacks %s", variable)
		}
	}
}

func TestLabsWithoutWindowsNeedNothingOfIt(t *testing.T) {
	c := config(IPv4)
	c.Windows = 0
	for _, text := range []string{"MutatingAdmissionPolicy", "weft-chassis"} {
		if strings.Contains(manifestsOf(c), text) {
			t.Errorf("the manifests have %s", text)
		}
		if with := manifestsOf(config(IPv4)); !strings.Contains(with, text) {
			t.Errorf("the manifests of a lab with Windows nodes lack %s", text)
		}
	}
	for _, spec := range specs(c, someFiles) {
		for _, component := range spec.Components {
			if component.Name == "weft-chassis" || strings.Contains(strings.Join(component.Command, " "),
				"MutatingAdmissionPolicy") {
				t.Errorf("%s has %s", spec.Name, component.Command)
			}
		}
	}
	if err := newPrograms(c, someFiles).check(func(path string) bool {
		return !strings.Contains(path, "wine") && !strings.HasSuffix(path, ".exe") && strings.HasPrefix(path, "/")
	}); err != nil {
		t.Error(err)
	}
}

func TestTheDatapathOfWindowsNodes(t *testing.T) {
	for datapath, want := range map[string]struct {
		kind     string
		lookup   string
		emulated bool
	}{"": {"system", "auto", true}, DatapathLinux: {"netdev", "false", false}, DatapathHyperV: {"system", "auto", true}} {
		c := config(IPv4)
		c.WindowsDatapath = datapath
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		spec := windows(t, c)
		if got := flag(t, spec, "weft-node", "datapath-type"); got != want.kind {
			t.Errorf("%q: the agent's datapath is of type %s", datapath, got)
		}
		if got := flag(t, spec, "weft-node", "conntrack-lookup"); got != want.lookup {
			t.Errorf("%q: a lookup before each commit: %s", datapath, got)
		}
		emulator := slices.ContainsFunc(spec.Components, func(c machine.Component) bool { return c.Name == "hyperv" })
		i := slices.IndexFunc(spec.Components, func(c machine.Component) bool { return c.Name == "ovs-vswitchd" })
		redirected := slices.Contains(spec.Components[i].Env, "HYPERV_SOCKET="+hypervSocket)
		if emulator != want.emulated || redirected != want.emulated {
			t.Errorf("%q: there is an emulator: %v; ovs-vswitchd speaks to it: %v", datapath, emulator, redirected)
		}
		for _, needed := range []string{"hypervemu", "hyperv-netlink.so"} {
			err := newPrograms(c, someFiles).check(func(path string) bool { return filepath.Base(path) != needed })
			if (err != nil) != want.emulated {
				t.Errorf("%q: without %s: %v", datapath, needed, err)
			}
		}
	}
	c := config(IPv4)
	c.WindowsDatapath = "vmware"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--windows-datapath") {
		t.Errorf("another datapath: %v", err)
	}
}

// The emulated driver starts with the faults that the lab is told, again after each reboot, and with all by default.
func TestWindowsFaults(t *testing.T) {
	for faults, want := range map[string]string{"": "all", "all,-flush-nat,-protocols": "all,-flush-nat,-protocols",
		"none": "none"} {
		c := config(IPv4)
		c.WindowsFaults = faults
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		spec := windows(t, c)
		i := slices.IndexFunc(spec.Components, func(c machine.Component) bool { return c.Name == "hyperv" })
		command := spec.Components[i].Command
		if at := slices.Index(command, "--faults"); at < 0 || command[at+1] != want {
			t.Errorf("%q: the driver starts as %q", faults, command)
		}
	}
	for _, c := range []struct{ faults, datapath string }{{"all,-gravity", ""}, {"none", DatapathLinux}} {
		wrong := config(IPv4)
		wrong.WindowsFaults, wrong.WindowsDatapath = c.faults, c.datapath
		if err := wrong.Validate(); err == nil || !strings.Contains(err.Error(), "--windows-faults") {
			t.Errorf("%q with the datapath %q: %v", c.faults, c.datapath, err)
		}
	}
}
