//go:build ansible

package central

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestMetricsAddresses: the playbooks ask each program at its metrics-address. One without a host, as programs take it,
// is asked on the host itself.
func TestMetricsAddresses(t *testing.T) {
	programs := map[string]string{"weft_controller": "controller", "weft_node_linux": "node", "weft_observe": "observe",
		"ovn_central": "southbound", "weft_chassis": "chassis"}
	var play strings.Builder
	play.WriteString("- hosts: localhost\n  gather_facts: false\n  tasks:\n")
	for role, program := range programs {
		play.WriteString("  - ansible.builtin.include_vars: " + filepath.Join(ovsdbtest.Repository(), "ansible/roles", role,
			"vars/main.yml") + "\n  - ansible.builtin.debug: {msg: \"" + program + " {{ weft_" + program + "_metrics }} \"}\n")
	}
	file := filepath.Join(t.TempDir(), "play.yml")
	if err := os.WriteFile(file, []byte(play.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{":9000": "127.0.0.1:9000", "0.0.0.0:9000": "0.0.0.0:9000",
		"[::]:9000": "[::]:9000", "192.0.2.1:9000": "192.0.2.1:9000"} {
		args := []string{file}
		for _, program := range programs {
			args = append(args, "--extra-vars", `{"weft_`+program+`_config": {"metrics-address": "`+address+`"}}`)
		}
		out, err := exec.Command("ansible-playbook", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		for _, program := range programs {
			if !strings.Contains(string(out), `"`+program+" "+want+` "`) {
				t.Errorf("with %s, weft %s is not asked at %s:\n%s", address, program, want, out)
			}
		}
	}
}
