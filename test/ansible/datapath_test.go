//go:build ansible

package ansible

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestADatapathThatDoesNotLastIsWarnedOf: the warning names host, setting and remedy, and the play goes on.
func TestADatapathThatDoesNotLastIsWarnedOf(t *testing.T) {
	const play = `
- hosts: l1
  gather_subset: [min]
  tasks:
    - ansible.builtin.include_role: {name: ovs_linux, tasks_from: datapath}
`
	for _, test := range []struct {
		name, datapath, version string
		warned                  bool
	}{
		{"Debian 12's", "netdev", "3.1.0", true},
		{"the last that is too old", "netdev", "3.2.9", true},
		{"Ubuntu 24.04's", "netdev", "3.3.0", false},
		{"a number of two digits", "netdev", "3.10.1", false},
		{"not installed yet, in a check", "netdev", "", false},
		{"the kernel's", "system", "3.1.0", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"ovs-vswitchd": "#!/bin/sh\ntest -z '" + test.version + "' || echo 'ovs-vswitchd (Open vSwitch) " + test.version +
					"'\n",
				"modprobe": "#!/bin/sh\n",
				"play.yml": play,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("ansible-playbook", "--inventory", "l1,", "--connection", "local",
				"--extra-vars", `{"weft_pod_cidrs": ["10.244.0.0/16"], "weft_service_cidrs": ["10.96.0.0/16"], "weft_datapath_type": "`+test.datapath+`"}`, filepath.Join(dir, "play.yml"))
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ANSIBLE_CONFIG=../../ansible.cfg")
			text, err := cmd.CombinedOutput()
			out := string(text)
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			if strings.Contains(out, "WARNING") != test.warned {
				t.Errorf("warned: %t, want %t:\n%s", !test.warned, test.warned, out)
			}
			for _, word := range []string{"weft_datapath_type of l1 is netdev", test.version, "conntrack.c:1063", "3.5 or newer",
				"system"} {
				if test.warned && !strings.Contains(out, word) {
					t.Errorf("there is no %q in:\n%s", word, out)
				}
			}
		})
	}
}
