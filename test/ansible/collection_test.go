//go:build ansible

package ansible

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheCollectionRunsWhereItIsInstalled, with nothing of the repository's around it.
func TestTheCollectionRunsWhereItIsInstalled(t *testing.T) {
	dir := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "ANSIBLE_COLLECTIONS_PATH="+dir, "ANSIBLE_NOCOLOR=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) {
		t.Helper()
		if out, err := run(name, args...); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	must(filepath.Join(repository(), "ansible/collection.sh"), filepath.Join(repository(), "bin"), dir)
	must("sh", "-ec", "ansible-galaxy collection install --no-deps --offline --collections-path . weftnet-weft-*.tar.gz")

	must("sh", "-ec", "cat > hosts.ini <<'END'\n"+hostOfItsOwn+"END")
	for _, kind := range []string{"crds", "rights"} {
		written, err := filepath.Glob(filepath.Join(repository(), "models/api", kind, "*.yaml"))
		if err != nil || len(written) == 0 {
			t.Fatal(written, err)
		}
		must("ansible-playbook", "--inventory", "hosts.ini", "weftnet.weft.manifests", "--extra-vars",
			"weft_image=registry.example/weft:1")
		must("diff", "-r", "--exclude=*.go", "--exclude=observe", filepath.Join(repository(), "models/api", kind),
			filepath.Join(dir, ".weft/manifests", kind))
	}
	must("ls", ".weft/manifests/weft-node.yaml", ".weft/manifests/weft-controller.yaml")
	out, _ := run("ansible-playbook", "--inventory", "hosts.ini", "weftnet.weft.check") // there is no API server
	if !strings.Contains(out, "weft_kubeconfig is ") || strings.Contains(out, "weft_binaries is ") ||
		strings.Contains(out, "none of Weft's") {
		t.Errorf("weftnet.weft.check does not find its own, or judges nothing:\n%s", out)
	}
	playbooks, err := filepath.Glob(filepath.Join(repository(), "ansible/playbooks/*.yml"))
	if err != nil || len(playbooks) == 0 {
		t.Fatal(playbooks, err)
	}
	for _, playbook := range playbooks {
		must("ansible-playbook", "--inventory", "hosts.ini", "--syntax-check",
			"weftnet.weft."+strings.TrimSuffix(filepath.Base(playbook), ".yml"))
	}
}

// hostOfItsOwn is an inventory of this machine.
const hostOfItsOwn = `[weft_central]
c1 ansible_host=192.0.2.1 ansible_connection=local
[weft_linux_nodes]
c1
[all:vars]
weft_pod_cidrs=["10.244.0.0/16"]
weft_service_cidrs=["10.96.0.0/16"]
`

// TestTheDocumentedCommandsHaveTheSettings: they are run in the repository, where ansible.cfg lies.
func TestTheDocumentedCommandsHaveTheSettings(t *testing.T) {
	cmd := exec.Command("ansible-config", "dump", "--only-changed")
	cmd.Dir = repository()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, setting := range []string{"DEFAULT_FORKS", "DEFAULT_ROLES_PATH", filepath.Join(repository(), "ansible/roles")} {
		if !strings.Contains(string(out), setting) {
			t.Errorf("in the repository Ansible does not have %s:\n%s", setting, out)
		}
	}
}
