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

// longestWait of a new pod for its network while a central host is lost.
const longestWait = 15 * time.Second

var (
	centrals  = []string{"c1", "c2", "c3"}
	databases = map[string]string{"nb": "OVN_Northbound", "sb": "OVN_Southbound"}
)

// anyCentralMayBeLost cuts the power of one after the other, while it leads both databases and the controllers. Nothing
// that runs notices, and new pods have their network all the while.
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
		eventually(t, 2*time.Minute, "the centrals are at rest", atRest)
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
			eventually(t, 120*time.Second, lost+" is a member of "+name+" again", func() error {
				return memberOf(lost, key, len(centrals))
			})
		}
		newPod(t, "after-"+lost, "l1", "l2")
		tr.stop(t)
		t.Logf("Without %s, which led all, new pods were connected after %s at most", lost,
			longest.Round(100*time.Millisecond))
		if longest > longestWait {
			t.Errorf("without %s a new pod took %s, more than %s", lost, longest, longestWait)
		}
	}
	eventually(t, 4*time.Minute, "all is well", func() error { _, _, err := current.tryPlay("verify.yml"); return err })
}

// makeLeader of everything: the other controllers are stopped until this central's leads, and a database's leader is
// started anew until it is this one.
func makeLeader(t testing.TB, central string) {
	t.Helper()
	for _, verb := range []string{"stop", "start"} {
		for _, other := range centrals {
			if other != central {
				servers.On(t, other, "systemctl", verb, "weft-controller")
			}
		}
		eventually(t, time.Minute, central+"'s controller leads", func() error {
			_, err := leaseHolder("weft-controller", central)
			return err
		})
	}
	eventually(t, 3*time.Minute, central+" leads both databases", func() error {
		var others []error
		for key, name := range databases {
			if at := leader(t, key, name); at != central {
				servers.On(t, at, "systemctl", "restart", "weft-"+key)
				others = append(others, fmt.Errorf("%s led %s", at, name))
			}
		}
		return errors.Join(others...)
	})
}

// leaseHolder is the one of hosts that has a Lease of Weft's; it is an error if none of them has.
func leaseHolder(lease string, hosts ...string) (string, error) {
	holder, err := servers.Try("kubectl", "--", "get", "lease", "--namespace=kube-system", lease,
		"--output=jsonpath={.spec.holderIdentity}")
	if err == nil && !slices.Contains(hosts, holder) {
		err = fmt.Errorf("%q has the Lease %s, and none of %v", holder, lease, hosts)
	}
	return holder, err
}

// atRest says whether one northd works, and all of them have had their connection to the Northbound for so long that
// they forgot the tries it took: who loses it sooner goes on with the pauses of the last time, which double up to eight
// seconds.
func atRest() error {
	working := 0
	for _, central := range centrals {
		connection, err := northd(central, "nb-connection-status")
		tries, failed := servers.Try("exec", central, "--", "sh", "-c",
			"journalctl --quiet --unit weft-northd --since -10s --output cat | grep ssl: || true")
		status, dead := northd(central, "status")
		if err := errors.Join(err, failed, dead); err != nil {
			return err
		}
		if connection != "connected" || tries != "" {
			return fmt.Errorf("%s: the Northbound is %s; in the last ten seconds: %s", central, connection, tries)
		}
		if status == "Status: active" {
			working++
		}
	}
	if working != 1 {
		return fmt.Errorf("%d northds are active", working)
	}
	return nil
}

func northd(central, command string) (string, error) {
	return servers.Try("exec", central, "--", "ovn-appctl", "-t", "/run/ovn/ovn-northd.ctl", command)
}

// clusterStatus is what a central's server of a database says of the cluster.
func clusterStatus(central, key string) (string, error) {
	return servers.Try("exec", central, "--", "ovn-appctl", "-t", "/run/ovn/ovn"+key+"_db.ctl", "cluster/status",
		databases[key])
}

var serverLine = regexp.MustCompile(`(?m)^    [0-9a-f]{4} \(`)

// memberOf says whether a central is one of so many members of a database's cluster that know a leader.
func memberOf(central, key string, members int) error {
	status, err := clusterStatus(central, key)
	if err != nil {
		return err
	}
	if !strings.Contains(status, "Status: cluster member") || strings.Contains(status, "Leader: unknown") ||
		len(serverLine.FindAllString(status, -1)) != members {
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
