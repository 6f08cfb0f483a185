//go:build ansible

package ansible

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/companion"
)

// TestKernelEncrypts: a cluster of nodes with kernels of their own goes from clear tunnels to encrypted ones and back
// by the playbooks, under traffic. In between nobody on the wire reads what pods say.
func TestKernelEncrypts(t *testing.T) {
	needsKernels(t)
	install(t)
	awaitCluster(t)
	deploy(t)
	servers.On(t, "l1", "apt-get", "-qq", "install", "tcpdump")
	wire := wiretap(t)
	if strings.Contains(wire, "ESP") { // the cluster was kept by a run that ended between two steps
		play(t, "site.yml", "-e", "weft_encryption=off")
		wire = wiretap(t)
	}
	if !strings.Contains(wire, planted) {
		t.Fatalf("the tap hears nothing of what pods say in the clear: %q", wire)
	}
	for _, step := range []string{"begin", "enforce", "begin", "off"} {
		tr := startTraffic(t)
		began := time.Now()
		play(t, "site.yml", "-e", "weft_encryption="+step)
		t.Logf("site.yml to %s took %s", step, time.Since(began).Round(time.Second))
		for _, n := range nodes {
			eventually(t, 90*time.Second, n.name+" encrypts what it sends to the other", func() error {
				got := servers.On(t, n.name, "sh", "-c", "curl -fsS http://127.0.0.1:9471/metrics | sed -n "+
					"'s/^weft_.*encrypted_peers //p'")
				if step != "off" && got != "1\n0" { // encrypted, and not encrypted
					return fmt.Errorf("its peers with and without encryption are %q", got)
				}
				return nil
			})
		}
		wire := wiretap(t)
		if clear := strings.Contains(wire, planted); clear != (step == "off") || strings.Contains(wire, "ESP") == clear {
			t.Errorf("%s: on the wire is %q", step, wire)
		}
		tr.stop(t)
	}
}

// planted is what pods say to each other.
const planted = "planted-in-the-clear"

// wiretap is what passes between the nodes' hosts while a pod of l1 asks one of l2 for planted text a hundred times.
func wiretap(t testing.TB) string {
	t.Helper()
	// tcpdump gives its file to a user of its own, and overwrites no such file as root.
	tap := startProgram(t, "listening", "exec", "l1", "--", "sh", "-c",
		"rm -f /tmp/tap; tcpdump -i ex0 -U -w /tmp/tap host "+nodes[1].address+" 2> /tmp/tap.log & tap=$!; "+
			"until grep -q listening /tmp/tap.log; do kill -0 $tap || exit; sleep 0.1; done; echo listening; cat > /dev/null; "+
			"kill $tap; wait $tap")
	url := "http://" + podAddress(t, "web-l2") + ":8080/echo?msg=" + planted
	said := servers.Must(t, inPod(t, "web-l1", "l1", "sh", "-c", "for i in $(seq 100); do curl -fsS -m 3 '"+url+
		"' && echo; done")...)
	if count := strings.Count(said, planted); count != 100 {
		t.Errorf("of 100 questions %d had their answer", count)
	}
	companion.Stop[any](t, tap)
	return servers.On(t, "l1", "sh", "-c", "grep -ao '"+planted+"' /tmp/tap | sort -u; tcpdump -nr /tmp/tap 2> "+
		"/dev/null | grep -o 'ESP\\|6081' | sort -u")
}
