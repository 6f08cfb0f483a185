//go:build ansible

package ansible

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	ovnPrefix = "/opt/ovn-25.03"
	units     = "/etc/systemd/system"
)

// closed admits nobody to the pods of an app.
const closed = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed-%[1]s}
spec: {podSelector: {matchLabels: {app: %[1]s}}, policyTypes: [Ingress]}
`

// upgradeUnderTraffic goes from the commit before and the distribution's OVN to this one and OVN 25.03. It fails on the
// second node, so that one node has the new release and everything else the old one; they work together, and the next
// run completes it.
func upgradeUnderTraffic(t *testing.T) {
	freshHosts(t)
	old := previous(t)
	began := time.Now()
	old.play(t, "site.yml")
	t.Logf("The release before was installed in %s", time.Since(began).Round(time.Second))
	deploy(t)
	tr := startTraffic(t)
	oldNorthd, oldController := version(t, "c1", "ovn-northd"), version(t, "l2", "ovn-controller")

	current.vars = prefixed(t)
	// What is there can be read, and nothing new be written.
	servers.On(t, "l2", "sh", "-ec", "mount --bind "+units+" "+units+" && mount -o remount,bind,ro "+units)
	t.Cleanup(func() { _, _ = servers.Try("exec", "l2", "--", "umount", units) }) // it may be gone already
	out, tallies, err := current.tryPlay("upgrade.yml")
	if err == nil || tallies["l2"].failed != 1 || tallies["l1"].failed > 0 {
		t.Fatalf("upgrade.yml should have failed on l2 alone: %v\n%s", err, out)
	}
	before, now := checksum(t, old.program("weft")), checksum(t, current.program("weft"))
	for host := range hosts {
		want := before
		if host == "l1" {
			want = now
		}
		if got := programOf(t, host); got != want {
			t.Errorf("after the upgrade stopped at l2, %s has weft %s; that of before is %s, the new one %s", host, got, before,
				now)
		}
	}
	if got := version(t, "c1", "ovn-northd"); got != oldNorthd {
		t.Errorf("after the upgrade stopped at l2, c1 runs northd %s", got)
	}
	t.Logf("Side by side: ovn-controller %s on l1 and %s on l2, northd %s", version(t, "l1", "ovn-controller"),
		oldController, oldNorthd)
	sideBySide(t)

	servers.On(t, "l2", "umount", units)
	began = time.Now()
	play(t, "upgrade.yml")
	t.Logf("upgrade.yml took %s for all but the first node", time.Since(began).Round(time.Second))
	for host := range hosts {
		if got := programOf(t, host); got != now {
			t.Errorf("%s runs weft %s, not %s", host, got, now)
		}
		daemon := "ovn-northd"
		if !isCentral(host) {
			daemon = "ovn-controller"
		}
		if got := version(t, host, daemon); !strings.HasPrefix(got, "25.03") {
			t.Errorf("%s of %s has version %s", daemon, host, got)
		}
	}
	for _, central := range centrals {
		for key, name := range databases {
			schema := ovnPrefix + "/share/ovn/ovn-" + key + ".ovsschema"
			if got := servers.On(t, central, ovnPrefix+"/bin/ovsdb-client", "--timeout=10", "needs-conversion",
				"unix:/run/ovn/ovn"+key+"_db.sock", schema); got != "no" {
				t.Errorf("%s on %s needs another schema: %s", name, central, got)
			}
		}
	}
	newPod(t, "upgraded", "l1", "l2")
	refused(t, "site.yml", []string{"-e", "weft_ovn_prefix=", "-e", "weft_ovn_archive="},
		"The databases on c1 are of OVN 25.03", "as weft_ovn_prefix is not set")
	tr.stop(t)
}

// sideBySide changes pods, policies and Services, of which each node has a part.
func sideBySide(t *testing.T) {
	t.Helper()
	for _, n := range nodes {
		newPod(t, "mixed-"+n.name, n.name, n.other)
		name, pod := "mixed-"+n.name, "pod/mixed-"+n.name
		servers.Kubectl(t, "label", pod, "app="+name)
		servers.Kubectl(t, "expose", pod, "--port=80", "--target-port=8099")
		t.Cleanup(func() { servers.Kubectl(t, "delete", "service", name) })
		address := servers.Kubectl(t, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}")
		ask := inPod(t, "web-"+n.other, n.other, "curl", "-sS", "-m", "1", "http://"+address+"/hostname")
		answers := func() error { _, err := servers.Try(ask...); return err }
		eventually(t, 60*time.Second, "the Service "+name+" answers on the other node", answers)

		policy := fmt.Sprintf(closed, name)
		if out, err := servers.TryWith(policy, "kubectl", "--", "apply", "-f", "-"); err != nil {
			t.Fatal(out, err)
		}
		eventually(t, 60*time.Second, "the policy holds", func() error {
			if answers() == nil {
				return fmt.Errorf("%s answers, whom nobody may ask", name)
			}
			return nil
		})
		for range 5 {
			if answers() == nil {
				t.Errorf("the policy of %s did hold, and does no more", name)
			}
		}
		servers.Kubectl(t, "delete", "networkpolicy", "closed-"+name)
		eventually(t, 60*time.Second, "the Service "+name+" answers again", answers)
	}
}

// prefixed are the arguments of plays that install OVN in the prefix.
func prefixed(t testing.TB) []string {
	t.Helper()
	return []string{"-e", "weft_ovn_prefix=" + ovnPrefix, "-e", "weft_ovn_archive=" + archive(), "-e",
		"weft_ovn_archive_checksum=" + checksum(t, archive())}
}

func archive() string { return filepath.Join(repository(), "bin/lab/ovn-25.03.tar.gz") }

func checksum(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// programOf is the checksum of the weft that runs on a host, which is the one that is installed.
func programOf(t testing.TB, host string) string {
	t.Helper()
	unit := "weft-node"
	if isCentral(host) {
		unit = "weft-controller"
	}
	sums := strings.Fields(servers.On(t, host, "sh", "-ec", "sha256sum /usr/local/bin/weft /proc/$(systemctl show "+
		"--property=MainPID --value "+unit+")/exe"))
	if sums[0] != sums[2] {
		t.Errorf("%s runs another weft (%s) than is installed (%s)", host, sums[2], sums[0])
	}
	return sums[2]
}

// version of OVN that a daemon on a host has.
func version(t testing.TB, host, daemon string) string {
	t.Helper()
	out := servers.On(t, host, "sh", "-ec", `for ctl in /run/ovn/`+daemon+
		`*.ctl; do ovn-appctl -t "$ctl" version && exit; done`)
	fields := strings.Fields(strings.SplitN(out, "\n", 2)[0])
	return fields[len(fields)-1]
}
