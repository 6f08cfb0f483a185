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

// TestElectionTimerGoesByDoubling: the databases take no step to more than twice the timer that they have.
func TestElectionTimerGoesByDoubling(t *testing.T) {
	for from, to := range map[string]string{"1000": "600000", "4000": "250", "10000": "10000"} {
		file := filepath.Join(t.TempDir(), "play.yml")
		play := "- hosts: localhost\n  gather_facts: false\n  tasks:\n  - ansible.builtin.include_vars: " +
			filepath.Join(ovsdbtest.Repository(), "ansible/roles/ovn_central/vars/main.yml") +
			"\n  - ansible.builtin.debug: {msg: \"steps {{ weft_election_steps | join(' ') }} end\"}\n"
		if err := os.WriteFile(file, []byte(play), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("ansible-playbook", file, "--extra-vars", `{"weft_election": {"stdout": "Election timer: `+
			from+`"}, "weft_election_timer": `+to+`}`).CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		_, rest, _ := strings.Cut(string(out), `"steps `)
		words, _, found := strings.Cut(rest, `end"`)
		if !found {
			t.Fatalf("no steps in:\n%s", out)
		}
		last := number(t, from)
		for word := range strings.FieldsSeq(words) {
			next := number(t, word)
			if next > 2*last {
				t.Errorf("from %s to %s: a step from %d to %d", from, to, last, next)
			}
			last = next
		}
		if last != number(t, to) {
			t.Errorf("from %s to %s: the steps %q end at %d", from, to, words, last)
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
