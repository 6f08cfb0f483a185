//go:build ansible

package central

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestAHostThatIsLeftOutTakesNoPart: a --limit leaves hosts out, on which clusters would go on that end here, or a
// second one would begin. The first play with role weft_common has Ansible take all hosts into ansible_play_hosts, also
// those that are left out.
func TestAHostThatIsLeftOutTakesNoPart(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nb.db": "", "sb.db": "",
		"hosts.ini": "[weft_central]\nc1\nc2\nc3\n[weft_linux_nodes]\nl1\n[all:vars]\nansible_connection=local\n" +
			"ansible_become=false\n" +
			"weft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		playbook, limit string
		args            []string
		says            string
	}{
		{"uninstall.yml", "c3", []string{"weft_ovn_database_dir=" + dir},
			"c3 is a member of OVN_Northbound and OVN_Southbound, and c1, c2 would go on without it"},
		{"restore.yml", "c1", []string{"weft_restore_from=" + dir}, "c2, c3 of weft_central would take no part, and would " +
			"go on with the clusters that there are"},
		{"restore.yml", "c1", []string{"weft_restore_from=" + dir, "weft_lost=c2"}, "c3 of weft_central would take no part"},
	} {
		t.Run(strings.Join(append(test.args, test.playbook), " "), func(t *testing.T) {
			args := []string{"--inventory", filepath.Join(dir, "hosts.ini"), "--limit", test.limit, "--check",
				"ansible/playbooks/" + test.playbook}
			for _, arg := range test.args {
				args = append(args, "--extra-vars", arg)
			}
			cmd := exec.Command("ansible-playbook", args...)
			cmd.Dir, cmd.Env = ovsdbtest.Repository(), append(os.Environ(), "ANSIBLE_NOCOLOR=1")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.says) {
				t.Errorf("it goes on without them (%v), and does not say %q:\n%s", err, test.says, out)
			}
			if strings.Contains(string(out), "Stop the controller") {
				t.Errorf("it was refused after something was stopped:\n%s", out)
			}
		})
	}
}

var comment = regexp.MustCompile(`(?m)(^| )#.*$`)

// TestWhatChangesAClusterAsksBefore: what ends a member or makes a cluster is in few places, each of which, or each way
// to it, asks first whether it may.
func TestWhatChangesAClusterAsksBefore(t *testing.T) {
	ansible := filepath.Join(ovsdbtest.Repository(), "ansible")
	files := map[string]string{} // text by path in ansible/
	for _, pattern := range []string{"playbooks/*.yml", "playbooks/tasks/*.yml", "roles/*/tasks/*.yml"} {
		paths, err := filepath.Glob(filepath.Join(ansible, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(ansible, path)
			files[name] = comment.ReplaceAllString(string(text), "")
		}
	}
	// unguarded are the ways to a place in a file on which guard does not come first.
	var unguarded func(file string, at int, guard *regexp.Regexp) []string
	unguarded = func(file string, at int, guard *regexp.Regexp) []string {
		if guard.MatchString(files[file][:at]) {
			return nil
		}
		role, task := filepath.Base(filepath.Dir(filepath.Dir(file))), strings.TrimSuffix(filepath.Base(file), ".yml")
		own := regexp.MustCompile(`(include_tasks|import_tasks|file): ` + task + `\.yml\b`)
		others := regexp.MustCompile(`name: ` + role + `\n\s+tasks_from: ` + task + `\b`)
		var ways []string
		found := false
		for from, text := range files {
			for _, way := range others.FindAllStringIndex(text, -1) {
				found, ways = true, append(ways, unguarded(from, way[0], guard)...)
			}
			if filepath.Dir(from) == filepath.Dir(file) {
				for _, way := range own.FindAllStringIndex(text, -1) {
					found, ways = true, append(ways, unguarded(from, way[0], guard)...)
				}
			}
		}
		if !found {
			ways = append(ways, file)
		}
		return ways
	}
	for _, test := range []struct{ what, done, guard string }{
		{"a member is taken out", `cluster/kick`, `include_tasks: quorum\.yml`},
		{"a member's databases are put aside", `\.left-\{`, `include_tasks: quorum\.yml`},
		{"a cluster is created", `weft_database_create|create-cluster`, `include_tasks: whole\.yml`},
		{"databases are put aside for a backup", `\.before-restore-\{`, `include_tasks: whole\.yml`},
		{"databases are converted", `- convert\n`, `include_tasks: whole\.yml`},
		{"databases are removed", `- -delete\n`, `tasks_from: left\b`},
	} {
		places := 0
		for file, text := range files {
			for _, place := range regexp.MustCompile(test.done).FindAllStringIndex(text, -1) {
				places++
				for _, way := range unguarded(file, place[0], regexp.MustCompile(test.guard)) {
					t.Errorf("in %s %s, and on the way from %s nobody asks before (%s)", file, test.what, way, test.guard)
				}
			}
		}
		if places == 0 {
			t.Errorf("nowhere %s (%s); this test would see nothing", test.what, test.done)
		}
	}
	if quorum := files["roles/ovn_central/tasks/quorum.yml"]; !strings.Contains(quorum, "files/quorum.py") ||
		!strings.Contains(quorum, "problems | length == 0") {
		t.Errorf("quorum.yml does not refuse what quorum.py finds:\n%s", quorum)
	}
}

// TestNobodyAsksForHostsThatAreLeftOut: ansible_play_batch has the hosts that take part. Who asks whether all take
// part, those that fail too, does it in plays of uninstall.yml, whose first one is there for that.
func TestNobodyAsksForHostsThatAreLeftOut(t *testing.T) {
	judged := 0
	err := filepath.WalkDir(filepath.Join(ovsdbtest.Repository(), "ansible"), func(path string, entry fs.DirEntry,
		err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yml") && !strings.HasSuffix(path, ".j2") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			judged += strings.Count(line, "ansible_play_batch")
			if strings.Contains(line, "ansible_play_hosts") && !strings.HasPrefix(strings.TrimSpace(line), "#") &&
				filepath.Base(path) != "uninstall.yml" {
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
