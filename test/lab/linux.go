package lab

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/test/lab/machine"
)

const underlayBridge = "br-ul"

// linuxNode is a machine with the programs of a Linux node.
type linuxNode struct{ nodeMachine }

func (n linuxNode) spec() *machine.Spec {
	spec := n.newNodeSpec("runc")
	spec.Interfaces = []machine.Interface{
		n.networkInterface("eth0", management, n.number),
		n.switchedInterface("ul0", underlay),
		n.externalInterface(n.number),
	}
	spec.Setup = append(spec.Setup, []string{"ln", "-sf", n.files.bin + "/weft-cni", "/opt/cni/bin/"})
	if slices.Contains(n.masqueraders(), n.node) {
		spec.Setup = append(spec.Setup, []string{"nft", n.masquerade()})
	}
	spec.Components = append(n.openVSwitch(), n.kubernetes()...)
	if n.weft {
		agent := n.agent()
		spec.Components = append(spec.Components, agent)
		spec.Files = append(spec.Files, doctor(agent), machine.File{Path: agentConfig, Content: n.gatewayKeys(external,
			n.number, routerNumber)})
	}
	spec.Components = append(spec.Components, n.chassis(n.name)...)
	return spec
}

// masquerade lets the API server reach pods: the node takes its packets on, under the address of
// the node's own management port, so that answers come back here.
func (n linuxNode) masquerade() string {
	rules := "add table inet weftlab; add chain inet weftlab postrouting { type nat hook postrouting priority srcnat; }"
	for i, family := range n.addresses.pick("ip", "ip6") {
		rules += fmt.Sprintf("; add rule inet weftlab postrouting oifname != eth0 %s saddr %s %s daddr { %s, %s } masquerade",
			family, n.addresses.of(management, centralNumber)[i], family, n.addresses.podRanges()[i],
			n.addresses.serviceRanges()[i])
	}
	return rules
}

// openVSwitch is the node's OVS with a userspace datapath, the bridge that joins it to the
// underlay, and ovn-controller. The rest of its set-up is the agent's work.
func (n linuxNode) openVSwitch() []machine.Component {
	f, endpoint := n.files, tunnelEndpoint{n.layout, n.node, underlayBridge}
	neighbours := endpoint.setNeighbours()
	vswitchd := vswitchd()
	vswitchd.Finish = append(endpoint.join(), neighbours)
	vswitchd.Repeat, vswitchd.RepeatEvery = [][]string{neighbours}, neighbourRefresh
	return []machine.Component{
		n.ovsDatabase(),
		vswitchd,
		{
			Name: "ovn-controller",
			Command: []string{"ovn-controller", "unix:" + ovsSocket,
				"--private-key=" + f.pki(chassisPair(n.name)+".key"), "--certificate=" + f.pki(chassisPair(n.name)+".crt"),
				"--ca-cert=" + f.pki(centralCA+".crt"),
				"--pidfile=/run/ovn/ovn-controller.pid", "-vconsole:info", "-vsyslog:off"},
			WaitFor: []machine.Probe{{Unix: ovsSocket}},
			// Flows and chassis stay: the next ovn-controller takes them over.
			Stop: []string{"ovn-appctl", "-t", "ovn-controller", "exit", "--restart"},
		},
	}
}

func (n linuxNode) agent() machine.Component {
	f := n.files
	metrics := fmt.Sprintf("127.0.0.1:%d", agentPort)
	return machine.Component{
		Name: "weft-node",
		Command: []string{f.bin + "/weft", "node", "--config=" + agentConfig,
			"--kubeconfig=" + f.kubeconfig(n.name), "--node-name=" + n.name,
			"--ovn-southbound=" + n.addresses.southbound(n.zone),
			"--ovs-database=unix:" + ovsSocket, "--datapath-type=netdev",
			"--encap-address=" + n.addresses.first(underlay, n.number).String(), fmt.Sprintf("--uplink-mtu=%d", n.mtu),
			"--gateway-interface=" + externalDevice, "--gateway-bridge=br-ex",
			"--tunnel-address=" + hostPort(n.addresses.first(management, n.number), tunnelPort),
			"--tunnel-ca=" + f.pki("ca.crt"),
			"--tunnel-certificate=" + f.pki(agentPair(n.name)+".crt"), "--tunnel-private-key=" + f.pki(agentPair(n.name)+".key"),
			"--capture=all", "--cni-socket=/run/weft/cni.sock", "--cni-conf-dir=/etc/cni/net.d",
			"--metrics-address=" + metrics},
		WaitFor: append([]machine.Probe{{Unix: ovsSocket}, {Path: "/sys/class/net/" + underlayBridge}, n.apiReady()},
			n.zonesLabelled()...),
		Ready: machine.Probe{URL: "http://" + metrics + "/healthz"},
	}
}
