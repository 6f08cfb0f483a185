//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/connectivity"
	weftlab "github.com/weftnet/weft/test/lab"
)

// TestConnectivityCommand: this network passes the test that users run, and a fault in it is named.
func TestConnectivityCommand(t *testing.T) {
	long(t)
	outside := netip.AddrPortFrom(outsideAddresses(t)[0], weftlab.OutsideHTTPPort)
	r, err := testConnectivity("--outside", outside.String())
	if err != nil || r.Result != connectivity.Passed {
		t.Errorf("a network without a fault: %s", r.Result)
		logFailed(t, r)
	}
	passed := map[connectivity.Way]int{}
	for _, s := range r.Summaries() {
		passed[s.Way] = s.Passed
	}
	for _, way := range connectivity.Ways {
		if passed[way] == 0 {
			t.Errorf("nothing of %q has passed", way)
		}
	}

	t.Cleanup(func() { // after the planted policy's; groups and address sets outlive what they were made for
		eventually(t, 60*time.Second, "the Northbound has nothing of the test's pods", func() error {
			for _, row := range northbound(t) {
				if strings.Contains(row, "weft-connectivity-") {
					return fmt.Errorf("it has %s", row)
				}
			}
			return nil
		})
	})
	const pods = "{pods: {namespaceSelector: {matchLabels: {app.kubernetes.io/name: " + connectivity.Name +
		"}}, podSelector: {matchLabels: {role: %s}}}}"
	cluster.Apply(t, fmt.Sprintf("\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n"+
		"metadata: {name: planted}\nspec: {tier: Admin, priority: 741, subject: "+pods+", ingress: [{action: Deny, from: "+
		"["+pods+"]}]}\n", "guarded", "client"))
	ready(t, "planted", "True", "InForce")
	if r, err = testConnectivity("--nodes", "l1,w1"); err == nil {
		t.Error("a network with a fault passes")
	}
	for _, s := range r.Summaries() {
		switch refused := s.Way == connectivity.PolicyAllows; {
		case refused && s.Passed > 0, !refused && s.Failed > 0:
			t.Errorf("while what policies allow is refused, %d of %q have passed and %d have failed", s.Passed, s.Way, s.Failed)
		}
	}
	if left := cluster.Kubectl(t, "get", "namespaces", "-o", "name", "-l", "app.kubernetes.io/name="+
		connectivity.Name); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func logFailed(t *testing.T, r connectivity.Report) {
	t.Helper()
	for _, result := range r.Results {
		if result.State != connectivity.Passed {
			t.Logf("%+v", result)
		}
	}
}

// testConnectivity has no more than a kubeconfig. Its error has what the command has said.
func testConnectivity(args ...string) (r connectivity.Report, err error) {
	kubeconfig := filepath.Join(weftlab.StateDir(cluster.Name), "pki", "admin.kubeconfig")
	out, err := host("central").try(append([]string{filepath.Join(repository(), "bin/weft"), "connectivity", "test", "-o",
		"json", "--kubeconfig", kubeconfig}, args...)...)
	if broken := json.Unmarshal([]byte(out), &r); broken != nil {
		return r, fmt.Errorf("%w, %w", broken, err)
	}
	return r, err
}
