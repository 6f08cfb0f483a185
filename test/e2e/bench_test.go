//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/lab/labtest"
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

// BenchmarkCNI times the plugin as containerd calls it, from the start of its process to its end, and
// as a floor the same plugin asked for its VERSION, which it answers alone. On the Windows node both
// are of weft-cni.exe under Wine, behind the lab's shim. Pods have their annotations before.
//
// A Linux ADD waits for the pod's flows. A Windows ADD cannot, since the vNIC comes with the pod's first
// container, which here starts when the pod's ADD, or those of all that are wired together, have
// ended. So the time from there until a pod of another node answers its pings, one each 2 ms, belongs
// to it; on Linux that time begins with ADD's answer.
func BenchmarkCNI(b *testing.B) {
	watch := newStopwatch(b)
	peer := podAddresses(b, web("l1"))[0]
	for _, together := range []int{1, 10} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) {
			all := map[string][]wiring{}
			for range b.N {
				for range samples / roundPods {
					onNewPods(b, func(node string, pods []*sandbox) {
						all[node] = append(all[node], watch.wire(b, node, pods, together, peer)...)
					})
				}
			}
			linux, windows := all[linuxNode], all[windowsNode]
			for _, figure := range figures {
				tell(b, "linux-"+figure.name, figure.of, linux)
				tell(b, "windows-"+figure.name, figure.of, windows)
				ratio := percentile(windows, 50, figure.of) / percentile(linux, 50, figure.of)
				b.ReportMetric(ratio, "windows-to-linux-"+figure.name)
			}
			for name, all := range map[string][]wiring{"linux": linux, "windows": windows} {
				b.ReportMetric(percentile(all, 50, wiring.add)/percentile(all, 50, wiring.floor), name+"-add-to-floor")
			}
			tell(b, "windows-vnic", func(w wiring) time.Duration { return w.Started }, windows)
			b.ReportMetric(0, "ns/op") // of all together says nothing
		})
	}
}

var figures = []struct {
	name string
	of   func(wiring) time.Duration
}{
	{"add", wiring.add},
	{"floor", wiring.floor},
	{"ping", func(w wiring) time.Duration { return w.Ping }},
	{"add-and-ping", func(w wiring) time.Duration { return w.Add + w.Ping }},
}

// wiring is what the stopwatch says of a pod.
type wiring struct{ Floor, Add, Started, Ping time.Duration }

func (w wiring) add() time.Duration   { return w.Add }
func (w wiring) floor() time.Duration { return w.Floor }

func tell(b *testing.B, name string, of func(wiring) time.Duration, all []wiring) {
	b.Helper()
	b.ReportMetric(percentile(all, 50, of), name+"-p50-ms")
	b.ReportMetric(percentile(all, 99, of), name+"-p99-ms")
}

// percentile in milliseconds; the 99th of fifty times is the longest.
func percentile(all []wiring, p int, of func(wiring) time.Duration) float64 {
	var times []time.Duration
	for _, w := range all {
		times = append(times, of(w))
	}
	slices.Sort(times)
	return float64(times[len(times)*p/100].Microseconds()) / 1000
}

// newStopwatch has the nodes to itself until the benchmark ends, which must leave nothing in HNS.
func newStopwatch(b *testing.B) stopwatch {
	b.Helper()
	path := labtest.BuildProgram(b, "stopwatch")
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

// wire attaches pods, so many at a time.
func (w stopwatch) wire(b *testing.B, node string, pods []*sandbox, together int, peer netip.Addr) (took []wiring) {
	b.Helper()
	type pod struct {
		Environment                    []string
		Config, Namespace, Netns, Peer string
	}
	var groups [][]pod
	for some := range slices.Chunk(pods, together) {
		var group []pod
		for _, s := range some {
			group = append(group, pod{s.environment("ADD"), cniConfig(), s.guid(), s.netns, peer.String()})
		}
		groups = append(groups, group)
	}
	input, err := json.Marshal(groups)
	if err != nil {
		b.Fatal(err)
	}
	args := []string{"exec", node, "--", string(w)}
	if node == windowsNode {
		args = append(args, "--hns", hnsControl)
	}
	out, err := cluster.TryWith(string(input), append(args, plugin)...)
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &took); err != nil || len(took) != len(pods) {
		b.Fatalf("the stopwatch says %q of %d pods: %v", out, len(pods), err)
	}
	return took
}

// onNewPods makes a round of pods on both nodes, has each node's used, and removes them.
func onNewPods(b *testing.B, use func(node string, pods []*sandbox)) {
	b.Helper()
	round := map[string][]*sandbox{}
	var manifest strings.Builder
	for range roundPods {
		for _, node := range []string{linuxNode, windowsNode} {
			sandboxes++
			s := &sandbox{node: node, pod: fmt.Sprintf("bench-%s-%d", node, sandboxes), container: newContainerID()}
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
	defer removePods(b, round)
	if out, err := cluster.TryWith(manifest.String(), "kubectl", "--", "apply", "-f", "-"); err != nil {
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
func inNamespaces(b *testing.B, node string, pods []*sandbox, command string) {
	b.Helper()
	args := []string{"exec", node, "--", "sh", "-ec", `for p; do ` + command + `; done`, "sh"}
	for _, s := range pods {
		args = append(args, s.pod)
	}
	if _, err := cluster.Try(args...); err != nil {
		b.Error(err)
	}
}

func removePods(b *testing.B, round map[string][]*sandbox) {
	b.Helper()
	for node, pods := range round {
		var dels sync.WaitGroup
		for _, s := range pods {
			dels.Go(func() {
				if out, err := s.cni("DEL"); err != nil {
					b.Errorf("DEL at the end: %s %v", out, err)
				}
			})
		}
		dels.Wait()
		inNamespaces(b, node, pods, `[ ! -e "/run/netns/$p" ] || ip netns del "$p"`)
	}
	if _, err := cluster.Try("kubectl", "--", "delete", "pod", "-l", "app=bench", "--force",
		"--grace-period=0"); err != nil {
		b.Error(err)
	}
}

// learnPods reads what the API server and the controller have given the pods.
func learnPods(round map[string][]*sandbox) error {
	out, err := cluster.Try("kubectl", "--", "get", "pod", "-l", "app=bench", "-o", "json")
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
				_, ok, err := contract.Parse[contract.PodNetwork](item.Metadata.Annotations, contract.PodNetworkAnnotation)
				if item.Metadata.Name == s.pod && ok && err == nil {
					s.uid = item.Metadata.UID
				}
			}
			if s.uid == "" {
				return fmt.Errorf("pod %s has no addresses", s.pod)
			}
		}
	}
	return nil
}
