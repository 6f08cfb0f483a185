//go:build ansible

package central

import (
	"fmt"
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
	return evaluate(t, "localhost ansible_connection=local\n", []string{role + "/vars"}, expression, others)
}

// evaluate gives what Ansible makes of an expression at the host localhost of an inventory. Files are those of roles,
// such as weft_common/defaults.
func evaluate(t *testing.T, inventory string, files []string, expression, others string) string {
	t.Helper()
	dir := t.TempDir()
	value := filepath.Join(dir, "value")
	var roles []string
	for _, file := range files {
		roles = append(roles, filepath.Join(ovsdbtest.Repository(), "ansible/roles", file, "main.yml"))
	}
	play := "- hosts: localhost\n  gather_facts: false\n  vars_files: [" + strings.Join(roles, ", ") + "]\n  tasks:\n" +
		"  - ansible.builtin.copy: {content: \"{{ " + expression + " }}\", dest: " + value + "}\n"
	for name, text := range map[string]string{"play.yml": play, "hosts.ini": inventory} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ansible-playbook", "--inventory", filepath.Join(dir, "hosts.ini"), filepath.Join(dir, "play.yml"),
		"--extra-vars", others)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	text, err := os.ReadFile(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTimesFollowTheNumberOfNodes, as docs/scale.md has them.
func TestTimesFollowTheNumberOfNodes(t *testing.T) {
	const times = "[weft_election_timer, weft_northd_probe_interval, weft_inactivity_probe, weft_sb_relay] | join(' ')"
	for _, c := range []struct {
		linux, windows int
		others, want   string
	}{
		{10, 0, "{}", "1000 2000 60000 False"},
		{30, 20, "{}", "1000 2000 60000 False"},
		{31, 20, "{}", "4000 4000 60000 False"},
		{100, 1, "{}", "4000 4000 60000 True"},
		{251, 0, "{}", "10000 10000 180000 True"},
		{700, 300, "{}", "10000 10000 180000 True"},
		// northd is as patient as the members of the clusters, and each variable has the operator's value.
		{10, 0, `{"weft_election_timer": 5000}`, "5000 5000 60000 False"},
		{1000, 0, `{"weft_northd_probe_interval": 3000, "weft_inactivity_probe": 90000}`, "10000 3000 90000 True"},
	} {
		inventory := fmt.Sprintf("localhost ansible_connection=local\n[weft_linux_nodes]\nl[1:%d]\n", c.linux)
		if c.windows > 0 {
			inventory += fmt.Sprintf("[weft_windows_nodes]\nw[1:%d]\n", c.windows)
		}
		got := evaluate(t, inventory, []string{"weft_common/defaults", "weft_common/vars"}, times, c.others)
		if got != c.want {
			t.Errorf("%d Linux and %d Windows nodes with %s: %s, not %s", c.linux, c.windows, c.others, got, c.want)
		}
	}
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
