//go:build ansible

package ansible

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tally of a playbook's tasks on one host.
type tally struct{ ok, changed, unreachable, failed int }

var recapLine = regexp.MustCompile(`(?m)^(\S+) +: ok=(\d+) +changed=(\d+) +unreachable=(\d+) +failed=(\d+)`)

// play runs a playbook of ansible/playbooks against the lab, and returns what it printed and its recap. Its whole output
// is in the test's log if it fails.
func play(t testing.TB, playbook string, args ...string) (string, map[string]tally) {
	t.Helper()
	argv := append([]string{"control", "--", "ansible-playbook", "playbooks/" + playbook, "--extra-vars", "@../test/ansible/vars.yml"}, args...)
	cmd := servers.command(argv...)
	cmd.Dir = filepath.Join(repository(), "ansible")
	cmd.Env = append(os.Environ(), "ANSIBLE_CALLBACKS_ENABLED=", "ANSIBLE_NOCOLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", playbook, err, out)
	}
	_, recap, found := strings.Cut(string(out), "PLAY RECAP")
	if !found {
		t.Fatalf("%s ended without a recap:\n%s", playbook, out)
	}
	tallies := map[string]tally{}
	for _, m := range recapLine.FindAllStringSubmatch(recap, -1) {
		var n [4]int
		for i := range n {
			if n[i], err = strconv.Atoi(m[i+2]); err != nil {
				t.Fatal(err)
			}
		}
		tallies[m[1]] = tally{n[0], n[1], n[2], n[3]}
	}
	for host := range hosts {
		if tallies[host].ok == 0 {
			t.Fatalf("%s did nothing on %s:\n%s", playbook, host, out)
		}
	}
	return string(out), tallies
}

// changes are the tasks in a playbook's output that changed something on a host.
func changes(output, host string) string {
	var found []string
	task := ""
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "TASK [") || strings.HasPrefix(line, "RUNNING HANDLER [") {
			task = strings.Trim(line, "* \n")
		}
		if strings.HasPrefix(line, "changed: ["+host+"]") {
			found = append(found, task+" "+strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}

func TestSiteInstallsWeftAndASecondRunChangesNothing(t *testing.T) {
	started := time.Now()
	play(t, "site.yml")
	t.Logf("site.yml on new hosts took %s", time.Since(started).Round(time.Second))
	awaitCluster(t)

	started = time.Now()
	out, tallies := play(t, "site.yml")
	t.Logf("site.yml again took %s", time.Since(started).Round(time.Second))
	for host, n := range tallies {
		if n.changed > 0 {
			t.Errorf("the second run changed %d things on %s:\n%s", n.changed, host, changes(out, host))
		}
	}
}

// install Weft where a test wants it and no other has, or has left it.
func install(t testing.TB) {
	t.Helper()
	for host := range hosts {
		unit := "weft-node"
		if strings.HasPrefix(host, "c") {
			unit = "weft-nb"
		}
		if _, err := servers.try("exec", host, "--", "systemctl", "is-active", unit); err != nil {
			play(t, "site.yml")
			return
		}
	}
}

// awaitCluster returns when nodes are Ready, and a pod of each, which go with the test, knows the other and the
// cluster's names.
func awaitCluster(t testing.TB) {
	t.Helper()
	servers.kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "node/l1", "node/l2")
	servers.kubectl(t, "-n", "kube-system", "wait", "--for=condition=Available", "--timeout=120s", "deployment/coredns")
	for _, node := range []string{"l1", "l2"} {
		servers.apply(t, agnhost("client-"+node, node, "hostNetwork: false"))
	}
	for _, node := range []string{"l1", "l2"} {
		servers.kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod/client-"+node)
	}
	awaitConnections(t)
}

func awaitConnections(t testing.TB) {
	t.Helper()
	for from, to := range map[string]string{"client-l1": "client-l2", "client-l2": "client-l1"} {
		eventually(t, 90*time.Second, fmt.Sprintf("%s reaches %s, and the API server by its name", from, to), func() error {
			address, err := servers.try("kubectl", "--", "get", "pod", to, "-o", "jsonpath={.status.podIP}")
			if err != nil {
				return err
			}
			_, err = servers.try("kubectl", "--", "exec", from, "--", "sh", "-ec",
				"curl -sS -m 3 http://"+address+":8099/hostname; curl -ksS -m 3 https://kubernetes.default.svc.cluster.local/readyz")
			return err
		})
	}
}

func TestANodeThatLostPowerComesBack(t *testing.T) {
	install(t)
	awaitCluster(t)
	started := time.Now()
	servers.must(t, "reboot", "l2")
	// Before its kubelet is heard of, the node is as Ready as it was.
	eventually(t, 60*time.Second, "its pod has started anew", func() error {
		restarts, err := servers.try("kubectl", "--", "get", "pod", "client-l2", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
		if err == nil && restarts == "0" {
			err = errors.New("it has not")
		}
		return err
	})
	awaitConnections(t)
	t.Logf("its pod was connected again after %s", time.Since(started).Round(time.Second))
}

// The databases go on while two of three have power, so that new pods get their network, and the third one catches up.
func TestTheClusterOutlivesTheLeaderOfItsDatabases(t *testing.T) {
	install(t)
	lost := leader(t, "nb", "OVN_Northbound")
	servers.must(t, "off", lost)
	t.Cleanup(func() { servers.must(t, "on", lost) })
	awaitCluster(t)
	servers.must(t, "on", lost)
	for key, database := range map[string]string{"nb": "OVN_Northbound", "sb": "OVN_Southbound"} {
		eventually(t, 60*time.Second, lost+" is a member of "+database+" again", func() error {
			status, err := clusterStatus(lost, key, database)
			if err == nil && (!strings.Contains(status, "Status: cluster member") || strings.Contains(status, "Leader: unknown")) {
				err = errors.New(status)
			}
			return err
		})
	}
}

// clusterStatus is what a central's server of a database says of the cluster.
func clusterStatus(central, key, database string) (string, error) {
	return servers.try("exec", central, "--", "ovn-appctl", "-t", "/run/ovn/ovn"+key+"_db.ctl", "cluster/status", database)
}

// leader of a database's cluster.
func leader(t testing.TB, key, database string) string {
	t.Helper()
	found := ""
	eventually(t, 30*time.Second, database+" has a leader", func() error {
		for _, central := range []string{"c1", "c2", "c3"} {
			status, err := clusterStatus(central, key, database)
			if err == nil && strings.Contains(status, "Role: leader") {
				found = central
				return nil
			}
		}
		return errors.New("no central is it")
	})
	return found
}
