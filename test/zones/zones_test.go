//go:build cluster

// Package zones tests a cluster with two zones: `make zones-test` builds what it needs and runs it. docs/zones.md says
// what zones are.
package zones

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/companion"
	"github.com/weftnet/weft/test/lab/labtest"
)

var keep = flag.Bool("keep", false, "leave the cluster up, and use it if it is up already")

var labName = flag.String("lab", "weft-zones", "the cluster's name")

// cluster has l1 and l3 in zone a, and l2 and w1 in zone b, whose central host is central-b.
var cluster labtest.Lab

const otherCentral = "central-b"

var nodes = []string{"l1", "l2", "l3", "w1"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	cluster = labtest.Lab{Name: *labName}
	if !*keep {
		defer cluster.Down()
	}
	if !*keep || !cluster.Running() {
		if err := cluster.Up("--linux", "3", "--windows", "1", "--zones", "2", "--dual"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := deploy(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cluster.Run(m)
}

// web is a Service of all pods with the label app=web.
const web = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  ipFamilyPolicy: RequireDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

// pod is a pod of a node: it serves HTTP on 8080, and lines on 7000.
func pod(name, node, labels string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {%s}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: registry.k8s.io/e2e-test-images/agnhost:2.59
    args: [netexec, --http-port=8080]
    readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 6}
  - name: lines
    image: registry.k8s.io/e2e-test-images/agnhost:2.59
    command: [/bin/steady, serve, ":7000"]
    volumeMounts: [{name: steady, mountPath: /bin/steady}]
  volumes: [{name: steady, hostPath: {path: %s, type: File}}]
`, name, labels, node, steady())
}

func steady() string { return filepath.Join(labtest.Repository(), "bin/steady") }

func deploy() error {
	manifest := web
	for _, node := range nodes {
		manifest += pod(node, node, "app: web")
	}
	if out, err := cluster.TryWith(manifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		return fmt.Errorf("%s%w", out, err)
	}
	_, err := cluster.Try("kubectl", "--", "wait", "--for=condition=Ready", "--timeout=240s", "pod", "-l", "app=web")
	return err
}

// addresses are those in an object's fields, IPv4 first.
func addresses(t testing.TB, object, path string) (list []netip.Addr) {
	t.Helper()
	labtest.Eventually(t, time.Minute, object+" has an address of each family", func() error {
		out, err := cluster.Try("kubectl", "--", "get", object, "-o", "jsonpath="+path)
		if err != nil {
			return err
		}
		list = nil
		for _, text := range strings.Fields(out) {
			list = append(list, netip.MustParseAddr(text))
		}
		if len(list) != 2 {
			return fmt.Errorf("it has %v", list)
		}
		return nil
	})
	return list
}

func podAddresses(t testing.TB, name string) []netip.Addr {
	t.Helper()
	return addresses(t, "pod/"+name, "{.status.podIPs[*].ip}")
}

// get asks a pod or a Service from a pod.
func get(from string, to netip.Addr, port uint16, path string) (string, error) {
	url := fmt.Sprintf("http://%s/%s", netip.AddrPortFrom(to, port), path)
	return cluster.In(from, "curl", "-sS", "--max-time", "3", url)
}

// reaches waits until a pod reaches another one by each address, which sees the first one's own address.
func reaches(t testing.TB, from, to string) {
	t.Helper()
	sources := podAddresses(t, from)
	for i, address := range podAddresses(t, to) {
		labtest.Eventually(t, time.Minute, fmt.Sprintf("%s reaches %s at %s", from, to, address), func() error {
			said, err := get(from, address, 8080, "clientip")
			if err != nil {
				return err
			}
			if client, err := netip.ParseAddrPort(said); err != nil || client.Addr() != sources[i] {
				return fmt.Errorf("it sees %s, and %s has %s", said, from, sources[i])
			}
			return nil
		})
	}
}

// isRefused waits until a pod does not reach another one by any address.
func isRefused(t testing.TB, from, to string) {
	t.Helper()
	for _, address := range podAddresses(t, to) {
		labtest.Eventually(t, time.Minute, fmt.Sprintf("%s does not reach %s at %s", from, to, address), func() error {
			if said, err := get(from, address, 8080, "hostname"); err == nil {
				return fmt.Errorf("it does: %s", said)
			}
			return nil
		})
	}
}

// answer waits until each of these pods has answered, and no other one has in a row of questions. ask runs a command
// where the client is.
func answer(t testing.TB, pods []string, to netip.Addr, port uint16, ask func(command ...string) (string, error)) {
	t.Helper()
	script := fmt.Sprintf("for i in $(seq %d); do curl -sS --max-time 3 http://%s/hostname && echo || exit 1; done",
		8*len(pods), netip.AddrPortFrom(to, port))
	labtest.Eventually(t, 2*time.Minute, fmt.Sprintf("%q answer at %s", pods, to), func() error {
		said, err := ask("sh", "-c", script)
		if err != nil {
			return err
		}
		heard := strings.Fields(said)
		slices.Sort(heard)
		if heard = slices.Compact(heard); !slices.Equal(heard, pods) {
			return fmt.Errorf("%q answer", heard)
		}
		return nil
	})
}

// serves has the Service asked from a pod, by both families.
func serves(t testing.TB, from string, pods ...string) {
	t.Helper()
	for _, address := range addresses(t, "service/web", "{.spec.clusterIPs[*]}") {
		answer(t, pods, address, 80, func(command ...string) (string, error) { return cluster.In(from, command...) })
	}
}

// TestZonesReachEachOther: pods of both zones, of both systems, and a Service with endpoints in both, from a pod of
// each zone and by a NodePort of each.
func TestZonesReachEachOther(t *testing.T) {
	for _, pair := range [][2]string{{"l1", "l2"}, {"l2", "l1"}, {"l1", "w1"}, {"w1", "l1"}, {"l3", "l1"}, {"w1", "l2"}} {
		reaches(t, pair[0], pair[1])
	}
	for _, from := range []string{"l1", "l2", "w1"} {
		serves(t, from, nodes...)
	}
	var port uint16
	said := cluster.Kubectl(t, "get", "service/web", "-o", "jsonpath={.spec.ports[0].nodePort}")
	if _, err := fmt.Sscan(said, &port); err != nil {
		t.Fatalf("NodePort %q: %v", said, err)
	}
	for _, node := range []string{"l1", "l2", "w1"} {
		for _, address := range addresses(t, "node/"+node, `{.status.addresses[?(@.type=="InternalIP")].address}`) {
			answer(t, nodes, address, port, func(command ...string) (string, error) {
				return cluster.Try(append([]string{"exec", "central", "--"}, command...)...)
			})
		}
	}
}

func label(t testing.TB, pod, key, value string) {
	t.Helper()
	cluster.Kubectl(t, "label", "pod", pod, "--overwrite", key+"="+value)
	t.Cleanup(func() { cluster.Kubectl(t, "label", "pod", pod, key+"-") })
}

// onlyMay is a policy: pods with the label guarded=DIRECTION exchange packets in this direction with pods that have the
// label role=may alone.
func onlyMay(direction, word string) string {
	return fmt.Sprintf(`
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: only-may-%[1]s}
spec:
  podSelector: {matchLabels: {guarded: %[1]s}}
  policyTypes: [%[2]s]
  %[1]s: [{%[3]s: [{podSelector: {matchLabels: {role: may}}}]}]
`, strings.ToLower(direction), direction, word)
}

// TestPoliciesHoldBetweenZones: a policy allows one pod of the other zone, and refuses another one there.
func TestPoliciesHoldBetweenZones(t *testing.T) {
	label(t, "l2", "role", "may")
	label(t, "l1", "guarded", "ingress")
	label(t, "l3", "guarded", "egress")
	cluster.Apply(t, onlyMay("Ingress", "from")+onlyMay("Egress", "to"))
	isRefused(t, "w1", "l1")
	isRefused(t, "l3", "w1")
	reaches(t, "l2", "l1")
	reaches(t, "l3", "l2")
	label(t, "w1", "role", "may")
	reaches(t, "w1", "l1")
	reaches(t, "l3", "w1")
}

// TestAZoneIsLost: all that zone b has in its central host ends: databases, northd, guard, controller and chassis host.
// Zone a changes meanwhile, and connections into zone b go on. Zone b learns of the changes when the host is back.
func TestAZoneIsLost(t *testing.T) {
	label(t, "l2", "guarded", "ingress")
	label(t, "l1", "role", "may")
	cluster.Apply(t, onlyMay("Ingress", "from"))
	reaches(t, "l1", "l2")
	isRefused(t, "l3", "l2")
	targets := []string{}
	for i, address := range podAddresses(t, "l2") {
		targets = append(targets, fmt.Sprintf("l2/%d=%s", i, netip.AddrPortFrom(address, 7000)))
	}
	// That of a Windows node by IPv6 ends when nobody runs its ovn-controller: docs/architecture.md.
	targets = append(targets, fmt.Sprintf("w1=%s", netip.AddrPortFrom(podAddresses(t, "w1")[0], 7000)))
	held := hold(t, "l1", targets...)

	cluster.Must(t, "off", otherCentral)
	on := func() { cluster.Must(t, "on", otherCentral) }
	back := false
	t.Cleanup(func() {
		if !back {
			on()
		}
	})
	cluster.Apply(t, pod("late", "l1", "app: web, role: may")+pod("waiting", "l2", "app: web"))
	ready(t, "late")
	reaches(t, "late", "l1")
	serves(t, "l1", "l1", "l2", "l3", "late", "w1")
	isRefused(t, "late", "l2") // zone b does not know of it
	if ips := cluster.Kubectl(t, "get", "pod/waiting", "-o", "jsonpath={.status.podIPs[*].ip}"); ips != "" {
		t.Errorf("a new pod of the zone has the addresses %s", ips)
	}

	on()
	back = true
	ready(t, "waiting")
	reaches(t, "late", "l2")
	isRefused(t, "l3", "l2")
	serves(t, "l2", "l1", "l2", "l3", "late", "w1", "waiting")
	for _, r := range companion.Stop[report](t, held) {
		if r.Error != "" || r.Answers == 0 {
			t.Errorf("the connection to %s: %+v", r.Name, r)
		}
		t.Logf("%s: the longest silence was %d ms", r.Name, r.LongestGapMs)
	}
}

// report is what steady says of a connection.
type report struct {
	Name, Error  string
	Answers      int
	LongestGapMs int64
}

func ready(t testing.TB, name string) {
	t.Helper()
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=240s", "pod/"+name)
}

// hold keeps connections from a pod busy.
func hold(t testing.TB, from string, targets ...string) *companion.Program {
	t.Helper()
	dial := []string{"kubectl", "--", "exec", "-i", from, "-c", "lines", "--", "/bin/steady", "dial"}
	return companion.Start(t, "connected", cluster.Command(append(dial, targets...)...))
}

// TestTheZonesAreParted: no tunnel between the zones carries anything. Each zone works inside, and changes. When the
// tunnels carry again, pods of both reach each other.
func TestTheZonesAreParted(t *testing.T) {
	mark := "cookie=0x7a"
	mend := func() {
		for _, node := range []string{"l1", "l3"} {
			cluster.On(t, node, "ovs-ofctl", "del-flows", "br-ul", mark+"/-1")
		}
	}
	t.Cleanup(mend)
	for _, node := range []string{"l1", "l3"} {
		for _, other := range []string{"l2", "w1"} {
			var facts contract.NodeFacts
			text := cluster.Kubectl(t, "get", "node", other, "-o", `jsonpath={.metadata.annotations.weft\.net/node-facts}`)
			if err := json.Unmarshal([]byte(text), &facts); err != nil {
				t.Fatal(err)
			}
			family := "udp"
			match := "nw"
			if facts.TunnelAddress.Is6() {
				family, match = "udp6", "ipv6"
			}
			for _, direction := range []string{"src", "dst"} {
				cluster.On(t, node, "ovs-ofctl", "add-flow", "br-ul", fmt.Sprintf("priority=100,%s,%s,%s_%s=%s,tp_dst=6081,"+
					"actions=drop", mark, family, match, direction, facts.TunnelAddress))
			}
		}
	}
	isRefused(t, "l1", "l2")
	isRefused(t, "w1", "l3")
	reaches(t, "l1", "l3")
	reaches(t, "w1", "l2")
	cluster.Apply(t, pod("inside", "l2", "app: lone")+pod("beside", "l1", "app: lone"))
	ready(t, "inside")
	ready(t, "beside")
	reaches(t, "inside", "w1")
	reaches(t, "beside", "l3")
	mend()
	reaches(t, "beside", "inside")
	reaches(t, "l1", "w1")
	reaches(t, "w1", "l3")
}
