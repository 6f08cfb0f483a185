//go:build ansible

package windows

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// plays runs playbooks against stand-ins.
type plays struct {
	*testing.T
	root      string // of the repository
	inventory string
	socket    string
	machines  map[string]*machine
}

// outcome is what a run says of each host.
type outcome struct {
	Stats map[string]struct{ Ok, Changed, Failures, Unreachable, Skipped int }
	Plays []struct {
		Tasks []struct {
			Task  struct{ Name string }
			Hosts map[string]map[string]any
		}
	}
}

func newPlays(t *testing.T) *plays {
	t.Helper()
	for _, program := range []string{"ansible-playbook", "ansible-doc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("there is no %s: run test/lab/scripts/hosts-deps.sh", program)
		}
	}
	root, err := filepath.Abs("../../..")
	check(t, err)
	p := &plays{T: t, root: root, machines: map[string]*machine{}, socket: filepath.Join(t.TempDir(), "standin.sock")}
	listener, err := net.Listen("unix", p.socket)
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	go p.serve(listener)
	return p
}

func (p *plays) add(m *machine) *machine {
	p.machines[m.name] = m
	p.Cleanup(func() {
		if m.problem != nil {
			p.Error(m.problem)
		}
	})
	return m
}

func (p *plays) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			line, err := bufio.NewReader(conn).ReadBytes('\n')
			if err != nil {
				return
			}
			answer, err := json.Marshal(p.answer(line))
			if err == nil {
				_, _ = conn.Write(append(answer, '\n'))
			}
		}()
	}
}

// answer is what the connection plugin is told.
func (p *plays) answer(line []byte) map[string]any {
	var asked struct{ Host, Kind, Command, Stdin, Source, Target string }
	if err := json.Unmarshal(line, &asked); err != nil {
		return map[string]any{"lost": true}
	}
	m := p.machines[asked.Host]
	m.mu.Lock()
	lost := m.lost > 0 && m.pass == 0
	switch {
	case lost:
		m.lost--
	case m.lost > 0:
		m.pass--
	}
	m.mu.Unlock()
	if lost {
		return map[string]any{"lost": true}
	}
	if asked.Kind == "exec" {
		rc, stdout := m.execute(asked.Command, asked.Stdin)
		if m.cut() {
			return map[string]any{"lost": true}
		}
		return map[string]any{"rc": rc, "stdout": base64.StdEncoding.EncodeToString([]byte(stdout)), "stderr": ""}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	content, err := os.ReadFile(asked.Source)
	must(m, err)
	m.write(asked.Target, content)
	return map[string]any{}
}

// play runs a playbook of the collection, or one of testdata, on all hosts or some.
func (p *plays) play(book string, arguments ...string) outcome {
	p.Helper()
	path := filepath.Join(p.root, "ansible/playbooks", book)
	if _, err := os.Stat(filepath.Join("testdata", book)); err == nil {
		path = filepath.Join("testdata", book)
	}
	ctx, cancel := context.WithTimeout(p.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ansible-playbook", append([]string{"-i", p.inventory, path}, arguments...)...)
	home := p.TempDir()
	cmd.Env = append(os.Environ(), "WEFT_STANDIN="+p.socket, ansibleConfig(p.T), "ANSIBLE_ROLES_PATH="+
		filepath.Join(p.root, "ansible/roles"),
		"ANSIBLE_CONNECTION_PLUGINS="+filepath.Join(p.root, "test/ansible/windows/testdata/connection"),
		"ANSIBLE_STDOUT_CALLBACK=json", "ANSIBLE_FORKS=4",
		"ANSIBLE_HOME="+home, "ANSIBLE_LOCAL_TEMP="+home, "ANSIBLE_NOCOLOR=1", "ANSIBLE_RETRY_FILES_ENABLED=false",
		"HOME="+home,
		"ANSIBLE_DEPRECATION_WARNINGS=false", "LC_ALL=C.UTF-8")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.Fatal(err)
	}
	var result outcome
	text := stdout.Bytes()
	if begin := bytes.IndexByte(text, '{'); begin < 0 || json.NewDecoder(bytes.NewReader(text[begin:])).Decode(
		&result) != nil {
		p.Fatalf("%s: %v\n%s%s", book, err, stdout.String(), stderr.String())
	}
	for _, m := range p.machines {
		if m.problem != nil {
			p.Fatalf("%s: the stand-in was asked for what it does not know", m.name)
		}
	}
	return result
}

// ansibleConfig has ansible take no configuration but the environment.
func ansibleConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ansible.cfg")
	check(t, os.WriteFile(path, nil, 0o600))
	return "ANSIBLE_CONFIG=" + path
}

// failure is what a host has failed with; empty where it has not.
func (o outcome) failure(host string) string {
	failure := "" // the last: there may be a rescue
	for _, play := range o.Plays {
		for _, task := range play.Tasks {
			result := task.Hosts[host]
			if result["failed"] == true && o.Stats[host].Failures > 0 || result["unreachable"] == true &&
				o.Stats[host].Unreachable > 0 {
				failure = task.Task.Name + ": " + reason(result)
			}
		}
	}
	return failure
}

func reason(result map[string]any) string {
	for _, item := range list(result["results"]) {
		if item, ok := item.(map[string]any); ok && item["failed"] == true {
			return text(item["msg"])
		}
	}
	return strings.Join([]string{text(result["msg"]), text(result["stderr"])}, " ")
}

func list(v any) []any {
	items, _ := v.([]any)
	return items
}

// says is whether a host was shown a message.
func (o outcome) says(host, words string) bool {
	for _, play := range o.Plays {
		for _, task := range play.Tasks {
			result := task.Hosts[host]
			if strings.Contains(text(result["msg"]), words) {
				return true
			}
			for _, item := range list(result["results"]) {
				if item, ok := item.(map[string]any); ok && strings.Contains(text(item["msg"]), words) {
					return true
				}
			}
		}
	}
	return false
}

// changed names the tasks that have changed a host.
func (o outcome) changed(host string) []string {
	var names []string
	for _, play := range o.Plays {
		for _, task := range play.Tasks {
			if task.Hosts[host]["changed"] == true {
				names = append(names, task.Task.Name)
			}
		}
	}
	return names
}

// succeeded: the host has no failure.
func (p *plays) succeeded(o outcome, host string) {
	p.Helper()
	if s := o.Stats[host]; s.Failures+s.Unreachable > 0 || s.Ok == 0 {
		p.Errorf("%s: %+v: %s", host, s, o.failure(host))
	}
}

// refused: the host was stopped with these words, and nothing was changed unless the story says so.
func (p *plays) refused(o outcome, host, words, story string) {
	p.Helper()
	if failure := o.failure(host); !strings.Contains(failure, words) {
		p.Errorf("%s: it was to fail with %q, and said %q", host, words, failure)
	}
	if got := p.machines[host].changes(); got != story {
		p.Errorf("%s: refused, and yet\n%s\nwant\n%s", host, got, story)
	}
}

// golden compares a text with a file of testdata; with WEFT_TEST_UPDATE it becomes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("WEFT_TEST_UPDATE") != "" {
		check(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if string(want) != got {
		t.Errorf("%s is not what it was:\n%s\nwant\n%s", name, got, want)
	}
}
