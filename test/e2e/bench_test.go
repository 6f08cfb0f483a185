//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// The benchmarks wire pods on a Linux and on a Windows node in turns, so that what else the machine does
// meets both. Times are taken inside the nodes by test/e2e/stopwatch.
const (
	linuxNode   = "l2"
	windowsNode = "w2"
	// samples of each time, in rounds of so many pods a node.
	samples   = 50
	roundPods = 10
	// hnsControl is where containers' starts are told to the emulated HNS.
	hnsControl = "/run/hns/control.sock"
)

type benchPod struct {
	*sandbox
	address netip.Addr // IPv4
}

// BenchmarkCNIAdd times the plugin as containerd calls it, from the start of its process to its end, and
// as a floor the same plugin asked for its VERSION, which it answers alone. On the Windows node both
// are of weft-cni.exe under Wine, behind the lab's shim. Pods have their annotations before. A Linux
// ADD waits for the pod's flows; a Windows ADD cannot, since the vNIC comes with the container.
func BenchmarkCNIAdd(b *testing.B) {
	watch := newStopwatch(b)
	for _, together := range []int{1, 10} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) {
			add, floor := map[string][]time.Duration{}, map[string][]time.Duration{}
			for range b.N {
				for range samples / roundPods {
					watch.onNewPods(b, func(node string, pods []*benchPod) {
						a, f := watch.adds(b, node, pods, together)
						add[node], floor[node] = append(add[node], a...), append(floor[node], f...)
					})
				}
			}
			for _, node := range []string{linuxNode, windowsNode} {
				report50(b, system(node)+"-add", add[node])
				report50(b, system(node)+"-floor", floor[node])
				b.ReportMetric(median(add[node])/median(floor[node]), system(node)+"-add-to-floor")
			}
			b.ReportMetric(median(add[windowsNode])/median(add[linuxNode]), "windows-to-linux-add")
			b.ReportMetric(median(floor[windowsNode])/median(floor[linuxNode]), "windows-to-linux-floor")
			b.ReportMetric(0, "ns/op") // of all together says nothing
		})
	}
}

// BenchmarkCNIFirstPing times what comes after a Windows ADD: the pod's first container starts, its
// vNIC appears, Open vSwitch takes it and its flows let packets through. The pod is pinged from its
// node, over the management port, and pings a pod of another node itself, both every 2 ms.
func BenchmarkCNIFirstPing(b *testing.B) {
	watch := newStopwatch(b)
	peer := podAddresses(b, web("l1"))[0].String()
	var started, fromHost, fromPod []time.Duration
	for range b.N {
		for range samples / roundPods {
			watch.onNewPods(b, func(node string, pods []*benchPod) {
				watch.adds(b, node, pods, 1)
				if node != windowsNode {
					return
				}
				for _, first := range watch.firstPings(b, node, pods, peer) {
					started, fromHost, fromPod = append(started, first.Started), append(fromHost, first.FromHost), append(fromPod, first.FromPod)
				}
			})
		}
	}
	report50(b, "vnic", started)
	report50(b, "ping-from-host", fromHost)
	report50(b, "ping-from-pod", fromPod)
	b.ReportMetric(0, "ns/op")
}

// newStopwatch has the nodes to itself until the benchmark ends, which must leave nothing in HNS.
func newStopwatch(b *testing.B) stopwatch {
	b.Helper()
	path := filepath.Join(repository(), "bin/stopwatch")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./test/e2e/stopwatch")
	build.Dir = repository()
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the stopwatch: %v: %s", err, out)
	}
	takeOverKubelet(b, linuxNode)
	takeOverKubelet(b, windowsNode)
	before := len(readHNS(b, windowsNode).Endpoints)
	b.Cleanup(func() {
		eventually(b, 30*time.Second, "HNS has the endpoints that it had", func() error {
			if now := len(readHNS(b, windowsNode).Endpoints); now != before {
				return fmt.Errorf("it has %d endpoints and had %d", now, before)
			}
			return nil
		})
	})
	return stopwatch(path)
}

// stopwatch is the path of the program.
type stopwatch string

// call and firstPing are as the program has them.
type call struct {
	Env   []string
	Stdin string
}

type firstPing struct{ Started, FromHost, FromPod time.Duration }

func (s *sandbox) call(verb string) call { return call{s.environment(verb), cniConfig()} }

// adds attaches pods, so many at a time; floor is what as many calls for the VERSION took just before.
func (w stopwatch) adds(b *testing.B, node string, pods []*benchPod, together int) (add, floor []time.Duration) {
	b.Helper()
	var groups [][]call
	for some := range slices.Chunk(pods, together) {
		var versions, adds []call
		for _, s := range some {
			versions, adds = append(versions, s.call("VERSION")), append(adds, s.call("ADD"))
		}
		groups = append(groups, versions, adds)
	}
	took, err := w.calls(node, groups)
	if err != nil {
		b.Fatal(err)
	}
	for pair := range slices.Chunk(took, 2) {
		floor, add = append(floor, pair[0]...), append(add, pair[1]...)
	}
	return add, floor
}

func (w stopwatch) calls(node string, groups [][]call) (took [][]time.Duration, err error) {
	err = w.ask(&took, groups, "exec", node, "--", string(w), "calls", plugin)
	return took, err
}

// firstPings starts pods one after the other.
func (w stopwatch) firstPings(b *testing.B, node string, pods []*benchPod, peer string) (took []firstPing) {
	b.Helper()
	type pod struct{ Namespace, Netns, Address, Peer string }
	var started []pod
	for _, s := range pods {
		started = append(started, pod{s.guid(), s.netns, s.address.String(), peer})
	}
	if err := w.ask(&took, started, "exec", node, "--", string(w), "first-ping", hnsControl); err != nil {
		b.Fatal(err)
	}
	return took
}

func (w stopwatch) ask(answer, question any, command ...string) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	out, err := cluster.tryWith(string(text), command...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), answer)
}

func system(node string) string {
	if node == windowsNode {
		return "windows"
	}
	return "linux"
}

func report50(b *testing.B, what string, times []time.Duration) {
	b.ReportMetric(percentile(times, 50), what+"-p50-ms")
	b.ReportMetric(percentile(times, 99), what+"-p99-ms")
}

func median(times []time.Duration) float64 { return percentile(times, 50) }

// percentile in milliseconds; the 99th of fifty times is the longest.
func percentile(times []time.Duration, p int) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[len(sorted)*p/100].Microseconds()) / 1000
}

// onNewPods makes a round of pods on both nodes, has each node's used, and removes them.
func (w stopwatch) onNewPods(b *testing.B, use func(node string, pods []*benchPod)) {
	b.Helper()
	round := map[string][]*benchPod{}
	var manifest strings.Builder
	for range roundPods {
		for _, node := range []string{linuxNode, windowsNode} {
			sandboxes++
			s := &benchPod{sandbox: &sandbox{node: node, pod: fmt.Sprintf("bench-%s-%d", node, sandboxes), container: newContainerID()}}
			s.netns = "/run/netns/" + s.pod
			round[node] = append(round[node], s)
			fmt.Fprintf(&manifest, `
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: bench}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers: [{name: none, image: %q}]
`, s.pod, node, image)
		}
	}
	defer w.removePods(b, round)
	if out, err := cluster.tryWith(manifest.String(), "kubectl", "--", "apply", "-f", "-"); err != nil {
		b.Fatal(out, err)
	}
	eventually(b, 60*time.Second, "the pods have their addresses", func() error { return learnPods(round) })
	for node, pods := range round {
		inNamespaces(b, node, pods, `ip netns add "$p"`)
	}
	for _, node := range []string{linuxNode, windowsNode} {
		use(node, round[node])
	}
}

// inNamespaces runs a shell's command for the namespace $p of each pod.
func inNamespaces(b *testing.B, node string, pods []*benchPod, command string) {
	b.Helper()
	args := []string{"exec", node, "--", "sh", "-ec", `for p; do ` + command + `; done`, "sh"}
	for _, s := range pods {
		args = append(args, s.pod)
	}
	if _, err := cluster.try(args...); err != nil {
		b.Error(err)
	}
}

func (w stopwatch) removePods(b *testing.B, round map[string][]*benchPod) {
	b.Helper()
	for node, pods := range round {
		var dels []call
		for _, s := range pods {
			dels = append(dels, s.call("DEL"))
		}
		if _, err := w.calls(node, [][]call{dels}); err != nil {
			b.Error(err)
		}
		inNamespaces(b, node, pods, `[ ! -e "/run/netns/$p" ] || ip netns del "$p"`)
	}
	if _, err := cluster.try("kubectl", "--", "delete", "pod", "-l", "app=bench", "--force", "--grace-period=0"); err != nil {
		b.Error(err)
	}
}

// learnPods reads what the API server and the controller have given the pods.
func learnPods(round map[string][]*benchPod) error {
	out, err := cluster.try("kubectl", "--", "get", "pod", "-l", "app=bench", "-o", "json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name, UID   string
				Annotations map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	for _, pods := range round {
		for _, s := range pods {
			s.uid = ""
			for _, item := range list.Items {
				network, ok, err := contract.Parse[contract.PodNetwork](item.Metadata.Annotations, contract.PodNetworkAnnotation)
				if item.Metadata.Name == s.pod && ok && err == nil {
					s.uid, s.address = item.Metadata.UID, contract.Addrs(network.Addresses)[0]
				}
			}
			if s.uid == "" {
				return fmt.Errorf("pod %s has no addresses", s.pod)
			}
		}
	}
	return nil
}
