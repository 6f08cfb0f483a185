//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// sandbox is a pod whose sandbox the test makes itself, in the place of kubelet and the container
// runtime: an object in the API that is bound to a node, and a network namespace there.
type sandbox struct {
	node, pod, uid, container, netns string
}

// takeOverKubelet stops a node's kubelet, so that what the API binds to the node is the test's own
// to attach; what runs there runs on. The kubelet goes on when the test ends.
func takeOverKubelet(t testing.TB, node string) {
	t.Helper()
	signal := func(name string) {
		cluster.Must(t, "exec", node, "--", "pkill", "-"+name, "-f", "--", "kubelet .*--hostname-override="+node)
	}
	signal("STOP")
	t.Cleanup(func() {
		signal("CONT")
		eventually(t, 60*time.Second, node+" is Ready again", func() error {
			_, err := cluster.Try("kubectl", "--", "wait", "--for=condition=Ready", "--timeout=5s", "node/"+node)
			return err
		})
	})
}

var sandboxes int

// newSandbox makes the pod and its namespace; both are gone when the test ends.
func newSandbox(t testing.TB, node string) *sandbox {
	t.Helper()
	sandboxes++
	s := &sandbox{node: node, pod: fmt.Sprintf("sandbox-%s-%d", node, sandboxes)}
	s.container = newContainerID()
	s.netns = "/run/netns/" + s.pod
	cluster.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers: [{name: none, image: %q}]
`, s.pod, node, image))
	s.uid = cluster.Kubectl(t, "get", "pod", s.pod, "-o", "jsonpath={.metadata.uid}")
	cluster.Must(t, "exec", node, "--", "ip", "netns", "add", s.pod)
	t.Cleanup(func() {
		if out, err := s.cni("DEL"); err != nil {
			t.Errorf("DEL at the end: %s %v", out, err)
		}
		s.removeNamespace(t)
		cluster.Kubectl(t, "delete", "pod", s.pod, "--ignore-not-found", "--force", "--grace-period=0")
	})
	return s
}

func (s *sandbox) removeNamespace(t testing.TB) {
	t.Helper()
	cluster.Must(t, "exec", s.node, "--", "sh", "-c", "if [ -e "+s.netns+" ]; then ip netns del "+s.pod+"; fi")
}

func newContainerID() string {
	return strings.Repeat(fmt.Sprintf("%08x", time.Now().UnixNano()&0xffffffff), 8)
}

// addresses are what the controller gave the pod.
func (s *sandbox) addresses(t testing.TB) []netip.Addr {
	t.Helper()
	if *podNetworks {
		return contract.Addrs(told(t, s.node)[s.uid].Addresses)
	}
	text := cluster.Kubectl(t, "get", "pod", s.pod, "-o", `jsonpath={.metadata.annotations.weft\.net/pod-network}`)
	network, ok, err := contract.Parse[contract.PodNetwork](map[string]string{contract.PodNetworkAnnotation: text},
		contract.PodNetworkAnnotation)
	if err != nil || !ok {
		t.Fatalf("pod %s has the annotation %q: %v", s.pod, text, err)
	}
	return contract.Addrs(network.Addresses)
}

// cni is a call of the plugin as containerd makes it.
func (s *sandbox) cni(verb string, more ...string) (string, error) {
	args := append(append([]string{"exec", s.node, "--", "env"}, s.environment(verb)...), plugin)
	return cluster.TryWith(cniConfig(more...), args...)
}

const plugin = "/opt/cni/bin/weft-cni"

func cniConfig(more ...string) string {
	return `{"cniVersion":"1.1.0","name":"weft","type":"weft-cni"` + strings.Join(more, "") + `}`
}

func (s *sandbox) environment(verb string) []string {
	return []string{
		"CNI_COMMAND=" + verb, "CNI_CONTAINERID=" + s.container, "CNI_NETNS=" + s.netns, "CNI_IFNAME=eth0",
		"CNI_PATH=/opt/cni/bin",
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + s.pod + ";K8S_POD_INFRA_CONTAINER_ID=" +
			s.container + ";K8S_POD_UID=" + s.uid,
	}
}

// add is an ADD that must succeed; it returns the pod's first address and the whole result.
func (s *sandbox) add(t testing.TB, more ...string) (netip.Addr, string) {
	t.Helper()
	out, err := s.cni("ADD", more...)
	if err != nil {
		t.Fatalf("ADD %s: %v", s.pod, err)
	}
	var result struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.IPs) == 0 {
		t.Fatalf("ADD %s returned %s: %v", s.pod, out, err)
	}
	return result.IPs[0].Address.Addr(), out
}
