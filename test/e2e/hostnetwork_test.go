//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// hostPods is a Service whose endpoints are the hosts of l1 and w1 themselves, by pods on the host network.
const hostPods = `
apiVersion: v1
kind: Service
metadata: {name: hosts}
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: {app: hosts}
  ports: [{name: http, port: 80, targetPort: 8188}, {name: udp, port: 81, targetPort: 8189, protocol: UDP}]
`

const hostPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: host-%[1]s, labels: {app: hosts}}
spec:
  nodeName: %[1]s
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: %[2]s
    args: [netexec, --http-port=8188, --udp-port=8189]
    readinessProbe: {httpGet: {path: /healthz, port: 8188}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 6}
`

// TestHostNetworkEndpoints: everybody reaches them, by themselves and by a Service: the hosts that they are
// on, too, whose packets come back to them.
func TestHostNetworkEndpoints(t *testing.T) {
	t.Parallel()
	manifest := hostPods
	for _, node := range []string{"l1", "w1"} {
		manifest += fmt.Sprintf(hostPod, node, image)
	}
	cluster.Apply(t, manifest)
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod", "-l", "app=hosts")
	both := []string{"l1", "w1"} // they have the names of their hosts
	service := webURLs(clusterAddresses(t, "hosts")...)
	ports := nodePorts(t, "hosts")
	var direct, nodePort []string
	for _, node := range nodes {
		for _, a := range nodeAddresses(t, node) {
			if slices.Contains(both, node) {
				direct = append(direct, httpURL(a, 8188, "hostname"), udpURL(a, 8189, "hostname"))
			}
			nodePort = append(nodePort, httpURL(a, ports["http"], "hostname"), udpURL(a, ports["udp"], "hostname"))
		}
	}
	for _, from := range clients(t) {
		t.Run(from.String(), func(t *testing.T) {
			t.Parallel()
			served(t, from, both, direct...)
			if from != outsideHost {
				served(t, from, both, service...)
			}
			served(t, from, both, nodePort...)
		})
	}
}

// TestHostsReachAllPods, on their own and on other nodes.
func TestHostsReachAllPods(t *testing.T) {
	t.Parallel()
	var urls []string
	for _, node := range nodes {
		for _, a := range podAddresses(t, web(node)) {
			urls = append(urls, httpURL(a, 8080, "hostname"), udpURL(a, 8081, "hostname"))
		}
	}
	for _, node := range nodes {
		served(t, host(node), everyone, urls...)
	}
}

const hostPortPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: hostport-%[1]s, labels: {app: hostport}}
spec:
  nodeName: %[1]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: %[2]s
    args: [netexec, --http-port=8080, --udp-port=8081]
    ports: [{containerPort: 8080, hostPort: 18081}, {containerPort: 8081, hostPort: 18082, protocol: UDP}]
    readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 6}
`

// TestHostPorts reach the pod from everywhere, the host itself included, and go with it.
func TestHostPorts(t *testing.T) {
	t.Parallel()
	long(t)
	both := []string{"l2", "w1"}
	manifest := ""
	for _, node := range both {
		manifest += fmt.Sprintf(hostPortPod, node, image)
	}
	cluster.Apply(t, manifest)
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod", "-l", "app=hostport")
	urls := func(addrs ...netip.Addr) []string {
		var urls []string
		for _, a := range addrs {
			urls = append(urls, httpURL(a, 18081, "hostname"), udpURL(a, 18082, "hostname"))
		}
		return urls
	}
	for _, node := range both {
		want := []string{"hostport-" + node}
		for _, from := range clients(t) {
			mine := urls(nodeAddresses(t, node)...)
			if from == host(node) {
				mine = append(mine, urls(parseAddrs("127.0.0.1", "::1")...)...)
			}
			served(t, from, want, mine...)
		}
		cluster.Kubectl(t, "delete", "pod", "hostport-"+node, "--grace-period=1")
		for _, from := range []place{outsideHost, inWeb(t, "l1"), host(node)} {
			eventually(t, inForce, "nobody answers "+from.String(), func() error {
				return from.ask(append([]string{"-timeout", "1s"}, urls(nodeAddresses(t, node)...)...)...).unanswered()
			})
		}
	}
}
