package lab

import (
	"fmt"

	"github.com/weftnet/weft/test/lab/machine"
)

const (
	chassisUser = "weft-chassis" // of its credentials' file
	chassisPort = 9472
)

// chassis runs the Windows nodes' ovn-controllers.
func (n linuxNode) chassis() machine.Component {
	f := n.files
	metrics := fmt.Sprintf("127.0.0.1:%d", chassisPort)
	return machine.Component{
		Name: "weft-chassis",
		Command: []string{f.bin + "/weft", "chassis",
			"--kubeconfig=" + f.kubeconfig(chassisUser), "--identity=" + n.name,
			"--run-dir=/run/weft/chassis", "--ovn-controller=ovn-controller",
			"--ovn-southbound=" + n.addresses.southbound(), "--ovn-ca=" + f.pki(centralCA+".crt"),
			"--ovn-certificate=" + f.pki(chassisPair("{node}")+".crt"),
			"--ovn-private-key=" + f.pki(chassisPair("{node}")+".key"),
			"--tunnel-ca=" + f.pki("ca.crt"), "--tunnel-certificate=" + f.pki(tunnelPair(n.name)+".crt"),
			"--tunnel-private-key=" + f.pki(tunnelPair(n.name)+".key"),
			"--metrics-address=" + metrics},
		WaitFor: []machine.Probe{{Path: f.manifestsApplied()}}, // it needs its rights
		Ready:   machine.Probe{URL: "http://" + metrics + "/healthz"},
	}
}
