package lab

import (
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/test/lab/machine"
)

// withHosts is a lab of five hosts.
func withHosts(families Families) Config {
	return Config{Name: "weft", Hosts: "c1,c2,c3,l1,l2:trixie", NoWeft: true, Families: families, OVN: OVNPrefix,
		Gateway: GatewayHost,
		MTU:     DefaultMTU, Controllers: 1, Bin: "/project/bin"}
}

func specOf(t *testing.T, c Config, name string) *machine.Spec {
	t.Helper()
	specs := specs(c, someFiles)
	i := slices.IndexFunc(specs, func(s *machine.Spec) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no machine %s", name)
	}
	return specs[i]
}

// newHostFiles are what a new host's disk has, by path.
func newHostFiles(t *testing.T, c Config, name string) map[string]machine.File {
	t.Helper()
	files := map[string]machine.File{}
	for _, f := range specOf(t, c, name).Overlays[0].Files {
		files[f.Path] = f
	}
	return files
}

func TestALabWithHostsHasNoOtherNodes(t *testing.T) {
	c := withHosts(Dual)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Machines(), []string{Central, "c1", "c2", "c3", "l1", "l2", Control, Outside}; !slices.Equal(got,
		want) {
		t.Errorf("its machines are %v, want %v", got, want)
	}
	if got, want := c.Registered(), []string{"l1", "l2"}; !slices.Equal(got, want) {
		t.Errorf("its nodes are %v, want %v", got, want)
	}
	for _, spec := range specs(c, someFiles) {
		if !slices.Contains(c.Machines(), spec.Name) {
			t.Errorf("machine %s is none of the lab's", spec.Name)
		}
		for _, component := range spec.Components {
			if strings.HasPrefix(component.Name, "ov") || strings.HasPrefix(component.Name, "weft") {
				t.Errorf("%s runs %s, which is Ansible's to install", spec.Name, component.Name)
			}
		}
	}
}

func TestAWindowsNodeBesideHosts(t *testing.T) {
	c := withHosts(IPv4)
	c.Windows = 1
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Registered(), []string{"w1", "l1", "l2"}; !slices.Equal(got, want) {
		t.Errorf("the cluster's nodes are %v, want %v", got, want)
	}
	node := specOf(t, c, "w1")
	for i, want := range []struct{ name, bridge, address string }{{"eth0", "management", "172.29.0.16/24"},
		{adapter, "external", "172.31.0.16/24"}} {
		if got := node.Interfaces[i]; got.Name != want.name || got.Bridge != want.bridge ||
			!slices.Equal(got.Addresses, []string{want.address}) {
			t.Errorf("interface %d is %+v, want %v", i, got, want)
		}
	}
	if want := []machine.Route{{Destination: "0.0.0.0/0", Via: "172.31.0.254"}}; !slices.Equal(node.Routes, want) {
		t.Errorf("its routes are %v, want %v", node.Routes, want)
	}
	agent := node.Components[len(node.Components)-1]
	command := strings.Join(agent.Command, " ")
	for flag, want := range map[string]bool{"--config=Z:" + strings.ReplaceAll(agentKeys, "/", `\`): true,
		"--encap-address=172.31.0.16": true, "--ovn-southbound": false, "--tunnel-ca": false} {
		if strings.Contains(command, flag) != want {
			t.Errorf("the agent's command has %s: %v, want %v: %s", flag, !want, want, command)
		}
	}
	if !slices.Contains(agent.WaitFor, machine.Probe{Path: agentKeys}) {
		t.Errorf("the agent waits for %v", agent.WaitFor)
	}
	c.Linux = 1
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "leave out --linux") {
		t.Errorf("with Linux nodes beside hosts the error is %v", err)
	}
}

func TestHostsHaveAddressesOfTheirOwn(t *testing.T) {
	for families, perInterface := range map[Families]int{IPv4: 1, Dual: 2} {
		seen := map[string]string{}
		for _, spec := range specs(withHosts(families), someFiles) {
			for _, i := range spec.Interfaces {
				if len(i.Addresses) != perInterface {
					t.Errorf("%s: %s of %s has %v", families, i.Name, spec.Name, i.Addresses)
				}
				for _, address := range append(slices.Clone(i.Addresses), i.MAC) {
					if other := seen[address]; other != "" && address != "" {
						t.Errorf("%s: %v is an address of %s and of %s", families, address, other, spec.Name)
					}
					seen[address] = spec.Name
				}
			}
		}
	}
}

// What a host remembers about another must be true after that one has started anew.
func TestHostsKeepTheirMACAddresses(t *testing.T) {
	c := withHosts(IPv4)
	for _, name := range c.HostNames() {
		for _, i := range specOf(t, c, name).Interfaces {
			if i.MAC == "" {
				t.Errorf("%s of %s has a MAC address by chance", i.Name, name)
			}
		}
	}
}

func TestTheInventoryNamesEveryHostOnce(t *testing.T) {
	c := withHosts(Dual)
	var inventory struct {
		All struct {
			Vars     map[string][]string
			Children map[string]struct {
				Hosts map[string]map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(control{someLayout(c)}.inventory()), &inventory); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string][]string{"weft_central": {"c1", "c2", "c3"}, "weft_linux_nodes": {"l1", "l2"}} {
		hosts := inventory.All.Children[group].Hosts
		if got := slices.Sorted(maps.Keys(hosts)); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", group, got, want)
		}
		for name, variables := range hosts {
			address := netip.MustParsePrefix(specOf(t, c, name).Interfaces[0].Addresses[0]).Addr().String()
			if variables["ansible_host"] != address || variables["ansible_user"] == "" {
				t.Errorf("%s has the variables %v, want the address %s", name, variables, address)
			}
		}
	}
	if got, want := inventory.All.Vars["weft_pod_cidrs"], []string{podRangeV4, podRangeV6}; !slices.Equal(got, want) {
		t.Errorf("the pods' ranges are %v, want %v", got, want)
	}
}

func TestTheHostsOfAReleaseShareItsBaseAndPackages(t *testing.T) {
	c := withHosts(IPv4)
	for name, release := range map[string]string{"l1": "bookworm", "l2": "trixie"} {
		if lower := specOf(t, c, name).Overlays[0].Lower; lower != "/project/bin/lab/hosts/base/"+release {
			t.Errorf("the root file system of %s is over %s", name, lower)
		}
		sources := newHostFiles(t, c, name)["/etc/apt/sources.list.d/lab.list"].Content
		if want := "http://172.29.0.2/" + release; !strings.Contains(sources, want) {
			t.Errorf("%s has its packages from %s", name, sources)
		}
	}
	if got := flag(t, specOf(t, c, Control), packagesComponent, "directory"); got != "/project/bin/lab/hosts/apt" {
		t.Errorf("the packages served are those in %s", got)
	}
}

func TestNodesAmongTheHostsHaveAKubeletOfTheirOwn(t *testing.T) {
	c := withHosts(Dual)
	node, central := newHostFiles(t, c, "l2"), newHostFiles(t, c, "c1")
	unit, replaced := node[unitDir+"kubelet.service"].Content, node[unitDir+"kubelet.service.d/lab.conf"].Content
	_, command, found := strings.Cut(unit, "ExecStart=")
	if command = strings.TrimSpace(command); !found || !strings.Contains(replaced, command) {
		t.Errorf("the kubelet is started by %q, not by %q", replaced, command)
	}
	_, rest, _ := strings.Cut(command, "--node-ip=")
	addresses, _, _ := strings.Cut(rest, " ")
	if got, want := join(subjectsOf(c)["l2"].Addresses), addresses; got != want {
		t.Errorf("the certificate of l2 has the addresses %s, its node %s", got, want)
	}
	for _, address := range strings.Split(addresses, ",") {
		if i := specOf(t, c, "l2").Interfaces[1]; !slices.ContainsFunc(i.Addresses, func(p string) bool {
			return netip.MustParsePrefix(p).Addr().String() == address
		}) {
			t.Errorf("l2 has the addresses %v on %s, its node %s", i.Addresses, i.Name, address)
		}
	}
	if strings.Contains(unit, "windows") {
		t.Errorf("a Linux node's kubelet labels it so: %s", unit)
	}
	if f := node[kubeletConf]; !strings.Contains(f.Content, kubeletCredentials) || !strings.Contains(f.Content,
		someLayout(c).addresses.apiServer()) {
		t.Errorf("the kubelet's access to the API server is %+v", f)
	}
	if link := node[unitDir+"multi-user.target.wants/kubelet.service"]; link.Mode != os.ModeSymlink {
		t.Errorf("the kubelet is not enabled: %+v", link)
	}
	for path := range central {
		if strings.Contains(path, "kube") || strings.Contains(path, "containerd") {
			t.Errorf("a central has %s", path)
		}
	}
}

func TestWhatIsWeftsIsLeftToAnsible(t *testing.T) {
	nodes, hosts := config(Dual), withHosts(Dual)
	for _, kind := range []string{"name: weft-controller", "name: weft-node", "name: weft-annotations"} {
		if !strings.Contains(manifestsOf(nodes), kind) || strings.Contains(manifestsOf(hosts), kind) {
			t.Errorf("%s is applied to the cluster of hosts, or not to that of nodes", kind)
		}
	}
	for name, c := range map[string]Config{"nodes": nodes, "hosts": hosts} {
		apply := controlPlane{someLayout(c)}.applyManifests()
		if got := strings.Contains(strings.Join(apply, " "), definitionsFile); got != (name == "nodes") {
			t.Errorf("weft's kinds are defined in the cluster of %s: %v", name, got)
		}
		if !strings.Contains(manifestsOf(c), "name: coredns") {
			t.Errorf("the cluster of %s has no DNS", name)
		}
	}
}

func TestWhatHostsLackIsNamedWithItsRemedy(t *testing.T) {
	programs := newPrograms(withHosts(IPv4), someFiles)
	err := programs.check(func(path string) bool { return !strings.Contains(path, "/hosts/") })
	if err == nil || !strings.Contains(err.Error(), "make lab-hosts") {
		t.Errorf("without their root file systems: %v", err)
	}
	// OVN is installed by Ansible.
	if err := programs.check(func(path string) bool { return !strings.Contains(path, "ov") }); err != nil {
		t.Errorf("without OVN: %v", err)
	}
}
