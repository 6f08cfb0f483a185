//go:build ansible

package central

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// plays runs some plays of a playbook, by their names, with a kubectl that writes down what it is asked and answers by
// a script of sh, and returns what it was asked. Hosts are this machine, and no play is among those that change one.
func plays(t *testing.T, playbook string, names []string, inventory, answers string, args ...string) string {
	t.Helper()
	asked, out, err := attempt(t, playbook, names, inventory, answers, args...)
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return asked
}

// attempt is plays for those that may fail. It also returns what Ansible said.
func attempt(t *testing.T, playbook string, names []string, inventory, answers string, args ...string) (asked,
	out string, failure error) {
	t.Helper()
	dir, repository := t.TempDir(), ovsdbtest.Repository()
	text, err := os.ReadFile(filepath.Join(repository, "ansible/playbooks", playbook))
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(play map[string]any) bool { return !slices.Contains(names, play["name"].(string)) })
	if len(all) != len(names) {
		t.Fatalf("%s has %d of the plays %q", playbook, len(all), names)
	}
	chosen, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(repository, "ansible/playbooks/tasks"), filepath.Join(dir, "tasks")); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "asked")
	for name, text := range map[string]string{
		"plays.yml": string(chosen),
		"hosts.ini": inventory + "[all:vars]\nansible_connection=local\nansible_become=false\n" +
			"weft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\nweft_kubeconfig=/dev/null\n" +
			"weft_definitions=" + filepath.Join(repository, "ansible/definitions") + "\nweft_kubectl=" +
			filepath.Join(dir, "kubectl") + "\n",
		"kubectl": "#!/bin/sh\necho \"$*\" >> " + log + "\n" +
			"case \"$*\" in *--filename=-*) cat > /dev/null;; esac\n" + answers,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ansible-playbook", append([]string{"--inventory", filepath.Join(dir, "hosts.ini"),
		filepath.Join(dir, "plays.yml")}, args...)...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "ANSIBLE_NOCOLOR=1", "ANSIBLE_ROLES_PATH="+filepath.Join(repository, "ansible/roles"))
	said, failure := cmd.CombinedOutput()
	questions, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(questions), string(said), failure
}

// TestKubernetesForgetsWeftWithTheLastHost, and not while a host of the inventory goes on with it.
func TestKubernetesForgetsWeftWithTheLastHost(t *testing.T) {
	const (
		ofPlaybooks = "[weft_central]\nc1\n[weft_linux_nodes]\nl1\n[weft_windows_nodes]\nw1\n"
		ofCharts    = ofPlaybooks + "[weft_controllers]\n"
	)
	for name, test := range map[string]struct {
		inventory string
		limit     string
		forgets   bool
	}{
		"all hosts":                           {ofPlaybooks, "all", true},
		"the chart runs the controllers":      {ofCharts, "all", true},
		"a node":                              {ofPlaybooks, "l1", false},
		"all hosts of controllers":            {ofPlaybooks, "c1", false},
		"all except for a Windows node":       {ofPlaybooks, "all,!w1", false},
		"one controller's host of two":        {"[weft_controllers]\nc1\nc2\n[weft_central]\nc1\n", "c1", false},
		"the last hosts, and nodes have gone": {"[weft_central]\nc1\n", "c1", true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := plays(t, "uninstall.yml", []string{"Look at the inventory", "Kubernetes"}, test.inventory,
				`case "$*" in "get nodes "*) echo '{"items": []}';; esac`+"\n", "--limit", test.limit)
			if forgets := strings.Contains(asked, "/crds/"); forgets != test.forgets {
				t.Errorf("its kinds are deleted: %v, want %v. kubectl was asked:\n%s", forgets, test.forgets, asked)
			}
			// Also the rights of chassis hosts where no Windows node is left.
			for _, rights := range []string{"admission", "chassis", "controller", "node"} {
				if deleted := strings.Contains(asked, "/rights/"+rights+".yaml"); deleted != test.forgets {
					t.Errorf("the rights %s are deleted: %v, want %v. kubectl was asked:\n%s", rights, deleted, test.forgets, asked)
				}
			}
			if !test.forgets && strings.Contains(asked, "delete") {
				t.Errorf("something is deleted:\n%s", asked)
			}
		})
	}
}

// TestHelmsDoorsStay where the playbooks have none.
func TestHelmsDoorsStay(t *testing.T) {
	for name, test := range map[string]struct {
		apiService string
		goes       bool
	}{
		"the playbooks'": {`{"metadata": {"labels": {"weft.net/part": "observe"}}}`, true},
		"without labels": {`{"metadata": {}}`, true},
		"none":           {"", true}, // what is left of an interrupted run
		"Helm's":         {`{"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := plays(t, "retire.yml", []string{"Doors that are wanted no longer",
				"What Kubernetes has of doors that are wanted no longer"}, "[weft_central]\nc1\n",
				`case "$*" in "get apiservice "*) echo '`+test.apiService+"';; esac\n", "--extra-vars", `{"weft_observe": false}`)
			if goes := strings.Contains(asked, "delete"); goes != test.goes {
				t.Errorf("doors are removed: %v, want %v. kubectl was asked:\n%s", goes, test.goes, asked)
			}
		})
	}
}
