//go:build ansible

package ansible

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAHostThatIsLeftOutTakesNoPart: the first play with role weft_common has Ansible take all hosts into ansible_play_hosts, also those that a --limit
// leaves out. By that a host would leave a quorum, which thinks that all of it goes.
func TestAHostThatIsLeftOutTakesNoPart(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nb.db": "", "sb.db": "",
		"hosts.ini": "[weft_central]\nc1\nc2\nc3\n[weft_linux_nodes]\nl1\n[all:vars]\nansible_connection=local\nansible_become=false\n" +
			"weft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ansible-playbook", "--inventory", filepath.Join(dir, "hosts.ini"), "--limit", "c3", "--check",
		"--extra-vars", "weft_ovn_database_dir="+dir, "ansible/playbooks/uninstall.yml")
	cmd.Dir, cmd.Env = repository(), append(os.Environ(), "ANSIBLE_NOCOLOR=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "c3 is a member of OVN_Northbound and OVN_Southbound, and c1, c2 would go on without it") {
		t.Errorf("a member may go (%v):\n%s", err, out)
	}
}

// TestNobodyAsksForHostsThatAreLeftOut: ansible_play_batch has the hosts that take part. Who asks whether all take part, those that fail too, does it in
// plays of uninstall.yml, whose first one is there for that.
func TestNobodyAsksForHostsThatAreLeftOut(t *testing.T) {
	judged := 0
	err := filepath.WalkDir(filepath.Join(repository(), "ansible"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yml") && !strings.HasSuffix(path, ".j2") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			judged += strings.Count(line, "ansible_play_batch")
			if strings.Contains(line, "ansible_play_hosts") && !strings.HasPrefix(strings.TrimSpace(line), "#") && filepath.Base(path) != "uninstall.yml" {
				t.Errorf("%s asks for hosts that a --limit may have left out: %s", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if judged < 8 {
		t.Errorf("only %d places were found", judged)
	}
}
