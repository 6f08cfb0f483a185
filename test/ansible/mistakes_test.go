//go:build ansible

package ansible

import (
	"strings"
	"testing"
)

// mistakesAreRefused before anything is touched, all of a run at once.
func mistakesAreRefused(t *testing.T) {
	install(t)
	refused(t, []string{"-e", `{"weft_pod_cidrs": ["10.96.0.0/12"]}`, "-e", "weft_ovn_prefx=/opt/ovn", "-e", "weft_kubeconfig=/nonexistent", "-e", "weft_binaries=/nonexistent"},
		"weft_pod_cidrs 10.96.0.0/12 overlaps with weft_service_cidrs 10.96.0.0/16",
		"variable weft_ovn_prefx is none of Weft's (did you mean weft_ovn_prefix?)",
		"weft_kubeconfig is /nonexistent, which is not on the control node",
		"weft_binaries is /nonexistent, where weft-cni is not")
	refused(t, []string{"-e", `{"weft_node_name": "stranger", "weft_linux_nodes_are": "l1, l2"}`},
		"host l1 is node stranger, which Kubernetes has not",
		"variable weft_linux_nodes_are is none of Weft's")
	refused(t, []string{"-e", "weft_ovn_prefix=/opt/nonexistent", "-e", "weft_ovn_archive="},
		"c1 has no /opt/nonexistent/bin/ovn-appctl that runs")
	refused(t, []string{"-e", "weft_ovn_prefix=/opt/ovn", "-e", "weft_ovn_archive=" + archive(), "-e", "weft_ovn_archive_checksum=" + strings.Repeat("0", 64)},
		"while weft_ovn_archive_checksum says 0000")
}

// refused is site.yml with further arguments when it fails, says why, and has changed nothing.
func refused(t *testing.T, args []string, says ...string) {
	t.Helper()
	out, tallies, err := current.tryPlay("site.yml", args...)
	if err == nil {
		t.Errorf("site.yml %q was not refused:\n%s", args, out)
	}
	for host, n := range tallies {
		if n.changed > 0 {
			t.Errorf("site.yml %q was refused after it had changed %d things on %s:\n%s", args, n.changed, host, changes(out, host))
		}
	}
	for _, message := range says {
		if !strings.Contains(out, message) {
			t.Errorf("site.yml %q does not say %q:\n%s", args, message, out)
		}
	}
}
