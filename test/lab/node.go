package lab

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft/test/lab/image"
	"github.com/weftnet/weft/test/lab/machine"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	ovsSocket        = "/run/openvswitch/db.sock"
	externalDevice   = "ex0"
	sandboxImage     = image.Pause
	agentPort        = 9471
	// agentConfig has the keys of the agent's that a user may want to change.
	agentConfig = "/etc/weft/node.yaml"
)

// node is a node of the cluster that is no [host].
type node struct {
	name string
	// number is its own in the lab's networks.
	number  int
	windows bool
	// zone has the databases that the node's configuration is in.
	zone zone
}

// nodeMachine is what the machines of Linux and Windows nodes have in common.
type nodeMachine struct {
	layout
	node
}

// newNodeSpec is that of a node whose containers runtime starts.
func (n nodeMachine) newNodeSpec(runtime string) *machine.Spec {
	f := n.files
	spec := n.newSpec(n.name)
	spec.Routes = n.defaultRoutes(n.addresses.nextHops(n.node))
	for _, b := range [][2]string{{"kubelet", "/var/lib/kubelet"}, {"containerd", "/var/lib/containerd"},
		{"openvswitch", "/etc/openvswitch"}} {
		spec.Binds = append(spec.Binds, machine.Bind{Source: f.machine(n.name, b[0]), Target: b[1], Create: true})
	}
	spec.Files = append(spec.Files,
		machine.File{Path: "/etc/containerd/config.toml", Content: containerdConfig(f, runtime)},
		machine.File{Path: "/etc/kubernetes/kubelet.json", Content: n.kubeletConfig(f.pki("ca.crt"), f.pki(n.name+".crt"),
			f.pki(n.name+".key"), podsOnSharedKernel)})
	spec.Setup = append(spec.Setup,
		[]string{"mkdir", "-p", "/opt/cni/bin", "/etc/cni/net.d"},
		[]string{"ln", "-sf", f.lab("loopback"), "/opt/cni/bin/"})
	return spec
}

// kubernetes is the container runtime and the kubelet.
func (n nodeMachine) kubernetes() []machine.Component {
	f := n.files
	return []machine.Component{
		{
			Name:    "containerd",
			Command: []string{"containerd", "--config=/etc/containerd/config.toml"},
			Ready:   machine.Probe{Unix: containerdSocket},
		},
		{
			Name: "kubelet",
			Command: []string{f.hyperkube(), "kubelet", "--config=/etc/kubernetes/kubelet.json",
				"--kubeconfig=" + f.kubeconfig(n.name), "--hostname-override=" + n.name,
				"--node-ip=" + join(n.addresses.ofNode(n.node)), "--node-labels=" + n.labels(), "--v=2"},
			WaitFor: []machine.Probe{{Unix: containerdSocket}, n.apiReady()},
			Ready:   machine.Probe{URL: "http://127.0.0.1:10248/healthz"},
		},
	}
}

// ovsDatabase is the node's Open_vSwitch database; remotes are more to listen on.
func (n nodeMachine) ovsDatabase(remotes ...string) machine.Component {
	database := "/etc/openvswitch/conf.db"
	return machine.Component{
		Name:    "ovsdb-server",
		Prepare: [][]string{createDatabase(database, n.files.schema("openvswitch/vswitch.ovsschema"))},
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

// gatewayKeys are the agent's keys of a gateway router that is machine number own of a network, if it has
// addresses of its own.
func (n nodeMachine) gatewayKeys(on network, own, router int) string {
	keys := "gateway: local\n"
	if n.addresses.gateway == GatewayOwn {
		keys += fmt.Sprintf("gateway-addresses: %s\ngateway-next-hops: %s\n",
			strings.Join(n.addresses.prefixes(on, own), ","), join(n.addresses.of(on, router)))
	}
	return keys
}
