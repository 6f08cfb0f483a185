//go:build ansible

package ansible

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weftnet/weft/test/lab/labtest"
)

const floodPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: flood-%[1]s-%[2]s, labels: {flood: %[1]s-%[2]s, kind: %[1]s}}
spec:
  nodeName: %[2]s
  terminationGracePeriodSeconds: 1
  containers:
  - {name: pause, image: registry.k8s.io/e2e-test-images/agnhost:2.59, imagePullPolicy: Never, args: [pause]}
`

const floodService = `
---
apiVersion: v1
kind: Service
metadata: {name: flood-%[1]s}
spec: {selector: {flood: open-%[1]s}, ports: [{port: 9001}]}
`

const floodPolicy = `
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: flood}
spec:
  podSelector: {matchLabels: {kind: guarded}}
  ingress: [{from: [{podSelector: {matchLabels: {kind: client}}}], ports: [{port: 9000}]}]
`

// BenchmarkKernelDatapath counts connections and bytes between pods on the kernel's datapath, in turns: without a
// Service and a policy, through a Service, and to a pod with a policy. The client is a pod of l1.
func BenchmarkKernelDatapath(b *testing.B) {
	if !*kernel {
		b.Skip("the nodes share the machine's kernel; -args -kernel gives them their own")
	}
	install(b)
	awaitCluster(b)
	const floodOnHosts = "/usr/local/lib/weft-test/flood"
	program, err := os.ReadFile(labtest.BuildProgram(b, "flood"))
	if err != nil {
		b.Fatal(err)
	}
	manifest := floodPolicy + fmt.Sprintf(floodPod, "client", "l1")
	for _, n := range nodes {
		manifest += fmt.Sprintf(floodPod, "open", n.name) + fmt.Sprintf(floodPod, "guarded", n.name) +
			fmt.Sprintf(floodService, n.name)
		if out, err := servers.TryWith(string(program), "exec", n.name, "--", "sh", "-c",
			"mkdir -p $(dirname "+floodOnHosts+") && cat > "+floodOnHosts+" && chmod 755 "+floodOnHosts); err != nil {
			b.Fatal(out, err)
		}
	}
	servers.Apply(b, manifest, waits...)
	servers.Kubectl(b, "wait", "--for=condition=Ready", "--timeout=120s", "pod", "-l", "flood")
	for _, n := range nodes {
		for _, kind := range []string{"open", "guarded"} {
			startProgram(b, "started", inPod(b, "flood-"+kind+"-"+n.name, n.name, "sh", "-c",
				floodOnHosts+" serve :9000 :9001 > /dev/null 2>&1 & server=$!; echo started; cat > /dev/null; kill $server")...)
		}
	}
	stranger := inPod(b, "flood-open-l1", "l1", floodOnHosts)
	for _, n := range nodes {
		guarded := podAddress(b, "flood-guarded-"+n.name) + ":9000"
		eventually(b, 60*time.Second, "the policy of "+n.name+" refuses others", func() error {
			if _, err := servers.Try(append(stranger, "connections", guarded, "10ms")...); err == nil {
				return fmt.Errorf("flood-open-l1 reaches %s", guarded)
			}
			return nil
		})
	}
	client := inPod(b, "flood-client-l1", "l1", floodOnHosts)
	for _, path := range []struct{ name, node string }{{"pod to the same node", "l1"}, {"pod to another node", "l2"}} {
		b.Run(path.name, func(b *testing.B) {
			way := func(name, address string, port uint16) labtest.Way {
				return labtest.Way{Name: name, Server: netip.AddrPortFrom(netip.MustParseAddr(address), port)}
			}
			ways := []labtest.Way{
				way("pod", podAddress(b, "flood-open-"+path.node), 9000),
				way("ClusterIP", servers.Kubectl(b, "get", "service", "flood-"+path.node, "-o", "jsonpath={.spec.clusterIP}"),
					9001),
				way("pod with a policy", podAddress(b, "flood-guarded-"+path.node), 9000),
			}
			servers.CompareWays(b, client, ways)
			for _, way := range ways {
				tellUpcalls(b, client, way)
			}
		})
	}
}

// tellUpcalls reports how many packets of a connection the kernel of the client's node hands to ovs-vswitchd, since it
// has no flow for them.
func tellUpcalls(b *testing.B, client []string, way labtest.Way) {
	b.Helper()
	before := missed(b, "l1")
	flooded, err := servers.Flood(client, way, "connections", 2*time.Second)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s: %.4f upcalls for each of %.0f connections", way.Name, float64(missed(b, "l1")-before)/flooded.Count,
		flooded.Count)
}

var missedPackets = regexp.MustCompile(`lookups: .*\bmissed:(\d+)`)

// missed is how many packets of a node have found no flow in the kernel's datapath.
func missed(b *testing.B, node string) int {
	b.Helper()
	found := missedPackets.FindStringSubmatch(servers.On(b, node, "ovs-dpctl", "show", "system@ovs-system"))
	if found == nil {
		b.Fatalf("%s: ovs-dpctl tells of no missed packets", node)
	}
	count, err := strconv.Atoi(found[1])
	if err != nil {
		b.Fatal(err)
	}
	return count
}
