//go:build cluster

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestServiceSpreadsOverAllPods(t *testing.T) {
	want := []string{web("l1"), web("l2"), web("w1"), web("w2")}
	for _, addr := range clusterAddresses(t, "web") {
		// The client is itself a backend: some of these requests come back to it (hairpin).
		if got := answered(t, web("l1"), addr, 80); !slices.Equal(got, want) {
			t.Errorf("%s: answered by %v, want %v", addr, got, want)
		}
		if out, err := askUDP(web("l2"), addr.String(), 81); err != nil || !slices.Contains(want, out) {
			t.Errorf("UDP to %s: %q %v", addr, out, err)
		}
	}
}

func TestLocalServiceStaysOnTheNode(t *testing.T) {
	for _, node := range nodes {
		for _, addr := range clusterAddresses(t, "web-local") {
			if got := answered(t, web(node), addr, 80); !slices.Equal(got, []string{web(node)}) {
				t.Errorf("from %s by %s: answered by %v", node, addr, got)
			}
		}
	}
}

func TestLocalServiceRefusesWhereNobodyServes(t *testing.T) {
	cluster.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: only-l1}
spec: {internalTrafficPolicy: Local, selector: {only: l1}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: only-l1, labels: {only: l1}}
spec:
  nodeName: l1
  terminationGracePeriodSeconds: 1
  containers: [{name: web, image: %q, args: [netexec, --http-port=8080]}]
`, image))
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod/only-l1")
	addr := strings.TrimSpace(cluster.Kubectl(t, "get", "service", "only-l1", "-o", "jsonpath={.spec.clusterIP}"))
	eventually(t, 20*time.Second, "l1 is served", func() error {
		_, err := cluster.In(web("l1"), "curl", "-sS", "--max-time", "2", "http://"+addr+"/hostname")
		return err
	})
	out, err := cluster.In(web("l2"), "curl", "-sS", "--max-time", "5", "http://"+addr+"/hostname")
	if !refused(err) {
		t.Errorf("l2 got %q, %v; want connection refused", out, err)
	}
}

func TestServiceWithoutEndpointsRefuses(t *testing.T) {
	for _, addr := range clusterAddresses(t, "nobody") {
		if out, err := get(web("l1"), addr, 80, ""); !refused(err) {
			t.Errorf("%s: got %q, %v; want connection refused", addr, out, err)
		}
	}
}

// refused tells a refusal, curl's exit code 7, from silence, which is 28.
func refused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "exit code 7")
}

func TestServicesFollowTheirEndpoints(t *testing.T) {
	addr := clusterAddresses(t, "web")[0]
	label := func(value string) { cluster.Kubectl(t, "label", "pod", web("l2"), "--overwrite", "app="+value) }
	label("away")
	t.Cleanup(func() { label("web") })
	eventually(t, 20*time.Second, "l2 leaves the Service", func() error {
		if got := answered(t, web("l1"), addr, 80); slices.Contains(got, web("l2")) {
			return fmt.Errorf("answered by %v", got)
		}
		return nil
	})
	label("web")
	eventually(t, 20*time.Second, "l2 is back in the Service", func() error {
		if got := answered(t, web("l1"), addr, 80); !slices.Contains(got, web("l2")) {
			return fmt.Errorf("answered by %v", got)
		}
		return nil
	})
}

func TestNorthboundReadsLikeTheCluster(t *testing.T) {
	lbs := cluster.Must(t, "nbctl", "--", "lb-list")
	for _, want := range []string{"web/cluster/defa ", "kubernetes/clust ", "kube-dns/cluster "} {
		if !strings.Contains(lbs, want) {
			t.Errorf("lb-list has no %s:\n%s", want, lbs)
		}
	}
	show := cluster.Must(t, "nbctl", "--", "show")
	for _, want := range []string{`port default_web-l1\b`, `router [-0-9a-f]+ \(cluster\)`, `switch [-0-9a-f]+ \(join\)`,
		`router [-0-9a-f]+ \(gw-l1\)`} {
		if !regexp.MustCompile(want).MatchString(show) {
			t.Errorf("show has nothing like %s:\n%s", want, show)
		}
	}
}
