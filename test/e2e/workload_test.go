//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const image = "registry.k8s.io/e2e-test-images/agnhost:2.59"

// workload is what the tests talk to: on each node a pod web-NODE that serves HTTP on 8080, UDP on
// 8081 and steady's lines on 7000, and Services in front of them.
const workload = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http}
  - {name: lines, port: 7000, targetPort: 7000}
  - {name: udp, port: 81, targetPort: 8081, protocol: UDP}
---
apiVersion: v1
kind: Service
metadata: {name: web-local}
spec:
  ipFamilyPolicy: PreferDualStack
  internalTrafficPolicy: Local
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {app: nobody}
  ports: [{port: 80}]
`

const podTemplate = `
---
apiVersion: v1
kind: Pod
metadata: {name: web-%[1]s, labels: {app: web}}
spec:
  nodeName: %[1]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: %[2]s
    args: [netexec, --http-port=8080, --udp-port=8081]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 6}
  - name: lines
    image: %[2]s
    command: [/bin/steady, serve, ":7000"]
    volumeMounts: [{name: steady, mountPath: /bin/steady}]
  volumes: [{name: steady, hostPath: {path: %[3]s, type: File}}]
`

func deployWorkload() error {
	manifest := workload
	for _, node := range nodes {
		manifest += fmt.Sprintf(podTemplate, node, image, steady())
	}
	if _, err := cluster.TryWith(manifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		return err
	}
	_, err := cluster.Try("kubectl", "--", "wait", "--for=condition=Ready", "--timeout=120s", "pod", "-l", "app=web")
	return err
}

func steady() string { return filepath.Join(repository(), "bin/steady") }

func web(node string) string { return "web-" + node }

const podIPs = "{.status.podIPs[*].ip}"

// podAddresses are a pod's addresses, IPv4 first.
func podAddresses(t testing.TB, pod string) []netip.Addr {
	t.Helper()
	return addresses(t, "pod/"+pod, podIPs)
}

func clusterAddresses(t testing.TB, service string) []netip.Addr {
	t.Helper()
	return addresses(t, "service/"+service, "{.spec.clusterIPs[*]}")
}

func addresses(t testing.TB, object, path string, flags ...string) []netip.Addr {
	t.Helper()
	addrs, err := tryAddresses(object, path, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

// tryAddresses fails as long as the object has not one of each family.
func tryAddresses(object, path string, flags ...string) ([]netip.Addr, error) {
	out, err := cluster.Try(append([]string{"kubectl", "--", "get", object, "-o", "jsonpath=" + path}, flags...)...)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for field := range strings.FieldsSeq(out) {
		addrs = append(addrs, netip.MustParseAddr(field))
	}
	if len(addrs) != 2 {
		return nil, fmt.Errorf("%s has addresses %v, want one of each family", object, addrs)
	}
	return addrs, nil
}

// get asks a URL from a pod and returns the body.
func get(pod string, addr netip.Addr, port int, path string) (string, error) {
	url := fmt.Sprintf("http://%s/%s", netip.AddrPortFrom(addr, uint16(port)), path)
	return cluster.In(pod, "curl", "-sS", "--max-time", "5", url)
}

// answered asks often enough that every backend is heard (with odds of 1 in 25,000 to miss one of
// four), and returns who answered.
func answered(t testing.TB, pod string, addr netip.Addr, port int) []string {
	t.Helper()
	var hosts []string
	script := fmt.Sprintf("for i in $(seq 40); do curl -sS --max-time 5 http://%s/hostname && echo; done",
		netip.AddrPortFrom(addr, uint16(port)))
	out, err := cluster.In(pod, "sh", "-c", script)
	if err != nil {
		t.Fatalf("requests from %s to %s port %d: %v", pod, addr, port, err)
	}
	for host := range strings.FieldsSeq(out) {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// eventMentions waits for an Event about an object whose message has all the words.
func eventMentions(t testing.TB, kind, namespace, name string, words ...string) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("an Event on %s %s that mentions %q", kind, name, words), func() error {
		out, err := cluster.Try("kubectl", "--", "get", "events", "-n", namespace, "--field-selector",
			"involvedObject.kind="+kind+",involvedObject.name="+name, "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
		if err != nil {
			return err
		}
		for message := range strings.Lines(out) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(message, word) }) {
				return nil
			}
		}
		return fmt.Errorf("events say: %s", out)
	})
}
