//go:build ansible

package ansible

import (
	"strings"
	"testing"
	"time"
)

// TestKernel is of nodes with kernels of their own: what the playbooks install there switches pods' packets in Linux' own datapath, of
// Debian 12 with its Open vSwitch and of Debian 13 with its.
func TestKernel(t *testing.T) {
	if !*kernel {
		t.Skip("the nodes share the machine's kernel; -args -kernel gives them their own")
	}
	began := time.Now()
	install(t)
	t.Logf("site.yml took %s", time.Since(began).Round(time.Second))
	for node, want := range map[string]struct{ kernel, openVSwitch string }{"l1": {"6.1.", "3.1."}, "l2": {"6.12.", "3.5."}} {
		release := servers.On(t, node, "uname", "-r")
		version := servers.On(t, node, "ovs-vswitchd", "--version")
		if !strings.HasPrefix(release, want.kernel) || !strings.Contains(version, "(Open vSwitch) "+want.openVSwitch) {
			t.Errorf("%s has Linux %s and %s, not %s and %s", node, release, version, want.kernel, want.openVSwitch)
		}
		if datapaths := servers.On(t, node, "ovs-appctl", "dpif/show"); !strings.HasPrefix(datapaths, "system@ovs-system") || strings.Contains(datapaths, "netdev@") {
			t.Errorf("the datapaths of %s are not the kernel's:\n%s", node, datapaths)
		}
	}
	awaitCluster(t)
	deploy(t)
	tr := startTraffic(t)
	sideBySide(t)
	tr.stop(t)
	tr = startTraffic(t)
	for _, n := range nodes {
		restartVswitchd(t, n.name)
		newPod(t, "restarted-"+n.name, n.name, n.other)
	}
	tr.stopAfterStalls(t)
}

// restartVswitchd of a node in the orderly way, and returns when the agent is ready again.
func restartVswitchd(t testing.TB, node string) {
	t.Helper()
	began := time.Now()
	servers.On(t, node, "systemctl", "restart", "ovs-vswitchd")
	eventually(t, 60*time.Second, "the agent of "+node+" is ready", func() error {
		_, err := servers.Try("exec", node, "--", "curl", "-fsS", "http://127.0.0.1:9471/readyz")
		return err
	})
	t.Logf("ovs-vswitchd of %s restarted in %s", node, time.Since(began).Round(100*time.Millisecond))
}
