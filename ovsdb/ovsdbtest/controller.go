package ovsdbtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Controller starts ovn-controller on a node's Open vSwitch database, and an ovs-vswitchd whose datapath is a dummy,
// which touches nothing of the host's. Both end with the test.
func Controller(t testing.TB, vswitch *Process) {
	t.Helper()
	dir := socketDir(t)
	for name, own := range map[string][]string{"ovs-vswitchd": {"--enable-dummy=override", "--disable-system"},
		"ovn-controller": nil} {
		args := append(own, vswitch.Endpoint, "--unixctl="+filepath.Join(dir, name), "-vconsole:off", "-vfile:off",
			"-vsyslog:off")
		cmd := exec.Command(Program(t, name), args...)
		cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVN_RUNDIR="+dir)
		cmd.SysProcAttr = dieWithParent()
		if err := cmd.Start(); err != nil {
			t.Fatalf("start %s: %v", name, err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
}
