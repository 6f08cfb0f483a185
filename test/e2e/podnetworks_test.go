//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// told are the lines of a node's PodNetworks, by UID.
func told(t testing.TB, node string) map[string]contract.PodAddresses {
	t.Helper()
	lines := map[string]contract.PodAddresses{}
	list := cluster.Kubectl(t, "get", "podnetworks", "-n", contract.PodNetworksNamespace, node, "-o",
		`jsonpath={range .pods[*]}{@}{"\n"}{end}`)
	for text := range strings.Lines(list) {
		line, err := contract.ParsePodAddresses(text)
		if err != nil {
			t.Fatal(err)
		}
		lines[line.UID] = line
	}
	return lines
}

// TestPodsWithoutAnnotations: with PodNetworks, pods of Linux and Windows nodes have their addresses by their nodes'
// objects. Pods come and go, the object is deleted, and agents and controllers restart.
func TestPodsWithoutAnnotations(t *testing.T) {
	if !*podNetworks {
		t.Skip("pods have annotations in this cluster: -pod-networks is not given")
	}
	asNode := func(node, object string) error {
		_, err := cluster.Try("kubectl", "--", "--as=system:node:"+node, "--as-group=system:nodes", "get", "podnetworks",
			"-n", contract.PodNetworksNamespace, object)
		return err
	}
	create := func(node string) (uid string) {
		t.Helper()
		pod := strings.NewReplacer(web(node), "told-"+node, "app: web", "app: told").Replace(fmt.Sprintf(podTemplate, node,
			image, steady()))
		cluster.Apply(t, pod)
		cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "pod/told-"+node)
		uid = cluster.Kubectl(t, "get", "pod", "told-"+node, "-o", "jsonpath={.metadata.uid}")
		line, addrs := told(t, node)[uid], podAddresses(t, "told-"+node)
		if got := contract.Addrs(line.Addresses); !slices.Equal(got, addrs) || line.Pod != "default/told-"+node {
			t.Errorf("%s: its node is told %+v, and it has %v", node, line, addrs)
		}
		for _, addr := range addrs {
			if host, err := get(web("l1"), addr, 8080, "hostname"); err != nil || host != "told-"+node {
				t.Errorf("%s: %q answers at %s: %v", node, host, addr, err)
			}
		}
		return uid
	}
	for _, node := range nodes {
		if annotation := cluster.Kubectl(t, "get", "pod", web(node), "-o",
			`jsonpath={.metadata.annotations.weft\.net/pod-network}`); annotation != "" {
			t.Errorf("%s has the annotation %s", web(node), annotation)
		}
		first := create(node)
		cluster.Kubectl(t, "delete", "pod", "told-"+node, "--grace-period=1")
		if again := create(node); again == first {
			t.Errorf("%s: a pod that was made again has the same UID", node)
		}
		if err := asNode(node, node); err != nil {
			t.Errorf("node %s reads its own: %v", node, err)
		}
		if err := asNode(node, nodes[(slices.Index(nodes, node)+1)%len(nodes)]); err == nil || !strings.Contains(err.Error(),
			"forbidden") {
			t.Errorf("node %s reads another one's: %v", node, err)
		}
	}
	for _, node := range []string{"l2", "w1"} {
		before := len(told(t, node))
		cluster.Kubectl(t, "delete", "podnetworks", "-n", contract.PodNetworksNamespace, node)
		eventually(t, 20*time.Second, "PodNetworks of "+node+" come back", func() error {
			_, err := cluster.Try("kubectl", "--", "get", "podnetworks", "-n", contract.PodNetworksNamespace, node)
			return err
		})
		if after := len(told(t, node)); after != before {
			t.Errorf("%s: it had %d lines, and has %d", node, before, after)
		}
		cluster.Must(t, "restart", node, "weft-node")
		isReadyAgain(t, node)
	}
	cluster.Must(t, "restart", "central", "weft-controller")
	cluster.Must(t, "restart", "central", "weft-controller-2")
	for _, node := range []string{"l2", "w1"} {
		cluster.Kubectl(t, "delete", "pod", "told-"+node, "--grace-period=1")
		create(node)
	}
}
