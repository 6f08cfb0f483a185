package lab

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weftnet/weft/test/lab/machine"
)

// Sockets and ports of the central.
const (
	northboundSocket = "/run/ovn/ovnnb_db.sock"
	southboundSocket = "/run/ovn/ovnsb_db.sock"
	etcdAddress      = "127.0.0.1:2379"
	etcdPeerAddress  = "127.0.0.1:2380"
	controllerPort   = 9470

	southboundMetricsPort = 9490

	observePort        = 6645
	observeMetricsPort = 9491
	observeUser        = "weft-observe" // of its credentials' file
)

// remotesSchema is that of a database beside OVN's own, whose only row says what else their server listens on: of all
// that it can be told of a connection, only a row says that it is read-only, and not every OVN's own database has a
// column for it.
const remotesSchema = `{"name": "Weft_Remotes", "version": "1.0.0", "tables": {
  "Remotes": {"isRoot": true, "maxRows": 1, "columns": {"connections": {"type": {"key": {"type": "uuid", "refTable": "Connection"}, "min": 0, "max": "unlimited"}}}},
  "Connection": {"columns": {"target": {"type": "string"}, "read_only": {"type": "boolean"}}}}}`

// readOnlySocket is where a database is read by who may not write it.
func readOnlySocket(database string) string { return "/run/weft-observe/" + database + ".sock" }

// central is the machine of the control plane and OVN's databases. It is also the router of the
// world outside, so that pods reach it as they would reach any host outside the cluster.
type central struct {
	layout
	controllers int
}

func (c central) spec() *machine.Spec {
	spec := c.newSpec(Central)
	spec.Interfaces = []machine.Interface{
		c.networkInterface("eth0", management, centralNumber),
		c.networkInterface("ul0", underlay, centralNumber),
		c.networkInterface("ex0", external, routerNumber),
	}
	for _, n := range c.masqueraders() {
		spec.Routes = append(spec.Routes, c.routesToPods(n)...)
	}
	spec.Binds = append(spec.Binds,
		machine.Bind{Source: c.files.machine(Central, "etcd"), Target: "/var/lib/etcd", Create: true},
		machine.Bind{Source: c.files.machine(Central, "ovn"), Target: "/var/lib/ovn", Create: true})
	spec.Components = c.controlPlane()
	if !c.hasHosts() {
		spec.Components = append(spec.Components, c.databases()...)
	}
	if c.weft {
		spec.Components = append(spec.Components, c.southboundGuard())
		for i := range c.controllers {
			spec.Components = append(spec.Components, c.controller(i))
		}
		if !c.hasHosts() {
			spec.Components = append(spec.Components, c.door())
		}
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

func (c central) controlPlane() []machine.Component {
	f := c.files
	apiReady := c.apiReady()
	afterAPI := []machine.Probe{apiReady}
	client := func(name string, args ...string) []string {
		k := f.kubeconfig(name)
		return append([]string{f.hyperkube(), name, "--kubeconfig=" + k, "--authentication-kubeconfig=" + k,
			"--authorization-kubeconfig=" + k, "--leader-elect=false", "--bind-address=127.0.0.1"}, args...)
	}
	return []machine.Component{
		{
			Name: "etcd",
			Command: []string{f.hyperkube(), "etcd", "--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn",
				"--listen-client-urls=http://" + etcdAddress, "--advertise-client-urls=http://" + etcdAddress,
				"--listen-peer-urls=http://" + etcdPeerAddress, "--initial-advertise-peer-urls=http://" + etcdPeerAddress,
				"--initial-cluster=default=http://" + etcdPeerAddress},
			Ready: machine.Probe{TCP: etcdAddress},
		},
		{
			Name:    "kube-apiserver",
			Command: c.apiServerCommand(),
			WaitFor: []machine.Probe{{TCP: etcdAddress}},
			Ready:   apiReady,
		},
		{
			Name: "kube-controller-manager",
			Command: client("kube-controller-manager",
				"--service-account-private-key-file="+f.pki("sa.key"), "--root-ca-file="+f.pki("ca.crt"),
				"--cluster-signing-cert-file="+f.pki("ca.crt"), "--cluster-signing-key-file="+f.pki("ca.key"),
				"--use-service-account-credentials=true", "--allocate-node-cidrs=true", "--configure-cloud-routes=false",
				"--cluster-cidr="+strings.Join(c.addresses.podRanges(), ","),
				"--service-cluster-ip-range="+strings.Join(c.addresses.serviceRanges(), ","),
				c.nodeMask(),
				// With the usual limits its controllers queue for four seconds before the first one starts.
				"--kube-api-qps=500", "--kube-api-burst=1000"),
			WaitFor: afterAPI,
			Ready:   machine.Probe{TCP: "127.0.0.1:10257"},
		},
		{Name: "kube-scheduler", Command: client("kube-scheduler"), WaitFor: afterAPI,
			Ready: machine.Probe{TCP: "127.0.0.1:10259"}},
		{
			Name:    "manifests",
			Prepare: [][]string{{"rm", "-f", f.manifestsApplied()}},
			Command: c.applyManifests(),
			WaitFor: afterAPI,
			Once:    true,
		},
	}
}

// applyManifests ends when the manifests are in force: kinds and policies are so a moment after they are written.
func (c central) applyManifests() []string {
	f := c.files
	kinds, inForce := []string{f.lab(policyKinds)}, ""
	if !c.hasHosts() {
		kinds = append(kinds, filepath.Join(f.dir, definitionsFile))
	}
	if len(c.windowsNodes) > 0 {
		inForce = `
			until echo '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}}' |
				"$kubectl" "$config" create --dry-run=server -o yaml -f - | grep -q 'kubernetes.io/os: windows'; do :; done`
	}
	return []string{"sh", "-ec", `
		kubectl=$0 config=--kubeconfig=$1
		"$kubectl" "$config" apply --server-side -f "$2" -f "$3"
		"$kubectl" "$config" wait --for=condition=Established --timeout=30s -f "$2"` + inForce + `
		touch "$4"`, f.lab("kubectl"), f.kubeconfig("admin"), strings.Join(kinds, ","), filepath.Join(f.dir, manifestsFile),
		f.manifestsApplied()}
}

func (c central) nodeMask() string {
	switch c.addresses.Families {
	case IPv4:
		return fmt.Sprintf("--node-cidr-mask-size=%d", podMaskV4)
	case IPv6:
		return fmt.Sprintf("--node-cidr-mask-size=%d", podMaskV6)
	}
	return fmt.Sprintf("--node-cidr-mask-size-ipv4=%d", podMaskV4) // 64 is the default of the other
}

func (c central) apiServerCommand() []string {
	f := c.files
	command := []string{f.hyperkube(), "kube-apiserver",
		"--etcd-servers=http://" + etcdAddress,
		"--advertise-address=" + c.addresses.first(management, centralNumber).String(),
		"--secure-port=" + strconv.Itoa(apiPort),
		"--service-cluster-ip-range=" + strings.Join(c.addresses.serviceRanges(), ","), "--endpoint-reconciler-type=lease",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file=" + f.pki("ca.crt"), "--tls-cert-file=" + f.pki("apiserver.crt"), "--tls-private-key-file=" +
			f.pki("apiserver.key"),
		"--kubelet-client-certificate=" + f.pki("apiserver-kubelet.crt"), "--kubelet-client-key=" +
			f.pki("apiserver-kubelet.key"),
		"--kubelet-certificate-authority=" + f.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + f.pki("sa.pub"), "--service-account-signing-key-file=" + f.pki("sa.key"),
		"--requestheader-client-ca-file=" + f.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + f.pki("front-proxy.crt"), "--proxy-client-key-file=" + f.pki("front-proxy.key"),
		"--enable-aggregator-routing=true",
	}
	if len(c.windowsNodes) > 0 { // for the policy that labels Windows nodes
		command = append(command, "--feature-gates=MutatingAdmissionPolicy=true",
			"--runtime-config=admissionregistration.k8s.io/v1beta1=true")
	}
	return command
}

func (c central) databases() []machine.Component {
	f := c.files
	server := func(name, database, schema, socket string, more ...string) machine.Component {
		file := "/var/lib/ovn/" + database + ".db"
		remotes := "/run/ovn/" + name + "-remotes.db"
		return machine.Component{
			Name: name,
			Prepare: [][]string{createDatabase(file, f.schema(schema)),
				createRemotes(remotes, readOnlySocket(name[len("ovn-"):]))},
			Command: append([]string{"ovsdb-server", file, remotes, "--remote=punix:" + socket,
				"--remote=db:Weft_Remotes,Remotes,connections",
				"--pidfile=/run/ovn/" + database + ".pid", "--unixctl=/run/ovn/" + database + ".ctl", "-vconsole:info",
				"-vsyslog:off"}, more...),
			Ready: machine.Probe{Unix: socket},
		}
	}
	listen := []string{"--private-key=" + f.pki(centralPair+".key"), "--certificate=" + f.pki(centralPair+".crt"),
		"--ca-cert=" + f.pki(centralCA+".crt")}
	for _, target := range c.passive(management, northboundPort) {
		listen = append(listen, "--remote="+target)
	}
	return []machine.Component{
		server("ovn-nb", "ovnnb_db", "ovn/ovn-nb.ovsschema", northboundSocket, listen...),
		server("ovn-sb", "ovnsb_db", "ovn/ovn-sb.ovsschema", southboundSocket),
		{
			Name: "ovn-northd",
			Command: []string{"ovn-northd", "--ovnnb-db=unix:" + northboundSocket, "--ovnsb-db=unix:" + southboundSocket,
				"--pidfile=/run/ovn/ovn-northd.pid", "-vconsole:info", "-vsyslog:off"},
			WaitFor: []machine.Probe{{Unix: northboundSocket}, {Unix: southboundSocket}},
		},
	}
}

// southboundGuard is the Southbound to the nodes.
func (c central) southboundGuard() machine.Component {
	f := c.files
	metrics := fmt.Sprintf("127.0.0.1:%d", southboundMetricsPort)
	var listen []string
	for _, a := range c.addresses.of(underlay, centralNumber) {
		listen = append(listen, hostPort(a, southboundPort))
	}
	return machine.Component{
		Name: "weft-southbound",
		Command: []string{f.bin + "/weft", "southbound", "--listen=" + strings.Join(listen, ","), "--ovn-southbound=unix:" +
			southboundSocket,
			"--certificate=" + f.pki(centralPair+".crt"), "--private-key=" + f.pki(centralPair+".key"),
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

// passive are the connections by which a database's server listens on the central's addresses of a network.
func (c central) passive(on network, port int) []string {
	var targets []string
	for _, a := range c.addresses.of(on, centralNumber) {
		targets = append(targets, fmt.Sprintf("pssl:%d:%s", port, bracketed(a)))
	}
	return targets
}

// createRemotes makes a database that has its server listen on a socket for readers alone.
func createRemotes(file, socket string) []string {
	rows := `["Weft_Remotes", {"op": "insert", "table": "Connection", "uuid-name": "reader", "row": {"target": "punix:` + socket + `", "read_only": true}},
		{"op": "insert", "table": "Remotes", "row": {"connections": ["named-uuid", "reader"]}}]`
	return []string{"sh", "-ec", `
		rm -f "$0" && mkdir -p "$(dirname "$1")"
		printf %s "$2" > "$0.ovsschema"
		ovsdb-tool create "$0" "$0.ovsschema" && ovsdb-tool transact "$0" "$3"`, file, socket, remotesSchema, rows}
}

// createDatabase makes an OVSDB file where there is none.
func createDatabase(file, schema string) []string {
	return []string{"sh", "-c", `[ -e "$0" ] || exec ovsdb-tool create "$0" "$1"`, file, schema}
}

// controllerName of replica i: the first one bears no number.
func controllerName(i int) string {
	if i == 0 {
		return "weft-controller"
	}
	return fmt.Sprintf("weft-controller-%d", i+1)
}

func (c central) controller(i int) machine.Component {
	f := c.files
	metrics := fmt.Sprintf("127.0.0.1:%d", controllerPort+i)
	return machine.Component{
		Name: controllerName(i),
		Command: []string{f.bin + "/weft", "controller",
			// The Lease then names the component that leads.
			"--identity=" + controllerName(i),
			"--kubeconfig=" + f.kubeconfig("weft-controller"),
			"--ovn-northbound=" + c.addresses.northbound(), "--ovn-ca=" + f.pki(centralCA+".crt"),
			"--ovn-certificate=" + f.pki(controllerPair+".crt"), "--ovn-private-key=" + f.pki(controllerPair+".key"),
			"--pod-cidrs=" + strings.Join(c.addresses.podRanges(), ","),
			"--service-cidrs=" + strings.Join(c.addresses.serviceRanges(), ","),
			// Nobody shares a gateway until nodes are told to, and others are labelled.
			"--shared-gateway-addresses=" + strings.Join(c.addresses.prefixes(external, sharedNumber), ","),
			"--shared-gateway-next-hops=" + join(c.addresses.of(external, routerNumber)),
			"--metrics-address=" + metrics},
		WaitFor: []machine.Probe{{Path: f.manifestsApplied()}, {Unix: northboundSocket}}, // it needs its rights
		Ready:   machine.Probe{URL: "http://" + metrics + "/healthz"},
	}
}
