package ovsdbtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Northd starts ovn-northd between two servers; it ends with the test.
func Northd(t testing.TB, northbound, southbound *Process) {
	t.Helper()
	dir := socketDir(t)
	cmd := exec.Command(Program(t, "ovn-northd"), "--ovnnb-db="+northbound.Endpoint, "--ovnsb-db="+southbound.Endpoint,
		"--unixctl="+filepath.Join(dir, "ctl"), "-vconsole:off", "-vfile:off", "-vsyslog:off")
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVN_RUNDIR="+dir)
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start ovn-northd: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}
