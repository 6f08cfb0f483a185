//go:build ansible

package ansible

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/companion"
)

const (
	steadyOnHosts = "/usr/local/lib/weft-test/steady"
	askOnHosts    = "/usr/local/lib/weft-test/ask"
	outsider      = "172.31.0.253" // an address that is no part of the cluster
)

// nodes, each with the other one and its address.
var nodes = []struct{ name, other, address string }{{"l1", "l2", "172.31.0.14"}, {"l2", "l1", "172.31.0.15"}}

// workload is what the traffic runs between: on each node a pod web-NODE that echoes lines on port 7000 and answers
// datagrams on 8081, and a Service of it alone, web-NODE, which has node ports, too.
const workload = `
---
apiVersion: v1
kind: Pod
metadata: {name: web-%[1]s, labels: {app: web-%[1]s}}
spec:
  nodeName: %[1]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: registry.k8s.io/e2e-test-images/agnhost:2.59
    imagePullPolicy: Never
    args: [netexec, --http-port=8080, --udp-port=8081]
  - name: lines
    image: registry.k8s.io/e2e-test-images/agnhost:2.59
    imagePullPolicy: Never
    command: [/bin/steady, serve, ":7000"]
    volumeMounts: [{name: steady, mountPath: /bin/steady}]
  volumes: [{name: steady, hostPath: {path: %[2]s, type: File}}]
---
apiVersion: v1
kind: Service
metadata: {name: web-%[1]s}
spec:
  type: NodePort
  selector: {app: web-%[1]s}
  ports:
  - {name: lines, port: 7000}
  - {name: datagrams, port: 8081, protocol: UDP}
`

// deploy the workload, which goes with the test.
func deploy(t testing.TB) {
	t.Helper()
	manifest := ""
	for _, n := range nodes {
		place(t, n.name)
		manifest += fmt.Sprintf(workload, n.name, steadyOnHosts)
	}
	servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "node/l1", "node/l2")
	servers.Apply(t, manifest, waits...)
	servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "pod/web-l1", "pod/web-l2")
}

// place the programs of the traffic on a node.
func place(t testing.TB, node string) {
	t.Helper()
	for target, name := range map[string]string{steadyOnHosts: "steady", askOnHosts: "ask"} {
		program, err := os.ReadFile(current.program(name))
		if err != nil {
			t.Fatal(err)
		}
		// A pod may be running it: it is replaced, not written to.
		script := fmt.Sprintf("mkdir -p $(dirname %[1]s) && cat > %[1]s.new && chmod 755 %[1]s.new && mv %[1]s.new %[1]s",
			target)
		if out, err := servers.TryWith(string(program), "exec", node, "--", "sh", "-c", script); err != nil {
			t.Fatal(out, err)
		}
	}
}

// mendDatapath of a node of Debian 12, whose Open vSwitch 3.1.0 ends with an assertion in its connection tracking
// (conntrack.c:1063) within a minute of node ports' traffic, and before that loses the first packet of each connection.
// This is of the userspace datapath alone, but hosts without a kernel of their own have no other; so they run the
// ovs-vswitchd of 3.5 with it.
func mendDatapath(host string) error {
	const dir = "/usr/local/lib/weft-test/ovs"
	if *kernel || hosts[host] != "bookworm" || isCentral(host) {
		return nil
	}
	if _, err := servers.Try("exec", host, "--", "test", "-e", dir+"/bin/ovs-vswitchd"); err == nil {
		return nil
	}
	programs, err := os.ReadFile(archive())
	if err != nil {
		return err
	}
	script := fmt.Sprintf("mkdir -p %[1]s; tar -xz -C %[1]s; sed -i 's|%[2]s|%[1]s|g' %[1]s/bin/*; update-alternatives "+
		"--install /usr/sbin/ovs-vswitchd ovs-vswitchd %[1]s/bin/ovs-vswitchd 1000", dir, ovnPrefix)
	_, err = servers.TryWith(string(programs), "exec", host, "--", "sh", "-ec", script)
	return err
}

// inPod is a command in the network of a pod.
func inPod(t testing.TB, pod, node string, command ...string) []string {
	t.Helper()
	namespace := servers.On(t, node, "sh", "-c", fmt.Sprintf(
		"for n in /run/netns/*; do nsenter --net=$n ip -o addr 2> /dev/null | grep -qF ' %s/' && echo $n && exit; "+
			"done; exit 1", podAddress(t, pod)))
	return append([]string{"exec", node, "--", "nsenter", "--net=" + namespace, "--"}, command...)
}

func podAddress(t testing.TB, pod string) string {
	t.Helper()
	return servers.Kubectl(t, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
}

// startProgram runs a command of weftlab that prints a word when it is ready.
func startProgram(t testing.TB, ready string, args ...string) *companion.Program {
	t.Helper()
	return companion.Start(t, ready, servers.Command(args...))
}

// traffic of the workload: connections that are never opened again, and datagrams that are sent once a second until
// they are answered, ten of each a second; between pods of the two nodes through a Service, from nodes to pods, from
// pods to the outside, and from there to pods.
type traffic struct {
	began     time.Time
	lines     []*companion.Program // steady's
	datagrams map[string]*companion.Program
}

func startTraffic(t testing.TB) *traffic {
	t.Helper()
	const port = "7001"
	steady, ask := current.program("steady"), current.program("ask")
	startProgram(t, "serving", "exec", "outside", "--", "sh", "-c", steady+" serve :"+port+
		" & echo serving; cat > /dev/null; kill $!")
	eventually(t, 10*time.Second, "the outside serves", func() error {
		_, err := servers.Try("exec", "outside", "--", "sh", "-c", steady+" dial self="+outsider+":"+port+
			" < /dev/null | grep -q '[0-9]}$'")
		return err
	})
	tr := &traffic{datagrams: map[string]*companion.Program{}}
	from := func(name string, command []string, steady, ask string, lines, datagrams []string) {
		for i := range lines {
			lines[i] = "from " + name + " " + lines[i]
		}
		tr.lines = append(tr.lines, startProgram(t, "connected", append(append(command, steady, "dial"), lines...)...))
		tr.datagrams[name] = startProgram(t, "asking", append(append(command, ask, "-until-eof", "-every", "100ms"),
			datagrams...)...)
	}
	var toNodes, askNodes []string
	for _, n := range nodes {
		other := "web-" + n.other
		service := servers.Kubectl(t, "get", "service", other, "-o", "jsonpath={.spec.clusterIP}")
		pods := map[string]string{n.name: podAddress(t, "web-"+n.name), n.other: podAddress(t, other)}
		from("pod of "+n.name, inPod(t, "web-"+n.name, n.name), steadyOnHosts, askOnHosts,
			[]string{"to Service of pod of " + n.other + "=" + service + ":7000", "to the outside=" + outsider + ":" + port},
			[]string{"udp://" + service + ":8081/hostname", "udp://" + outsider + ":8081/hostname"})
		from("node "+n.name, []string{"exec", n.name, "--"}, steadyOnHosts, askOnHosts,
			[]string{"to its pod=" + pods[n.name] + ":7000", "to pod of " + n.other + "=" + pods[n.other] + ":7000"},
			[]string{"udp://" + pods[n.name] + ":8081/hostname", "udp://" + pods[n.other] + ":8081/hostname"})
		ports := strings.Fields(servers.Kubectl(t, "get", "service", "web-"+n.name, "-o",
			"jsonpath={.spec.ports[*].nodePort}"))
		toNodes = append(toNodes, "to node port of "+n.name+"="+n.address+":"+ports[0])
		askNodes = append(askNodes, "udp://"+n.address+":"+ports[1]+"/hostname")
	}
	from("outside", []string{"exec", "outside", "--"}, steady, ask, toNodes, askNodes)
	tr.began = time.Now()
	return tr
}

// connection is what steady tells of one.
type connection struct {
	Name         string
	Answers      int
	LongestGapMs int
	Error        string
}

// answers are what ask tells of one URL.
type answers struct {
	URL             string
	Answers, Errors map[string]int
	Repeats         []time.Time // of datagrams that were lost
	SlowestMs       int
	Slow, Stalls    []span
}

// span is a time: of an answer that was long on its way, or in which a program had no processor.
type span struct {
	Since time.Time
	Ms    int
}

// during says whether a time is within a span, or so near to it that the one may follow from the other.
func (s span) during(at time.Time) bool {
	const near = 2 * time.Second
	return at.After(s.Since.Add(-near)) && at.Before(s.Since.Add(time.Duration(s.Ms)*time.Millisecond+near))
}

// stop the traffic. No connection may have ended. Of the datagrams, each of which is a new flow, one in a thousand may
// have been lost, which a datapath in userspace does where the processors are busy, but no two one after the other (see
// [patience]), and none of many at once. What is lost while a client has no processor for half a second does not count:
// then the machine had none to give, to whomever.
func (tr *traffic) stop(t testing.TB) {
	t.Helper()
	tr.end(t, true)
}

// stopAfterStalls does so where switches have stopped for some seconds: datagrams were lost, which is told.
func (tr *traffic) stopAfterStalls(t testing.TB) {
	t.Helper()
	tr.end(t, false)
}

// patience with an answer to datagrams of a client, which go through the gateway or do not. Gateway routers of OVN
// 23.03, which Debian 12 has, ask for their neighbours anew every 300 s. Until the answer has passed the node's
// ovn-controller and the Southbound they send the neighbour nothing. That takes seconds where a kernel's one processor
// is busy.
func patience(client, url string) time.Duration {
	if *kernel && (client == "outside" || strings.Contains(url, outsider)) {
		return 5 * time.Second
	}
	return 2 * time.Second
}

func (tr *traffic) end(t testing.TB, strict bool) {
	t.Helper()
	seconds := int(time.Since(tr.began).Seconds())
	enough := max(seconds*3, 10) // of ten a second, on a machine that has other work
	connections, sent, again, gap, slowest := 0, 0, 0, 0, 0
	for _, p := range tr.lines {
		for _, c := range companion.Stop[connection](t, p) {
			connections, gap = connections+1, max(gap, c.LongestGapMs)
			if c.Error != "" || c.Answers < enough {
				t.Errorf("connection %s had %d answers in %d s, the longest gap %d ms, its end: %q", c.Name, c.Answers, seconds,
					c.LongestGapMs, c.Error)
			}
		}
	}
	heard, stalls := map[string][]answers{}, []span{}
	for name, p := range tr.datagrams {
		heard[name] = companion.Stop[answers](t, p)
		for _, a := range heard[name] {
			stalls = append(stalls, a.Stalls...)
		}
	}
	stalled := func(at time.Time) bool {
		return slices.ContainsFunc(stalls, func(s span) bool { return s.during(at) })
	}
	excused := 0
	for name, list := range heard {
		for _, a := range list {
			count := 0
			for _, n := range a.Answers {
				count += n
			}
			sent, slowest = sent+count, max(slowest, a.SlowestMs)
			for _, at := range a.Repeats {
				why := ""
				if stalled(at) {
					excused, why = excused+1, ", as a machine had no processor to give"
				} else {
					again++
				}
				t.Logf("%s: a datagram from %s to %s was sent again%s", at.UTC().Format("15:04:05.000"), name, a.URL, why)
			}
			late := false
			for _, s := range a.Slow {
				took := time.Duration(s.Ms) * time.Millisecond
				if took < patience(name, a.URL) || stalled(s.Since) || stalled(s.Since.Add(took)) {
					continue
				}
				late = true
				t.Logf("%s: a datagram from %s to %s had its answer after %s\n%s", s.Since.UTC().Format("15:04:05.000"), name,
					a.URL, took, journals(s.Since))
			}
			if count < enough || strict && (len(a.Errors) > 0 || late) {
				t.Errorf("datagrams from %s to %s: %d answered in %d s, the slowest after %d ms; errors %v", name, a.URL, count,
					seconds, a.SlowestMs, a.Errors)
			}
		}
	}
	if connections != 10 || sent == 0 {
		t.Errorf("the traffic was of %d connections and %d datagrams", connections, sent)
	}
	if strict && again > 1+sent/1000 {
		t.Errorf("of %d datagrams %d were lost", sent, again)
	}
	if strict && excused > sent/200 {
		t.Errorf("of %d datagrams %d were lost while a machine had no processor: give this test a quieter one", sent, excused)
	}
	t.Logf("traffic for %d s: %d connections, the longest gap %d ms; of %d datagrams %d lost, and %d while a machine had "+
		"no processor; the slowest answer after %d ms", seconds, connections, gap, sent, again, excused, slowest)
}

// journals of the hosts, of some seconds around a time.
func journals(at time.Time) string {
	const around = 5 * time.Second
	var out strings.Builder
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		text, err := servers.Try("exec", host, "--", "journalctl", "--no-pager", "--output", "short-precise", "--utc",
			"--since", fmt.Sprint("@", at.Add(-around).Unix()), "--until", fmt.Sprint("@", at.Add(around).Unix()))
		if err != nil {
			text = err.Error()
		}
		fmt.Fprintf(&out, "%s:\n%s\n", host, text)
	}
	return out.String()
}

// newPod creates a pod on a node and deletes it in the end. It tells how long it took until the pod was Ready, and the
// workload's pod on the other node had an answer of it.
func newPod(t testing.TB, name, node, asker string) time.Duration {
	t.Helper()
	command := inPod(t, "web-"+asker, asker, "curl", "-sS", "-m", "2")
	began := time.Now()
	servers.Apply(t, agnhost(name, node, "hostNetwork: false"), waits...)
	servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "pod/"+name)
	address := podAddress(t, name)
	eventually(t, 120*time.Second, fmt.Sprintf("%s on %s answers %s", name, node, asker), func() error {
		_, err := servers.Try(append(command, "http://"+address+":8099/hostname")...)
		return err
	})
	return time.Since(began)
}
