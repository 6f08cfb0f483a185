package lab

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/test/lab/machine"
)

// Ports of weft's programs on the central, and the user of one.
const (
	controllerPort = 9470

	southboundMetricsPort = 9490

	observePort        = 6645
	observeMetricsPort = 9491
	observeUser        = "weft-observe" // of its credentials' file
)

// central is the machine of the control plane, OVN's databases and weft's own programs beside them. It is also the
// router of the world outside, so that pods reach it as they would reach any host outside the cluster.
type central struct {
	zoneCentral
	controllers int
}

func (c central) spec() *machine.Spec {
	spec := c.newSpec(Central)
	spec.Interfaces = []machine.Interface{
		c.networkInterface("eth0", management, c.number),
		c.networkInterface("ul0", underlay, c.number),
		c.networkInterface("ex0", external, routerNumber),
	}
	for _, n := range c.masqueraders() {
		spec.Routes = append(spec.Routes, c.routesToPods(n)...)
	}
	spec.Binds = append(spec.Binds,
		machine.Bind{Source: c.files.machine(Central, "etcd"), Target: "/var/lib/etcd", Create: true},
		c.databasesDisk())
	spec.Components = controlPlane{c.layout}.components()
	if !c.hasHosts() {
		spec.Components = append(spec.Components, databases{c.layout, c.zone}.components()...)
	}
	if c.weft {
		spec.Components = append(spec.Components, c.southboundGuard())
		for i := range c.controllers {
			spec.Components = append(spec.Components, c.controller(controllerName(i), controllerPort+i))
		}
		if !c.hasHosts() {
			spec.Components = append(spec.Components, c.door())
		}
		spec.Components = append(spec.Components, c.chassis(c.host)...)
	}
	return spec
}

// routesToPods and Services lead by a node's host: the API server calls webhooks and aggregated APIs that are pods.
func (c central) routesToPods(by node) []machine.Route {
	var routes []machine.Route
	for i, via := range c.addresses.of(management, by.number) {
		for _, destinations := range [][]string{c.addresses.podRanges(), c.addresses.serviceRanges()} {
			routes = append(routes, machine.Route{Destination: destinations[i], Via: via.String()})
		}
	}
	return routes
}

// zoneCentral is the machine of a zone's OVN databases, with weft's own programs for that zone. The one of the first
// zone is the [central]. One controller leads for all zones, and the others stand by.
type zoneCentral struct {
	layout
	zone
	podNetworks bool
}

func (c zoneCentral) spec() *machine.Spec {
	spec := c.newSpec(c.host)
	spec.Interfaces = []machine.Interface{
		c.networkInterface("eth0", management, c.number),
		c.networkInterface("ul0", underlay, c.number),
	}
	spec.Binds = append(spec.Binds, c.databasesDisk())
	spec.Components = databases{c.layout, c.zone}.components()
	if c.weft {
		spec.Components = append(spec.Components, c.southboundGuard(), c.controller(c.controllerName(), controllerPort))
		spec.Components = append(spec.Components, c.chassis(c.host)...)
	}
	return spec
}

func (c zoneCentral) databasesDisk() machine.Bind {
	return machine.Bind{Source: c.files.machine(c.host, "ovn"), Target: "/var/lib/ovn", Create: true}
}

// southboundGuard is the Southbound to the zone's nodes.
func (c zoneCentral) southboundGuard() machine.Component {
	f := c.files
	metrics := fmt.Sprintf("127.0.0.1:%d", southboundMetricsPort)
	var listen []string
	for _, a := range c.addresses.of(underlay, c.number) {
		listen = append(listen, hostPort(a, southboundPort))
	}
	return machine.Component{
		Name: "weft-southbound",
		Command: []string{f.bin + "/weft", "southbound", "--listen=" + strings.Join(listen, ","), "--ovn-southbound=unix:" +
			southboundSocket,
			"--certificate=" + f.pki(c.certificatePair()+".crt"), "--private-key=" + f.pki(c.certificatePair()+".key"),
			"--node-ca=" + f.pki(southboundCAs+".crt"),
			"--metrics-address=" + metrics},
		WaitFor: []machine.Probe{{Unix: southboundSocket}},
		Ready:   machine.Probe{URL: "http://" + metrics + "/readyz"},
	}
}

// door tells users of the API server what the network does. The API server is told of it when it answers.
func (c central) door() machine.Component {
	f := c.files
	metrics := fmt.Sprintf("127.0.0.1:%d", observeMetricsPort)
	return machine.Component{
		Name: "weft-observe",
		Command: []string{f.bin + "/weft", "observe", "--kubeconfig=" + f.kubeconfig(observeUser), "--identity=" + Central,
			"--listen=" + hostPort(c.addresses.first(management, centralNumber), observePort),
			"--ovn-northbound=unix:" + readOnlySocket("nb"), "--ovn-southbound=unix:" + readOnlySocket("sb"),
			"--tunnel-ca=" + f.pki("ca.crt"), "--tunnel-certificate=" + f.pki(tunnelPair(Central)+".crt"),
			"--tunnel-private-key=" + f.pki(tunnelPair(Central)+".key"),
			"--metrics-address=" + metrics},
		// it needs its rights
		WaitFor: []machine.Probe{{Path: f.manifestsApplied()}, {Unix: readOnlySocket("nb")}, {Unix: readOnlySocket("sb")}},
		Ready:   machine.Probe{URL: "http://" + metrics + "/readyz"},
		Finish: [][]string{{"sh", "-ec",
			`{ cat "$2"; printf '  caBundle: %s\n' "$(base64 -w0 "$3")"; } | "$0" "--kubeconfig=$1" apply --server-side -f -`,
			f.lab("kubectl"), f.kubeconfig("admin"), filepath.Join(f.dir, apiServiceFile), f.pki("ca.crt")}},
	}
}

// controllerName of replica i on the central: the first one bears no number.
func controllerName(i int) string {
	if i == 0 {
		return "weft-controller"
	}
	return fmt.Sprintf("weft-controller-%d", i+1)
}

func (c zoneCentral) controller(name string, port int) machine.Component {
	f := c.files
	metrics := fmt.Sprintf("127.0.0.1:%d", port)
	// It needs its rights. With zones it serves those whose Northbound is there.
	needed := []machine.Probe{{Path: f.manifestsApplied()}}
	if !c.hasZones() {
		needed = append(needed, machine.Probe{Unix: northboundSocket})
	}
	return machine.Component{
		Name: name,
		Command: slices.Concat([]string{f.bin + "/weft", "controller",
			// The Lease then names the component that leads.
			"--identity=" + name,
			"--kubeconfig=" + f.kubeconfig("weft-controller"),
			"--ovn-northbound=" + c.northbound(), "--ovn-ca=" + f.pki(centralCA+".crt"),
			"--ovn-certificate=" + f.pki(controllerPair+".crt"), "--ovn-private-key=" + f.pki(controllerPair+".key"),
			"--pod-cidrs=" + strings.Join(c.addresses.podRanges(), ","),
			"--service-cidrs=" + strings.Join(c.addresses.serviceRanges(), ","),
		}, c.sharedGateway(), []string{
			"--pod-networks=" + strconv.FormatBool(c.podNetworks),
			"--metrics-address=" + metrics}),
		WaitFor: needed,
		Ready:   machine.Probe{URL: "http://" + metrics + "/healthz"},
	}
}

// sharedGateway has the controller's keys of the gateway that nodes can share, which no cluster with zones has. Nobody
// shares it until nodes are told to, and others are labelled.
func (c zoneCentral) sharedGateway() []string {
	if c.hasZones() {
		return nil
	}
	return []string{"--shared-gateway-addresses=" + strings.Join(c.addresses.prefixes(external, sharedNumber), ","),
		"--shared-gateway-next-hops=" + join(c.addresses.of(external, routerNumber))}
}
