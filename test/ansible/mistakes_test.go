//go:build ansible

package ansible

import (
	"strings"
	"testing"
)

// mistakesAreRefused before anything is touched, all of a run at once.
func mistakesAreRefused(t *testing.T) {
	install(t)
	refused(t, "site.yml", []string{"-e", `{"weft_pod_cidrs": ["10.96.0.0/12"]}`, "-e", "weft_ovn_prefx=/opt/ovn", "-e",
		"weft_kubeconfig=/nonexistent", "-e", "weft_binaries=/nonexistent"},
		"weft_pod_cidrs 10.96.0.0/12 overlaps with weft_service_cidrs 10.96.0.0/16",
		"variable weft_ovn_prefx is none of Weft's (did you mean weft_ovn_prefix?)",
		"weft_kubeconfig is /nonexistent, which is not on the control node",
		"weft_binaries is /nonexistent, where weft-cni is not")
	refused(t, "site.yml", []string{"-e", `{"weft_node_name": "stranger", "weft_linux_nodes_are": "l1, l2"}`},
		"host l1 is node stranger, which Kubernetes has not",
		"variable weft_linux_nodes_are is none of Weft's")
	refused(t, "site.yml", []string{"-e", "weft_ovn_prefix=/opt/nonexistent", "-e", "weft_ovn_archive="},
		"c1 has no /opt/nonexistent/bin/ovn-appctl that runs")
	refused(t, "site.yml", []string{"-e", "weft_ovn_prefix=/opt/ovn", "-e", "weft_ovn_archive=" + archive(), "-e",
		"weft_ovn_archive_checksum=" + strings.Repeat("0", 64)},
		"while weft_ovn_archive_checksum says 0000")
	limit := []string{"--limit", "all,!l1"}
	refused(t, "site.yml", append(limit, "-e", "weft_pki_dir=/nonexistent"),
		"--limit all,!l1 leaves out localhost, which makes the authorities", "has no central/ca.crt")
	refused(t, "site.yml", append(limit, "-e", "weft_encryption=begin"), "has no ipsec/ca.crt")
	refused(t, "certificates.yml", append(limit, "-e", "weft_pki_rotate=begin"),
		"leaves out localhost, which rotates the authorities")
	refused(t, "leave.yml", append(limit, "-e", "weft_leave=l2"), "name a host of weft_central (c1, c2, c3)")
	refused(t, "restore.yml", append(limit, "-e", "weft_restore_from=/nonexistent"), "/nonexistent",
		"which has not both nb.db and sb.db")
}

// refused is a playbook that fails, says why, and has changed nothing.
func refused(t *testing.T, playbook string, args []string, says ...string) {
	t.Helper()
	out, tallies, err := current.tryPlay(playbook, args...)
	if err == nil {
		t.Errorf("%s %q was not refused:\n%s", playbook, args, out)
	}
	for host, n := range tallies {
		if n.changed > 0 {
			t.Errorf("%s %q was refused after it had changed %d things on %s:\n%s", playbook, args, n.changed, host,
				changes(out, host))
		}
	}
	for _, message := range says {
		if !strings.Contains(out, message) {
			t.Errorf("%s %q does not say %q:\n%s", playbook, args, message, out)
		}
	}
}
