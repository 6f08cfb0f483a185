package lab

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/test/lab/machine"
)

func withZones(families Families, zones int) Config {
	c := config(families)
	c.Zones = zones
	return c
}

func TestNodesAreInTheZonesByTurns(t *testing.T) {
	for _, test := range []struct {
		zones, linux, windows int
		want                  string
	}{
		{0, 2, 1, "l1: l2: w1:"},
		{1, 2, 1, "l1:a l2:a w1:a"},
		{2, 3, 3, "l1:a l2:b l3:a w1:b w2:a w3:b"},
		{3, 4, 2, "l1:a l2:b l3:c l4:a w1:c w2:a"},
		{4, 1, 1, "l1:a w1:d"}, // two zones have no node
	} {
		c := withZones(IPv4, test.zones)
		c.Linux, c.Windows = test.linux, test.windows
		var got []string
		for _, node := range c.Nodes() {
			got = append(got, node+":"+c.ZoneOf(node))
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%d zones: %s, want %s", test.zones, got, test.want)
		}
	}
}

// componentsOf are the names of a machine's components.
func componentsOf(spec *machine.Spec) []string {
	var names []string
	for _, c := range spec.Components {
		names = append(names, c.Name)
	}
	return names
}

func TestEachZoneHasAMachineWithDatabasesOfItsOwn(t *testing.T) {
	c := withZones(IPv4, 3)
	if got, want := c.Centrals(), []string{Central, "central-b", "central-c"}; !slices.Equal(got, want) {
		t.Fatalf("the machines are %v, want %v", got, want)
	}
	for i, number := range []string{"1", "3", "4"} {
		spec := specOf(t, c, c.Centrals()[i])
		for _, name := range []string{"ovn-nb", "ovn-sb", "ovn-northd", "weft-southbound", "weft-chassis"} {
			if !slices.Contains(componentsOf(spec), name) {
				t.Errorf("%s lacks %s", spec.Name, name)
			}
		}
		if slices.Contains(componentsOf(spec), "kube-apiserver") != (i == 0) {
			t.Errorf("%s has %v", spec.Name, componentsOf(spec))
		}
		if got, want := flag(t, spec, "weft-southbound", "listen"), "172.30.0."+number+":6642"; got != want {
			t.Errorf("the guard of %s listens on %s, want %s", spec.Name, got, want)
		}
		server := spec.Components[slices.Index(componentsOf(spec), "ovn-nb")].Command
		if want := "--remote=pssl:6641:172.29.0." + number; !slices.Contains(server, want) {
			t.Errorf("the Northbound of %s lacks %s: %s", spec.Name, want, server)
		}
		pair := flag(t, spec, "ovn-nb", "certificate")
		if got := flag(t, spec, "weft-southbound", "certificate"); got != pair ||
			filepath.Base(pair) != "ovn-"+spec.Name+".crt" {
			t.Errorf("%s shows the certificates %s and %s", spec.Name, pair, got)
		}
	}
}

// Whichever controller leads, it writes to the Northbounds of all zones, and its name says where it runs.
func TestEveryControllerServesAllZones(t *testing.T) {
	for families, want := range map[Families]string{
		IPv4: "a=ssl:172.29.0.1:6641,b=ssl:172.29.0.3:6641",
		IPv6: "a=ssl:[fd00:29::1]:6641,b=ssl:[fd00:29::3]:6641",
	} {
		c := withZones(families, 2)
		for name, host := range map[string]string{"weft-controller": Central, "weft-controller-2": Central,
			"weft-controller-b": "central-b"} {
			spec := specOf(t, c, host)
			if got := flag(t, spec, name, "ovn-northbound"); got != want {
				t.Errorf("%s: %s serves %s, want %s", families, name, got, want)
			}
			if got := flag(t, spec, name, "identity"); got != name {
				t.Errorf("%s leads as %s", name, got)
			}
		}
	}
}

func TestANodesSouthboundIsThatOfItsZone(t *testing.T) {
	c := withZones(IPv4, 2)
	l, specs := someLayout(c), nodeSpecs(c, someFiles)
	for i, n := range l.nodes() {
		central := map[string]string{"a": "172.30.0.1", "b": "172.30.0.3"}[c.ZoneOf(n.name)]
		if got, want := flag(t, specs[i], "weft-node", "ovn-southbound"), "ssl:"+central+":6642"; got != want {
			t.Errorf("%s has the Southbound %s, want %s", n.name, got, want)
		}
		if n.windows {
			continue
		}
		// The node's kernel has no other way there.
		route := "ip route replace " + central + " "
		if commands := fmt.Sprint(tunnelEndpoint{l, n, underlayBridge}.join()); !strings.Contains(commands, route) {
			t.Errorf("%s: nothing has %q: %s", n.name, route, commands)
		}
	}
}

func TestChassisHostsServeAZone(t *testing.T) {
	c := withZones(IPv4, 2)
	for _, spec := range specs(c, someFiles) {
		if slices.Contains(componentsOf(spec), "weft-chassis") != slices.Contains(c.Centrals(), spec.Name) {
			t.Errorf("%s has %v", spec.Name, componentsOf(spec))
		}
	}
	for host, want := range map[string][2]string{Central: {"a", "ssl:172.30.0.1:6642"},
		"central-b": {"b", "ssl:172.30.0.3:6642"}} {
		spec := specOf(t, c, host)
		got := [2]string{flag(t, spec, "weft-chassis", "zone"), flag(t, spec, "weft-chassis", "ovn-southbound")}
		if got != want {
			t.Errorf("%s has zone and Southbound %v, want %v", host, got, want)
		}
		pair := strings.TrimSuffix(filepath.Base(flag(t, spec, "weft-chassis", "tunnel-certificate")), ".crt")
		if subject := subjectsOf(c)[pair]; subject.Name != host ||
			!slices.Equal(subject.DNSNames, []string{tunnel.HostName}) {
			t.Errorf("%s shows agents the certificate of %+v", host, subject)
		}
	}
	c.Windows = 0
	for _, spec := range specs(c, someFiles) {
		if slices.Contains(componentsOf(spec), "weft-chassis") {
			t.Errorf("%s is a chassis host, and there are no Windows nodes", spec.Name)
		}
	}
}

// A lab without zones says so nowhere, and its chassis hosts are nodes.
func TestLabsWithoutZonesNameNone(t *testing.T) {
	c := config(IPv4)
	if text := (manifests{someLayout(c)}).labelledNodes(); text != "" {
		t.Errorf("its Nodes are made before their kubelets: %s", text)
	}
	for _, spec := range specs(c, someFiles) {
		if slices.Contains(componentsOf(spec), "weft-chassis") != slices.Contains([]string{"l1", "l2"}, spec.Name) {
			t.Errorf("%s has %v", spec.Name, componentsOf(spec))
		}
		for _, component := range spec.Components {
			for _, arg := range component.Command {
				if strings.HasPrefix(arg, "--zone") || strings.Contains(arg, "=a=") || strings.Contains(arg, nodesFile) {
					t.Errorf("%s of %s has %s", component.Name, spec.Name, arg)
				}
			}
		}
	}
}

// The controller and the agents start when the labels are there.
func TestNodesHaveTheirZonesLabelsFirst(t *testing.T) {
	c := withZones(IPv4, 2)
	l := someLayout(c)
	text := manifests{l}.labelledNodes()
	for _, node := range c.Nodes() {
		if want := fmt.Sprintf("{name: %s, labels: {%s: %s}}", node, contract.ZoneLabel, c.ZoneOf(node)); !strings.Contains(
			text, want) {
			t.Errorf("the Nodes lack %s: %s", want, text)
		}
	}
	apply := controlPlane{l}.applyManifests()
	if labels, done := strings.Index(apply[2], `-f "$5"`), strings.Index(apply[2], "touch"); labels < 0 || done < labels ||
		apply[3+5] != filepath.Join(someFiles.dir, nodesFile) {
		t.Errorf("the Nodes are applied by %q", apply)
	}
	applied := machine.Probe{Path: someFiles.manifestsApplied()}
	for _, spec := range specs(c, someFiles) {
		for _, component := range spec.Components {
			if name := component.Name; (name == "weft-node" || strings.HasPrefix(name, "weft-controller")) &&
				!slices.Contains(component.WaitFor, applied) {
				t.Errorf("%s on %s does not wait for the labels", name, spec.Name)
			}
		}
	}
}

// Each certificate and key that a command names is one that the lab makes.
func TestCommandsNameCertificatesThatAreMade(t *testing.T) {
	for name, c := range map[string]Config{"no zones": config(IPv4), "zones": withZones(IPv4, MaxZones)} {
		certificates := certificates{someLayout(c)}
		made := []string{"sa", southboundCAs}
		for authority, subjects := range certificates.subjects() {
			made = slices.AppendSeq(append(made, authority), maps.Keys(subjects))
		}
		for _, node := range c.WindowsNodes() { // as the chassis hosts' pattern has them
			if !slices.Contains(made, chassisPair(node)) {
				t.Errorf("%s: %s has no certificate for the Southbound", name, node)
			}
		}
		made = append(made, chassisPair("{node}"))
		for _, spec := range specs(c, someFiles) {
			for _, component := range spec.Components {
				for _, arg := range component.Command {
					_, file, named := strings.Cut(arg, someFiles.pki("")+"/")
					if pair := strings.TrimSuffix(file, filepath.Ext(file)); named && !slices.Contains(made, pair) {
						t.Errorf("%s: %s of %s has %s, which nobody makes", name, component.Name, spec.Name, arg)
					}
				}
			}
		}
	}
}
