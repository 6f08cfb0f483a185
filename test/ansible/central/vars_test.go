//go:build ansible

package central

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// valueOf is what Ansible makes of an expression with the variables of a role, and with others, in JSON, that come
// first.
func valueOf(t *testing.T, role, expression, others string) string {
	t.Helper()
	dir := t.TempDir()
	value := filepath.Join(dir, "value")
	play := "- hosts: localhost\n  gather_facts: false\n  vars_files: [" +
		filepath.Join(ovsdbtest.Repository(), "ansible/roles", role, "vars/main.yml") + "]\n  tasks:\n" +
		"  - ansible.builtin.copy: {content: \"{{ " + expression + " }}\", dest: " + value + "}\n"
	file := filepath.Join(dir, "play.yml")
	if err := os.WriteFile(file, []byte(play), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ansible-playbook", file, "--extra-vars", others).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	text, err := os.ReadFile(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMetricsAddresses: the playbooks ask each program at its metrics-address. One without a host, as programs take it,
// is asked on the host itself.
func TestMetricsAddresses(t *testing.T) {
	for role, program := range map[string]string{"weft_controller": "controller", "weft_node_linux": "node",
		"weft_observe": "observe", "ovn_central": "southbound", "weft_chassis": "chassis"} {
		for address, want := range map[string]string{":9000": "127.0.0.1:9000", "0.0.0.0:9000": "0.0.0.0:9000",
			"[::]:9000": "[::]:9000", "192.0.2.1:9000": "192.0.2.1:9000"} {
			got := valueOf(t, role, "weft_"+program+"_metrics", `{"weft_`+program+`_config": {"metrics-address": "`+address+`"}}`)
			if got != want {
				t.Errorf("with %s, weft %s is asked at %s, not at %s", address, program, got, want)
			}
		}
	}
}

// TestElectionTimerGoesByDoubling: the databases take no step to more than twice the timer that they have.
func TestElectionTimerGoesByDoubling(t *testing.T) {
	for from, to := range map[int]int{1000: 600000, 4000: 250, 10000: 10000} {
		steps := valueOf(t, "ovn_central", "weft_election_steps | join(' ')", `{"weft_election": {"stdout": "Election timer: `+
			strconv.Itoa(from)+`"}, "weft_election_timer": `+strconv.Itoa(to)+`}`)
		last := from
		for word := range strings.FieldsSeq(steps) {
			next, err := strconv.Atoi(word)
			if err != nil || next > 2*last {
				t.Errorf("from %d to %d: a step from %d to %s", from, to, last, word)
			}
			last = next
		}
		if last != to {
			t.Errorf("from %d to %d: the steps %q end at %d", from, to, steps, last)
		}
	}
}
