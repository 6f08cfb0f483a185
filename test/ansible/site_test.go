//go:build ansible

package ansible

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// siteInstallsAndASecondRunChangesNothing begins with new hosts.
func siteInstallsAndASecondRunChangesNothing(t *testing.T) {
	freshHosts(t)
	pki := filepath.Join(t.TempDir(), "pki")
	play(t, "site.yml", "--check", "-e", "weft_pki_dir="+pki)
	if _, err := os.Stat(pki); err == nil {
		t.Error("a check has made " + pki)
	}
	for host := range hosts {
		if left, err := servers.Try("exec", host, "--", "sh", "-c", "ls -d /etc/weft /var/lib/weft /usr/local/bin/weft "+
			"/etc/systemd/system/ovn-* 2>/dev/null | grep ."); err == nil {
			t.Errorf("a check has made on %s %s", host, left)
		}
	}
	began := time.Now()
	out, tallies := play(t, "site.yml")
	t.Logf("site.yml on new hosts took %s", time.Since(began).Round(time.Second))
	for host := range hosts {
		if tallies[host].changed == 0 {
			t.Fatalf("site.yml changed nothing on %s:\n%s", host, out)
		}
	}
	awaitCluster(t)

	began = time.Now()
	changesNothing(t, "site.yml")
	t.Logf("site.yml again took %s", time.Since(began).Round(time.Second))
}

// changesNothing is a playbook's second run.
func changesNothing(t testing.TB, playbook string, args ...string) {
	t.Helper()
	out, tallies := play(t, playbook, args...)
	for host, n := range tallies {
		if n.changed > 0 {
			t.Errorf("the second run changed %d things on %s:\n%s", n.changed, host, changes(out, host))
		}
	}
}

// freshHosts have new disks; what was there before is uninstalled first, so that Kubernetes has nothing of it.
func freshHosts(t testing.TB) {
	t.Helper()
	if installed() == nil {
		install(t) // which finds out of which OVN it is
		uninstall(t)
	}
	for host := range hosts {
		servers.Must(t, "reset", host)
	}
	mendDatapaths(t)
}

// awaitCluster returns when nodes are Ready, and a pod of each, which go with the test, knows the other and the
// cluster's names.
func awaitCluster(t testing.TB) {
	t.Helper()
	servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "node/l1", "node/l2")
	servers.Kubectl(t, "-n", "kube-system", "wait", "--for=condition=Available", "--timeout=120s", "deployment/coredns")
	for _, node := range []string{"l1", "l2"} {
		servers.Apply(t, agnhost("client-"+node, node, "hostNetwork: false"), waits...)
	}
	for _, node := range []string{"l1", "l2"} {
		servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=60s", "pod/client-"+node)
	}
	awaitConnections(t)
}

func awaitConnections(t testing.TB) {
	t.Helper()
	for from, to := range map[string]string{"client-l1": "client-l2", "client-l2": "client-l1"} {
		eventually(t, 90*time.Second, fmt.Sprintf("%s reaches %s, and the API server by its name", from, to), func() error {
			address, err := servers.Try("kubectl", "--", "get", "pod", to, "-o", "jsonpath={.status.podIP}")
			if err != nil {
				return err
			}
			_, err = servers.Try("kubectl", "--", "exec", from, "--", "sh", "-ec",
				"curl -sS -m 3 http://"+address+
					":8099/hostname; curl -ksS -m 3 https://kubernetes.default.svc.cluster.local/readyz")
			return err
		})
	}
}

// officialTestsPass runs Kubernetes' own conformance tests of DNS, Services and pods' connections.
func officialTestsPass(t *testing.T) {
	install(t)
	servers.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "node/l1", "node/l2")
	servers.Kubectl(t, "-n", "kube-system", "wait", "--for=condition=Available", "--timeout=120s", "deployment/coredns")
	apiServerReachesPods(t)
	out, err := servers.Try("e2e", "--procs", "3", "--focus",
		`\[sig-network\] (DNS|Services|Networking Granular Checks: Pods).*\[Conformance\]`)
	if err != nil {
		t.Fatal(err)
	}
	if passed := passedOfficial(t, out); passed < 20 {
		t.Errorf("only %d of Kubernetes' own tests ran", passed)
	}
}

var officialResult = regexp.MustCompile(`SUCCESS! -- (\d+) Passed \| 0 Failed`)

// passedOfficial is how many of Kubernetes' own tests have passed, by what they say in the end.
func passedOfficial(t testing.TB, said string) int {
	t.Helper()
	result := officialResult.FindStringSubmatch(said)
	if result == nil {
		t.Fatalf("Kubernetes' own tests say %s", said)
	}
	passed, err := strconv.Atoi(result[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of Kubernetes' own tests passed", passed)
	return passed
}

func aNodeThatLostPowerComesBack(t *testing.T) {
	install(t)
	awaitCluster(t)
	began := time.Now()
	servers.Must(t, "reboot", "l2")
	// Before its kubelet is heard of, the node is as Ready as it was.
	eventually(t, 60*time.Second, "its pod has started anew", func() error {
		restarts, err := servers.Try("kubectl", "--", "get", "pod", "client-l2", "-o",
			"jsonpath={.status.containerStatuses[0].restartCount}")
		if err == nil && restarts == "0" {
			err = errors.New("it has not")
		}
		return err
	})
	awaitConnections(t)
	t.Logf("its pod was connected again after %s", time.Since(began).Round(time.Second))
}

// apiServerReachesPods by way of a node's host, as the tests ask for: it runs on no node here.
func apiServerReachesPods(t testing.TB) {
	t.Helper()
	const host = "l1"
	servers.On(t, host, "nft", "add table inet weftlab; delete table inet weftlab; add table inet weftlab; "+
		"add chain inet weftlab postrouting { type nat hook postrouting priority srcnat; }")
	t.Cleanup(func() { servers.On(t, host, "nft", "delete", "table", "inet", "weftlab") })
	for _, f := range []struct{ name, apiServer, host, pods, services string }{
		{"ip", "172.29.0.1", "172.29.0.14", "10.244.0.0/16", "10.96.0.0/16"},
		{"ip6", "fd00:29::1", "fd00:29::14", "fd00:10:244::/48", "fd00:10:96::/112"},
	} {
		if f.name == "ip6" && !*dual {
			continue
		}
		for _, ranges := range []string{f.pods, f.services} {
			servers.On(t, "central", "ip", "route", "replace", ranges, "via", f.host)
			t.Cleanup(func() { servers.On(t, "central", "ip", "route", "delete", ranges) })
		}
		servers.On(t, host, "nft", fmt.Sprintf("add rule inet weftlab postrouting oifname != eth0 %s saddr "+
			"%s %[1]s daddr { %s, %s } masquerade", f.name, f.apiServer, f.pods, f.services))
	}
}
