//go:build cluster

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"

	"github.com/weftnet/weft/test/companion"
	"github.com/weftnet/weft/test/lab"
	"github.com/weftnet/weft/test/lab/image"
	"github.com/weftnet/weft/test/lab/labtest"
)

// inForce is how long a change may take until packets meet it.
const inForce = 20 * time.Second

// TestClusterRunsByTheRelease: the chart's pods take the place of the lab's own controller and door, and of a node's
// agent, by the archives of a release alone. They do all that the lab's own do, and leave nothing when they go.
func TestClusterRunsByTheRelease(t *testing.T) {
	for _, node := range linuxNodes {
		for _, archive := range []string{"weft-controller-*.oci.tar", "weft-node-*.oci.tar"} {
			cluster.On(t, node, "ctr", "--namespace", "k8s.io", "images", "import", file(t, archive))
		}
		shareSockets(t, node)
	}
	cluster.Kubectl(t, "label", "node", "l1", "l2", "node-role.kubernetes.io/control-plane=")
	secret(t, "weft-controller-ovn", "ovn-central-ca.crt", "ovn-weft-controller")
	secret(t, "weft-observe-tunnel", "ca.crt", "tunnel-central")
	stop(t, lab.Central, "weft-controller", "weft-observe")

	h := newHelm(t)
	var installed *helmrelease.Release
	for _, chapter := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"the pods are Ready", func(t *testing.T) {
			installed = h.install(t, controllers, doors(t))
			awaitRollouts(t, "deployment/weft-controller", "deployment/weft-observe")
		}},
		{"a pod leads", func(t *testing.T) { awaitLeader(t) }},
		{"new pods have a Service and a policy", podsServe},
		{"a door answers", doorAnswers},
		{"another pod leads when the leader is gone", anotherLeads},
		{"an agent is a pod", func(t *testing.T) { installed = agentIsAPod(t, h) }},
		{"nothing is left", func(t *testing.T) { h.uninstall(t, installed) }},
		{"the lab's own go on", ownGoOn},
	} {
		if !t.Run(chapter.name, chapter.run) {
			tellOfPods(t)
			return
		}
	}
}

// controllers are the values of the lab's cluster.
const controllers = `{image: {pullPolicy: Never}, apiServer: {host: 172.29.0.1}, controller: {tlsSecret: weft-controller-ovn,
	config: {ovn-northbound: ["ssl:172.29.0.1:6641"], pod-cidrs: [10.244.0.0/16], service-cidrs: [10.96.0.0/16],
	shared-gateway-addresses: [172.31.0.200/24], shared-gateway-next-hops: [172.31.0.254]}}}`

// doors are the values of doors beside controllers.
func doors(t *testing.T) string {
	t.Helper()
	authority, err := os.ReadFile(pki("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := json.Marshal(string(authority))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{observe: {enabled: true, tlsSecret: weft-observe-tunnel, sockets: {group: %d}, caBundle: %s}}",
		socketsGroup, bundle)
}

// agentOnL1 are the values of an agent as a pod of node l1, beside controllers and doors.
const agentOnL1 = `{node: {enabled: true, nodeSelector: {kubernetes.io/hostname: l1}, config: {
	ovn-southbound: ["ssl:172.30.0.1:6642"], datapath-type: netdev, encap-address: 172.30.0.11, uplink-mtu: 1500,
	gateway: local, gateway-interface: ex0, gateway-bridge: br-ex, tunnel-address: "172.29.0.11:16642",
	tunnel-ca: /etc/weft/pki/ca.crt, tunnel-certificate: /etc/weft/pki/agent.crt,
	tunnel-private-key: /etc/weft/pki/agent.key}}}`

// pki is the path of a file of the lab's certificates.
func pki(name string) string { return filepath.Join(lab.StateDir(cluster.Name), "pki", name) }

// secret is one as the chart wants it, of an authority and of a pair of the lab's.
func secret(t *testing.T, name, authority, pair string) {
	t.Helper()
	cluster.Kubectl(t, "create", "secret", "generic", "--namespace="+namespace, name, "--from-file=ca.crt="+pki(authority),
		"--from-file=tls.crt="+pki(pair+".crt"), "--from-file=tls.key="+pki(pair+".key"))
}

// stop ends programs of the lab until it is told to restart them.
func stop(t *testing.T, machine string, components ...string) {
	t.Helper()
	for _, component := range components {
		cluster.Must(t, "stop", machine, component)
	}
}

// awaitRollouts waits until all pods of the chart's workloads are Ready: Helm leaves as many out as may be unavailable.
func awaitRollouts(t *testing.T, workloads ...string) {
	t.Helper()
	for _, workload := range workloads {
		cluster.Kubectl(t, "rollout", "status", "--namespace="+namespace, "--timeout=2m", workload)
	}
}

// leader is the holder of the controllers' Lease.
func leader() (string, error) {
	return cluster.Try("kubectl", "--", "get", "lease", "--namespace="+namespace, "weft-controller", "-o",
		"jsonpath={.spec.holderIdentity}")
}

// controllerPods are the names of the chart's controllers.
func controllerPods() ([]string, error) {
	out, err := cluster.Try("kubectl", "--", "get", "pods", "--namespace="+namespace,
		"--selector=app.kubernetes.io/name=weft-controller", "-o", "jsonpath={.items[*].metadata.name}")
	return strings.Fields(out), err
}

// awaitLeader waits until one of the chart's controllers leads that is none of some, and returns its name.
func awaitLeader(t *testing.T, except ...string) string {
	t.Helper()
	var holder string
	labtest.Eventually(t, time.Minute, "a pod leads", func() error {
		pods, err := controllerPods()
		if err != nil {
			return err
		}
		if holder, err = leader(); err == nil && (!slices.Contains(pods, holder) || slices.Contains(except, holder)) {
			err = fmt.Errorf("%q leads, and the pods are %v", holder, pods)
		}
		return err
	})
	return holder
}

const webPod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: web}}
spec:
  nodeName: %[2]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: ` + image.Agnhost + `
    imagePullPolicy: Never
    args: [netexec, --http-port=8080]
    readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 10}
  - name: lines
    image: ` + image.Agnhost + `
    imagePullPolicy: Never
    command: [/bin/steady, serve, ":7000"]
    volumeMounts: [{name: steady, mountPath: /bin/steady}]
  volumes: [{name: steady, hostPath: {path: %[3]s, type: File}}]
`

const webService = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// apply creates what a manifest says. It goes with the lab.
func apply(t *testing.T, manifest string) {
	t.Helper()
	if out, err := cluster.TryWith(manifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
}

// runWeb runs a pod of the workload, and returns when it has got its address and answers.
func runWeb(t *testing.T, name, node string) {
	t.Helper()
	apply(t, fmt.Sprintf(webPod, name, node, filepath.Join(labtest.Repository(), "bin/steady")))
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=2m", "pod/"+name)
}

func web(node string) string { return "web-" + node }

// podsServe: pods of each node get their addresses, a Service has all of them answer, and a policy refuses clients as
// long as it is there.
func podsServe(t *testing.T) {
	for _, node := range []string{"l1", "l2", "w1"} {
		runWeb(t, web(node), node)
	}
	apply(t, webService)
	awaitAnswers(t, web("l1"), web("l2"), web("w1"))

	const policy = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed}, spec: {
		podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}}`
	apply(t, policy)
	labtest.Eventually(t, inForce, "the policy refuses clients", func() error {
		if out, err := ask(); err == nil {
			return fmt.Errorf("%s has answered", out)
		}
		return nil
	})
	cluster.Kubectl(t, "delete", "networkpolicy", "closed")
	awaitAnswers(t, web("l1"), web("l2"), web("w1"))
}

// ask asks the Service once from a pod, and returns which pod has answered.
func ask() (string, error) {
	address, err := cluster.Try("kubectl", "--", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return "", err
	}
	return cluster.In(web("l2"), "curl", "-sS", "--max-time", "3", "http://"+address+"/hostname")
}

// awaitAnswers asks the Service until all of the pods have answered.
func awaitAnswers(t *testing.T, pods ...string) {
	t.Helper()
	heard := map[string]bool{}
	labtest.Eventually(t, inForce, "the Service has all its pods answer", func() error {
		pod, err := ask()
		if err != nil {
			return err
		}
		heard[pod] = true
		for _, pod := range pods {
			if !heard[pod] {
				return fmt.Errorf("%s has not answered, of %v", pod, pods)
			}
		}
		return nil
	})
}

// doorAnswers: the API server trusts a door of the chart, which reads the databases and runs OVN's programs.
func doorAnswers(t *testing.T) {
	labtest.Eventually(t, time.Minute, "the status is that of a door of the chart", func() error {
		out, err := cluster.Try("weft", "--", "status", "-o", "json")
		var list struct {
			Items []struct {
				Door   string
				Leader struct{ Holder string }
			}
		}
		if json.Unmarshal([]byte(out), &list) != nil || len(list.Items) != 1 {
			return fmt.Errorf("weft status says %q: %v", out, err)
		}
		status := list.Items[0]
		holder, err := leader()
		if err == nil && (!slices.Contains(linuxNodes, status.Door) || status.Leader.Holder != holder) {
			err = fmt.Errorf("door %s says that %s leads, and the Lease is of %s", status.Door, status.Leader.Holder, holder)
		}
		return err
	})
	if out := cluster.Must(t, "weft", "--", "trace", "default/"+web("l2"), "svc/default/web:80"); !strings.Contains(out,
		"default/web-") {
		t.Errorf("the trace does not come to a pod of the Service:\n%s", out)
	}
	for _, command := range []string{"nbctl", "sbctl"} {
		if out := cluster.Must(t, "weft", "--", command, "show"); !strings.Contains(out, "default_web-l1") {
			t.Errorf("weft %s show does not know the pod:\n%s", command, out)
		}
	}
}

// anotherLeads: the leader is killed, and another pod of the chart, which was ready to, does its work.
func anotherLeads(t *testing.T) {
	former := awaitLeader(t)
	cluster.Kubectl(t, "delete", "pod", "--namespace="+namespace, "--grace-period=0", "--force", former)
	awaitLeader(t, former)
	runWeb(t, "later", "l2")
	awaitAnswers(t, "later")
}

// agentIsAPod: a pod takes the place of the agent on a node. Connections go on meanwhile; pods come and go.
func agentIsAPod(t *testing.T, h helm) *helmrelease.Release {
	t.Helper()
	// What a node has that kubeadm and an authority of its own have set up.
	cluster.On(t, "l1", "sh", "-ec", "mkdir -p /etc/weft/pki; cp \"$0\" /etc/kubernetes/kubelet.conf; "+
		"cp \"$1\" /etc/weft/pki/ca.crt; cp \"$2\" /etc/weft/pki/agent.crt; cp \"$3\" /etc/weft/pki/agent.key",
		pki("l1.kubeconfig"), pki("ca.crt"), pki("agent-l1.crt"), pki("agent-l1.key"))
	held := hold(t)
	stop(t, "l1", "weft-node")
	cluster.On(t, "l1", "rm", "/opt/cni/bin/weft-cni") // the chart's pod brings its own
	upgraded := h.upgrade(t, controllers, doors(t), agentOnL1)
	awaitRollouts(t, "daemonset/weft-node")
	labtest.Eventually(t, inForce, "the agent is that of the release", func() error {
		facts, err := cluster.Try("kubectl", "--", "get", "node", "l1", "-o", `jsonpath={.metadata.annotations.weft\.net/node-facts}`)
		if err == nil && !strings.Contains(facts, strconv.Quote(h.chart.AppVersion())) {
			err = fmt.Errorf("the agent says %s", facts)
		}
		return err
	})
	labtest.Eventually(t, inForce, "the agent answers doors", func() error {
		// The lab's Windows nodes do not answer this, which is an error.
		out, err := cluster.Try("weft", "--", "flows", "--all-namespaces", "--node", "l1")
		if !strings.Contains(out, web("l2")+":7000") || strings.Contains(out, "unanswered: node l1") {
			return fmt.Errorf("weft flows says %s: %v", out, err)
		}
		return nil
	})

	runWeb(t, "by-pod", "l1")
	awaitAnswers(t, "by-pod")
	cluster.Kubectl(t, "delete", "pod", "by-pod", "--timeout=1m")
	for _, r := range companion.Stop[report](t, held) {
		if r.Error != "" || r.Answers == 0 {
			t.Errorf("a connection from before had %d answers, and ended with %q", r.Answers, r.Error)
		}
	}
	return upgraded
}

// report is what became of a connection that steady has held.
type report struct {
	Answers int
	Error   string
}

// hold opens a connection from a pod of l1 to one of l2, and keeps it busy until it is stopped.
func hold(t *testing.T) *companion.Program {
	t.Helper()
	address := cluster.Kubectl(t, "get", "pod", web("l2"), "-o", "jsonpath={.status.podIP}")
	return companion.Start(t, "connected", cluster.Command("kubectl", "--", "exec", "--stdin", web("l1"),
		"--container=lines", "--", "/bin/steady", "dial", "held="+address+":7000"))
}

// ownGoOn: the lab's own rights and programs take over again.
func ownGoOn(t *testing.T) {
	cluster.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f",
		filepath.Join(lab.StateDir(cluster.Name), "manifests.yaml"))
	cluster.On(t, "l1", "ln", "-sf", filepath.Join(labtest.Repository(), "bin/weft-cni"), "/opt/cni/bin/")
	cluster.Must(t, "restart", "l1", "weft-node")
	for _, component := range []string{"weft-controller", "weft-observe"} {
		cluster.Must(t, "restart", lab.Central, component)
	}
	runWeb(t, "at-last", "l1")
	awaitAnswers(t, "at-last", web("w1"))
	labtest.Eventually(t, time.Minute, "all components of the lab work", func() error {
		_, err := cluster.Try("status")
		return err
	})
}

// tellOfPods says what the chart's pods are at, and their logs.
func tellOfPods(t *testing.T) {
	t.Helper()
	const ours = "--selector=app.kubernetes.io/part-of=weft"
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"},
		{"describe", "pods", "--namespace=" + namespace, ours},
		{"logs", "--namespace=" + namespace, ours, "--all-containers", "--prefix", "--tail=40"}} {
		out, err := cluster.Try(append([]string{"kubectl", "--"}, args...)...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
