package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/test/lab/image"
	"github.com/weftnet/weft/test/lab/machine"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	ovsSocket        = "/run/openvswitch/db.sock"
	underlayBridge   = "br-ul"
	externalDevice   = "ex0"
	sandboxImage     = image.Pause
	agentPort        = 9471
	// agentConfig has the keys of the agent's that a user may want to change.
	agentConfig = "/etc/weft/node.yaml"
)

// node is a Linux node; number is its own in the lab's networks.
func (c Config) node(f files, name string, number int) *machine.Spec {
	spec := c.kubernetesNode(f, name, number, "runc")
	spec.Interfaces = []machine.Interface{
		{Name: "eth0", Bridge: management.bridge, Addresses: c.prefixes(management, number), MTU: c.MTU},
		{Name: "ul0", Bridge: underlay.bridge, MTU: c.MTU, Switched: true},
		c.externalInterface(number),
	}
	spec.Setup = append(spec.Setup, []string{"ln", "-sf", f.bin + "/weft-cni", "/opt/cni/bin/"})
	if number == firstNode { // the central's way to pods
		spec.Setup = append(spec.Setup, []string{"nft", c.masquerade()})
	}
	spec.Components = append(c.openVSwitch(f, name, number), c.kubernetes(f, name, number)...)
	if !c.NoWeft {
		agent := c.agent(f, name, number)
		spec.Components = append(spec.Components, agent)
		spec.Files = append(spec.Files, doctor(agent), machine.File{Path: agentConfig, Content: c.gatewayKeys(external,
			number, routerNumber)})
	}
	if slices.Contains(c.chassisHosts(), name) {
		spec.Components = append(spec.Components, c.chassisHost(f, name))
	}
	return spec
}

// externalInterface is the host's own until the agent shares it with the gateway router, or the gateway's
// alone from the start.
func (c Config) externalInterface(number int) machine.Interface {
	i := machine.Interface{Name: externalDevice, Bridge: external.bridge, MTU: c.MTU}
	if c.Gateway == GatewayOwn {
		i.Switched = true
	} else {
		i.Addresses = c.prefixes(external, number)
	}
	return i
}

// kubernetesNode is what Linux and Windows nodes have in common; runtime starts the containers.
func (c Config) kubernetesNode(f files, name string, number int, runtime string) *machine.Spec {
	spec := c.machine(f, name)
	for i, everything := range c.pick("0.0.0.0/0", "::/0") {
		spec.Routes = append(spec.Routes, machine.Route{Destination: everything, Via: c.routers(number)[i].String()})
	}
	dir := machine.Dir(f.dir, name)
	for _, b := range [][2]string{{"kubelet", "/var/lib/kubelet"}, {"containerd", "/var/lib/containerd"},
		{"openvswitch", "/etc/openvswitch"}} {
		spec.Binds = append(spec.Binds, machine.Bind{Source: dir + "/" + b[0], Target: b[1], Create: true})
	}
	spec.Files = append(spec.Files,
		machine.File{Path: "/etc/containerd/config.toml", Content: containerdConfig(f, runtime)},
		machine.File{Path: "/etc/kubernetes/kubelet.json", Content: c.kubeletConfig(f.pki("ca.crt"), f.pki(name+".crt"),
			f.pki(name+".key"))})
	spec.Setup = append(spec.Setup,
		[]string{"mkdir", "-p", "/opt/cni/bin", "/etc/cni/net.d"},
		[]string{"ln", "-sf", f.lab("loopback"), "/opt/cni/bin/"})
	return spec
}

// masquerade lets the API server reach pods: the node takes its packets on, under the address of
// the node's own management port, so that answers come back here.
func (c Config) masquerade() string {
	rules := "add table inet weftlab; add chain inet weftlab postrouting { type nat hook postrouting priority srcnat; }"
	for i, family := range c.pick("ip", "ip6") {
		rules += fmt.Sprintf("; add rule inet weftlab postrouting oifname != eth0 %s saddr %s %s daddr { %s, %s } masquerade",
			family,
			c.addrs(management, centralNumber)[i], family, c.pick(podRangeV4, podRangeV6)[i],
			c.pick(serviceRangeV4, serviceRangeV6)[i])
	}
	return rules
}

// openVSwitch is the node's OVS with a userspace datapath, the bridge that joins it to the
// underlay, and ovn-controller. The rest of its set-up is the agent's work.
func (c Config) openVSwitch(f files, name string, number int) []machine.Component {
	neighbours := c.setNeighbours(underlayBridge, number)
	vswitchd := vswitchd()
	vswitchd.Finish = append(c.joinUnderlay(number), neighbours)
	vswitchd.Repeat, vswitchd.RepeatEvery = [][]string{neighbours}, neighbourRefresh
	return []machine.Component{
		c.ovsDatabase(f),
		vswitchd,
		{
			Name: "ovn-controller",
			Command: []string{"ovn-controller", "unix:" + ovsSocket,
				"--private-key=" + f.pki(chassisPair(name)+".key"), "--certificate=" + f.pki(chassisPair(name)+".crt"),
				"--ca-cert=" + f.pki(centralCA+".crt"),
				"--pidfile=/run/ovn/ovn-controller.pid", "-vconsole:info", "-vsyslog:off"},
			WaitFor: []machine.Probe{{Unix: ovsSocket}},
			// Flows and chassis stay: the next ovn-controller takes them over.
			Stop: []string{"ovn-appctl", "-t", "ovn-controller", "exit", "--restart"},
		},
	}
}

// ovsDatabase is the node's Open_vSwitch database; remotes are more to listen on.
func (c Config) ovsDatabase(f files, remotes ...string) machine.Component {
	database := "/etc/openvswitch/conf.db"
	return machine.Component{
		Name:    "ovsdb-server",
		Prepare: [][]string{createDatabase(database, c.schema(f, "openvswitch/vswitch.ovsschema"))},
		Command: append([]string{"ovsdb-server", database, "--remote=punix:" + ovsSocket,
			"--pidfile=/run/openvswitch/ovsdb-server.pid", "-vconsole:info", "-vsyslog:off"}, remotes...),
		Ready:  machine.Probe{Unix: ovsSocket},
		Finish: [][]string{{"ovs-vsctl", "--timeout=20", "--no-wait", "init"}},
	}
}

func vswitchd() machine.Component {
	return machine.Component{
		Name: "ovs-vswitchd",
		Command: []string{"ovs-vswitchd", "unix:" + ovsSocket, "--pidfile=/run/openvswitch/ovs-vswitchd.pid",
			"-vconsole:info", "-vsyslog:off"},
		WaitFor: []machine.Probe{{Unix: ovsSocket}},
	}
}

func (c Config) kubernetes(f files, name string, number int) []machine.Component {
	return []machine.Component{
		{
			Name:    "containerd",
			Command: []string{"containerd", "--config=/etc/containerd/config.toml"},
			Ready:   machine.Probe{Unix: containerdSocket},
		},
		{
			Name: "kubelet",
			Command: []string{f.hyperkube(), "kubelet", "--config=/etc/kubernetes/kubelet.json",
				"--kubeconfig=" + f.kubeconfig(name),
				"--hostname-override=" + name, "--node-ip=" + join(c.nodeAddrs(number)), c.nodeLabels(number), "--v=2"},
			WaitFor: []machine.Probe{{Unix: containerdSocket}, {URL: c.apiServer() + "/readyz", CA: f.pki("ca.crt")}},
			Ready:   machine.Probe{URL: "http://127.0.0.1:10248/healthz"},
		},
	}
}

// nodeLabels: each other node is in another zone. Without the label of the system, a Windows node would have
// another system for the blink of an eye, and pods of that one.
func (c Config) nodeLabels(number int) string {
	labels := "--node-labels=topology.kubernetes.io/zone=" + []string{"zone-a", "zone-b"}[(number-firstNode)%2]
	if c.isWindows(number) {
		labels += ",kubernetes.io/os=windows"
	}
	return labels
}

func (c Config) agent(f files, name string, number int) machine.Component {
	metrics := fmt.Sprintf("127.0.0.1:%d", agentPort)
	return machine.Component{
		Name: "weft-node",
		Command: []string{f.bin + "/weft", "node", "--config=" + agentConfig,
			"--kubeconfig=" + f.kubeconfig(name), "--node-name=" + name,
			"--ovn-southbound=" + c.southbound(),
			"--ovs-database=unix:" + ovsSocket, "--datapath-type=netdev",
			"--encap-address=" + c.addr(underlay, number).String(), fmt.Sprintf("--uplink-mtu=%d", c.MTU),
			"--gateway-interface=" + externalDevice, "--gateway-bridge=br-ex",
			"--tunnel-address=" + hostPort(c.addr(management, number), tunnelPort), "--tunnel-ca=" + f.pki("ca.crt"),
			"--tunnel-certificate=" + f.pki(agentPair(name)+".crt"), "--tunnel-private-key=" + f.pki(agentPair(name)+".key"),
			"--cni-socket=/run/weft/cni.sock", "--cni-conf-dir=/etc/cni/net.d",
			"--metrics-address=" + metrics},
		WaitFor: []machine.Probe{{Unix: ovsSocket}, {Path: "/sys/class/net/" + underlayBridge},
			{URL: c.apiServer() + "/readyz", CA: f.pki("ca.crt")}},
		Ready: machine.Probe{URL: "http://" + metrics + "/healthz"},
	}
}

// gatewayKeys are the agent's keys of a gateway router that is machine number own of a network, if it has
// addresses of its own.
func (c Config) gatewayKeys(on network, own, router int) string {
	keys := "gateway: local\n"
	if c.Gateway == GatewayOwn {
		keys += fmt.Sprintf("gateway-addresses: %s\ngateway-next-hops: %s\n", strings.Join(c.prefixes(on, own), ","),
			join(c.addrs(on, router)))
	}
	return keys
}
