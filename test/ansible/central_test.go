//go:build ansible

package ansible

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// longestWait of a new pod while a central host is lost, beyond what it takes otherwise.
const longestWait = 15 * time.Second

var (
	centrals  = []string{"c1", "c2", "c3"}
	databases = map[string]string{"nb": "OVN_Northbound", "sb": "OVN_Southbound"}
)

// anyCentralMayBeLost cuts the power of one after the other, while it leads both databases and the controllers. Nothing that runs notices, and new pods have their network all the while.
func anyCentralMayBeLost(t *testing.T) {
	install(t)
	deploy(t)
	undisturbed := time.Duration(0)
	for i, n := range nodes {
		undisturbed = max(undisturbed, newPod(t, fmt.Sprintf("undisturbed-%d", i), n.name, n.other))
	}
	t.Logf("A new pod is connected after %s", undisturbed.Round(100*time.Millisecond))
	for _, lost := range centrals {
		makeLeader(t, lost)
		tr := startTraffic(t)
		servers.Must(t, "off", lost)
		t.Cleanup(func() { servers.Must(t, "on", lost) })
		longest := time.Duration(0)
		for i := range 4 {
			n := nodes[i%2]
			longest = max(longest, newPod(t, fmt.Sprintf("without-%s-%d", lost, i), n.name, n.other))
		}
		servers.Must(t, "on", lost)
		for key, name := range databases {
			eventually(t, 120*time.Second, lost+" is a member of "+name+" again", func() error { return memberOf(lost, key, len(centrals)) })
		}
		newPod(t, "after-"+lost, "l1", "l2")
		tr.stop(t)
		t.Logf("Without %s, which led all, new pods were connected after %s at most", lost, longest.Round(100*time.Millisecond))
		if longest-undisturbed > longestWait {
			t.Errorf("without %s a new pod took %s, and %s with it", lost, longest, undisturbed)
		}
	}
	eventually(t, 4*time.Minute, "all is well", func() error { _, _, err := current.tryPlay("verify.yml"); return err })
}

// makeLeader of everything: whoever else leads is started anew until this central does.
func makeLeader(t testing.TB, central string) {
	t.Helper()
	eventually(t, 3*time.Minute, central+" leads", func() error {
		leaders := map[string]string{"weft-controller": servers.Kubectl(t, "get", "lease", "-n", "kube-system", "weft-controller", "-o", "jsonpath={.spec.holderIdentity}")}
		for key, name := range databases {
			leaders["weft-"+key] = leader(t, key, name)
		}
		var others []error
		for unit, leader := range leaders {
			if leader != central {
				others = append(others, fmt.Errorf("%s leads %s", leader, unit))
			}
			if slices.Contains(centrals, leader) && leader != central {
				servers.On(t, leader, "systemctl", "restart", unit)
			}
		}
		return errors.Join(others...)
	})
}

// clusterStatus is what a central's server of a database says of the cluster.
func clusterStatus(central, key string) (string, error) {
	return servers.Try("exec", central, "--", "ovn-appctl", "-t", "/run/ovn/ovn"+key+"_db.ctl", "cluster/status", databases[key])
}

var serverLine = regexp.MustCompile(`(?m)^    [0-9a-f]{4} \(`)

// memberOf says whether a central is one of so many members of a database's cluster that know a leader.
func memberOf(central, key string, members int) error {
	status, err := clusterStatus(central, key)
	if err != nil {
		return err
	}
	if !strings.Contains(status, "Status: cluster member") || strings.Contains(status, "Leader: unknown") || len(serverLine.FindAllString(status, -1)) != members {
		return errors.New(status)
	}
	return nil
}

// leader of a database's cluster.
func leader(t testing.TB, key, database string) string {
	t.Helper()
	found := ""
	eventually(t, 30*time.Second, database+" has a leader", func() error {
		for _, central := range centrals {
			status, err := clusterStatus(central, key)
			if err == nil && strings.Contains(status, "Role: leader") {
				found = central
				return nil
			}
		}
		return errors.New("no central is it")
	})
	return found
}
