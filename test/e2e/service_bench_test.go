//go:build cluster

package e2e

import (
	"net/netip"
	"testing"

	"github.com/weftnet/weft/test/lab/labtest"
)

const (
	// Each way has a port of its own at the server. A client's port is the same on two ways now and then,
	// what is a Service's could not be told from what is not, behind the load balancer. NodePorts lead to 9002.
	directPort, clusterIPPort = 9000, 9001
)

// BenchmarkServices counts connections and bytes on their way through a Service and without it, in
// turns. Servers and clients are Linux programs in the network namespaces of pods and hosts, also
// where the node is a Windows node.
func BenchmarkServices(b *testing.B) {
	flood := labtest.BuildProgram(b, "flood")
	cluster.Apply(b, floodServers)
	var pods, virtual [2]netip.Addr // of l1 and l2
	for i, node := range []string{"l1", "l2"} {
		server := "flood-" + node
		cluster.Kubectl(b, "wait", "--for=condition=Ready", "--timeout=60s", "pod/"+server)
		pods[i], virtual[i] = podAddresses(b, server)[0], clusterAddresses(b, server)[0]
		inPod(b, server, node).serve(b, flood, "serve", ":9000", ":9001", ":9002")
	}
	host("l1").serve(b, flood, "serve", ":9000")
	l1, nodePort := nodeAddresses(b, "l1")[0], uint16(nodePorts(b, "flood-l1")["node"])
	way := func(name string, to netip.Addr, port uint16) labtest.Way {
		return labtest.Way{Name: name, Server: netip.AddrPortFrom(to, port)}
	}
	both := func(server int) []labtest.Way { // to a pod
		return []labtest.Way{way("pod", pods[server], directPort), way("ClusterIP", virtual[server], clusterIPPort)}
	}
	for _, path := range []struct {
		name   string
		client place
		ways   []labtest.Way
	}{
		{"pod to the same node", inWeb(b, "l1"), both(0)},
		{"pod to another node", inWeb(b, "l1"), both(1)},
		{"pod of a Windows node", inWeb(b, "w1"), both(0)},
		{"host itself", host("l1"), append(both(0), way("localhost NodePort", netip.MustParseAddr("127.0.0.1"), nodePort))},
		{"host outside", outsideHost, []labtest.Way{way("host", l1, directPort), way("NodePort", l1, nodePort)}},
	} {
		b.Run(path.name, func(b *testing.B) {
			cluster.CompareWays(b, path.client.args([]string{flood}), path.ways)
		})
	}
}

const floodServers = `
apiVersion: v1
kind: Service
metadata: {name: flood-l1}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {flood: l1}, ports: [{name: cluster, port: 9001}, {name: node, port: 9002}]}
---
apiVersion: v1
kind: Service
metadata: {name: flood-l2}
spec: {ipFamilyPolicy: PreferDualStack, selector: {flood: l2}, ports: [{name: cluster, port: 9001}, {name: node, port: 9002}]}
---
apiVersion: v1
kind: Pod
metadata: {name: flood-l1, labels: {flood: l1}}
spec: {nodeName: l1, terminationGracePeriodSeconds: 1, containers: [{name: pause, image: "` + image + `", args: [pause]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: flood-l2, labels: {flood: l2}}
spec: {nodeName: l2, terminationGracePeriodSeconds: 1, containers: [{name: pause, image: "` + image + `", args: [pause]}]}
`
