package lab

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/test/lab/machine"
)

const (
	chassisUser = "weft-chassis" // of its credentials' file
	chassisPort = 9472
)

// chassisHost is a machine that runs the ovn-controllers of a zone's Windows nodes.
type chassisHost struct {
	machine string
	zone
	// pair is the file name of the certificate by which it is known to nodes' agents.
	pair string
}

// chassisHosts are the machines of the zones' databases. Without zones they are Linux nodes: two, where there are two,
// so that one can take over from the other.
func (l layout) chassisHosts() []chassisHost {
	var hosts []chassisHost
	switch {
	case len(l.windowsNodes) == 0:
	case l.hasZones():
		for _, z := range l.zones {
			hosts = append(hosts, chassisHost{z.host, z, tunnelPair("chassis-" + z.name)})
		}
	default:
		for _, n := range l.linuxNodes[:min(2, len(l.linuxNodes))] {
			hosts = append(hosts, chassisHost{n.name, n.zone, tunnelPair(n.name)})
		}
	}
	return hosts
}

// chassis is the component of a machine that is a chassis host, and of others none.
func (l layout) chassis(name string) []machine.Component {
	hosts := l.chassisHosts()
	i := slices.IndexFunc(hosts, func(h chassisHost) bool { return h.machine == name })
	if i < 0 {
		return nil
	}
	f, host := l.files, hosts[i]
	metrics := fmt.Sprintf("127.0.0.1:%d", chassisPort)
	component := machine.Component{
		Name: "weft-chassis",
		Command: []string{f.bin + "/weft", "chassis",
			"--kubeconfig=" + f.kubeconfig(chassisUser), "--identity=" + host.machine,
			"--run-dir=/run/weft/chassis", "--ovn-controller=ovn-controller",
			"--ovn-southbound=" + l.addresses.southbound(host.zone), "--ovn-ca=" + f.pki(centralCA+".crt"),
			"--ovn-certificate=" + f.pki(chassisPair("{node}")+".crt"),
			"--ovn-private-key=" + f.pki(chassisPair("{node}")+".key"),
			"--tunnel-ca=" + f.pki("ca.crt"), "--tunnel-certificate=" + f.pki(host.pair+".crt"),
			"--tunnel-private-key=" + f.pki(host.pair+".key"),
			"--metrics-address=" + metrics},
		WaitFor: []machine.Probe{{Path: f.manifestsApplied()}}, // it needs its rights
		Ready:   machine.Probe{URL: "http://" + metrics + "/healthz"},
	}
	if l.hasZones() {
		component.Command = append(component.Command, "--zone="+host.name)
	}
	return []machine.Component{component}
}
