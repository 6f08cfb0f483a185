//go:build ansible

package ansible

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// release is a version of programs and playbooks, in a folder that is like the repository.
type release struct {
	dir  string
	vars []string // arguments of all its plays
}

// current is what the repository had when the tests started: whoever builds there meanwhile changes nothing of them.
var current release

func copyRelease(dir string) (release, error) {
	r := release{dir: dir}
	for _, path := range []string{"ansible", "ansible.cfg", "models/api", "bin/weft", "bin/weft-cni", "bin/steady",
		"bin/ask"} {
		target := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return r, err
		}
		if out, err := exec.Command("cp", "-r", filepath.Join(repository(), path), target).CombinedOutput(); err != nil {
			return r, fmt.Errorf("copy %s: %w: %s", path, err, out)
		}
	}
	return r, nil
}

func (r release) program(name string) string { return filepath.Join(r.dir, "bin", name) }

// tally of a playbook's tasks on one host.
type tally struct{ ok, changed, unreachable, failed int }

var recapLine = regexp.MustCompile(`(?m)^(\S+) +: ok=(\d+) +changed=(\d+) +unreachable=(\d+) +failed=(\d+)`)

// tryPlay runs a playbook of the release against the lab, and returns what it printed and its recap.
func (r release) tryPlay(playbook string, args ...string) (string, map[string]tally, error) {
	argv := []string{"control", "--", "ansible-playbook", "ansible/playbooks/" + playbook,
		"--extra-vars", "@" + filepath.Join(repository(), "test/ansible/vars.yml")}
	if *kernel {
		argv = append(argv, "--extra-vars", "weft_datapath_type=system")
	}
	cmd := servers.Command(append(append(argv, r.vars...), args...)...)
	cmd.Dir = r.dir // as the documents have it
	cmd.Env = append(os.Environ(), "ANSIBLE_CALLBACKS_ENABLED=", "ANSIBLE_NOCOLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", playbook, err, out)
	}
	_, recap, _ := strings.Cut(string(out), "PLAY RECAP")
	tallies := map[string]tally{}
	for _, m := range recapLine.FindAllStringSubmatch(recap, -1) {
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+2]) // the expression lets digits pass alone
		}
		tallies[m[1]] = tally{n[0], n[1], n[2], n[3]}
	}
	if err == nil && len(tallies) == 0 {
		err = fmt.Errorf("%s did nothing:\n%s", playbook, out)
	}
	return string(out), tallies, err
}

func (r release) play(t testing.TB, playbook string, args ...string) (string, map[string]tally) {
	t.Helper()
	out, tallies, err := r.tryPlay(playbook, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out, tallies
}

// play runs a playbook of the repository; its whole output is in the test's log if it fails.
func play(t testing.TB, playbook string, args ...string) (string, map[string]tally) {
	t.Helper()
	return current.play(t, playbook, args...)
}

// previous is the release of the commit before the repository's, built anew.
func previous(t testing.TB) release {
	t.Helper()
	commit, err := exec.Command("git", "rev-parse", "--short", "--verify", "HEAD^").Output()
	if err != nil {
		t.Logf("The repository has no commit before its present one (%v): what is upgraded is OVN, and Weft by the same Weft",
			err)
		return current
	}
	r := release{dir: t.TempDir()}
	name := strings.TrimSpace(string(commit))
	script := `git archive ` + name + ` | tar -x -C "$0" && cd "$0" && mkdir -p bin && for program in weft weft-cni; do
		CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/weftnet/weft/models/version.version=` + name + `" -o bin/$program ./cmd/$program || exit; done`
	cmd := exec.Command("sh", "-c", script, r.dir)
	cmd.Dir = repository()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the release of %s: %v: %s", name, err, out)
	}
	t.Logf("The release before is that of %s", name)
	return r
}

// changes are the tasks in a playbook's output that changed something on a host.
func changes(output, host string) string {
	var found []string
	task := ""
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "TASK [") || strings.HasPrefix(line, "RUNNING HANDLER [") {
			task = strings.Trim(line, "* \n")
		}
		if strings.HasPrefix(line, "changed: ["+host+"]") {
			found = append(found, task+" "+strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}

// installed says whether Weft's services run on all hosts.
func installed() error {
	for host := range hosts {
		unit := "weft-node"
		if isCentral(host) {
			unit = "weft-nb"
		}
		if _, err := servers.Try("exec", host, "--", "systemctl", "is-active", unit); err != nil {
			return errors.New(unit + " does not run on " + host)
		}
	}
	return nil
}

func isCentral(host string) bool { return strings.HasPrefix(host, "c") }

// install Weft where a test wants it and no other has left it.
func install(t testing.TB) {
	t.Helper()
	if installed() != nil {
		mendDatapaths(t)
		play(t, "site.yml")
	} else if _, err := servers.Try("exec", "c1", "--", "test", "-d", ovnPrefix); err == nil {
		current.vars = prefixed(t) // in a lab that was kept
	}
}

func mendDatapaths(t testing.TB) {
	t.Helper()
	for host := range hosts {
		if err := mendDatapath(host); err != nil {
			t.Fatal(err)
		}
	}
}
