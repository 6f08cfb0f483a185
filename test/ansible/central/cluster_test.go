//go:build ansible

package central

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/freeport"
	"github.com/weftnet/weft/test/lab/labtest"
)

var databases = map[string]string{"nb": "OVN_Northbound", "sb": "OVN_Southbound"}

// centrals are hosts c1, c2, … of this machine, each with a folder and a loopback address of its own. What the role
// asks of a host it asks in that folder, which is /proc/self/cwd there.
type centrals struct {
	t     *testing.T
	dir   string
	ports map[string]int
}

// served stands for serve.yml: the server has no unit, and is waited for as one that has.
const served = `---
- name: Run {{ weft_database.name }}
  ansible.builtin.command:
    argv:
      - "{{ weft_ovsdb_server }}"
      - "{{ weft_database_file }}"
      - --remote=punix:{{ weft_ovn_rundir }}/ovn{{ weft_database.key }}_db.sock
      - --unixctl={{ weft_database_ctl }}
      - --pidfile={{ weft_ovn_rundir }}/{{ weft_database.key }}.pid
      - --log-file={{ weft_ovn_rundir }}/{{ weft_database.key }}.log
      - -vconsole:off
      - -vsyslog:off
      - --no-chdir
      - --detach
    creates: "{{ weft_ovn_rundir }}/{{ weft_database.key }}.pid"
`

func newCentrals(t *testing.T) *centrals {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-central-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	c := &centrals{t: t, dir: dir, ports: map[string]int{}}
	t.Cleanup(func() {
		pids, _ := filepath.Glob(filepath.Join(dir, "c*/run/*.pid"))
		for _, pid := range pids {
			c.kill(pid)
		}
		os.RemoveAll(dir)
	})
	for key := range databases {
		c.ports[key] = int(freeport.Number(t))
	}
	roles := filepath.Join(dir, "roles")
	if err := os.CopyFS(roles, os.DirFS(filepath.Join(ovsdbtest.Repository(), "ansible/roles"))); err != nil {
		t.Fatal(err)
	}
	serve := filepath.Join(roles, "ovn_central/tasks/serve.yml")
	text, err := os.ReadFile(serve)
	if err != nil {
		t.Fatal(err)
	}
	_, wait, found := strings.Cut(string(text), "- name: Wait until")
	if !found {
		t.Fatalf("serve.yml waits for nothing:\n%s", text)
	}
	c.write("roles/ovn_central/tasks/serve.yml", served+"- name: Wait until"+wait)
	c.write("roles/ovn_central/tasks/southbound.yml", "--- []\n")
	restore := filepath.Join(roles, "ovn_central/tasks/restore.yml")
	if text, err = os.ReadFile(restore); err != nil {
		t.Fatal(err)
	}
	before, units, found := strings.Cut(string(text), "- name: Stop what uses the databases")
	_, after, more := strings.Cut(units, "- name: Look for what is there")
	if !found || !more {
		t.Fatalf("restore.yml stops nothing:\n%s", text)
	}
	c.write("roles/ovn_central/tasks/restore.yml", before+"- name: Look for what is there"+after)
	return c
}

func (c *centrals) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		c.t.Fatal(err)
	}
}

func (c *centrals) path(host int, name string) string {
	return filepath.Join(c.dir, fmt.Sprintf("c%d", host), name)
}

func (c *centrals) kill(pidfile string) {
	c.t.Helper()
	text, err := os.ReadFile(pidfile)
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	_ = os.Remove(pidfile)
}

// dies: a host's servers end, and all that it has is gone.
func (c *centrals) dies(host int) {
	c.t.Helper()
	c.stops(host)
	if err := os.RemoveAll(c.path(host, "")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *centrals) stops(host int) {
	c.t.Helper()
	for key := range databases {
		c.kill(c.path(host, "run/"+key+".pid"))
	}
}

// silence is how long a dead member is one that may have just been restarted: see quorum.py.
const silence = 10 * time.Second

// play is a playbook on so many hosts, of which some lie elsewhere than at their own address; it is what the play says,
// and its error.
func (c *centrals) play(tasks string, hosts int, at map[int]int, args ...string) (string, error) {
	c.t.Helper()
	inventory := "[weft_central]\n"
	for host := 1; host <= hosts; host++ {
		place := host
		if other, moved := at[host]; moved {
			place = other
		}
		c.folders(host)
		c.write(fmt.Sprintf("c%d/python", host), "#!/bin/sh\ncd "+c.path(host, "")+" && exec /usr/bin/python3 \"$@\"\n")
		inventory += fmt.Sprintf("c%d weft_address=%s ansible_python_interpreter=%s\n", host, loopback(place),
			c.path(host, "python"))
	}
	settings, err := json.Marshal(map[string]any{
		"ansible_connection": "local", "ansible_become": false,
		"weft_pod_cidrs": []string{"10.244.0.0/16"}, "weft_service_cidrs": []string{"10.96.0.0/16"}, "weft_plaintext": true,
		"weft_nb_raft_port": c.ports["nb"], "weft_sb_raft_port": c.ports["sb"], "weft_timeout": 30,
		"weft_ovn_prefix": prefix(), "weft_ovn_user": "root",
		"weft_ovn_rundir": "/proc/self/cwd/run", "weft_state_dir": "/proc/self/cwd/lib",
		"weft_ovn_database_dir": "/proc/self/cwd/lib/ovn",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("hosts.ini", inventory+"[weft_linux_nodes]\nl1 ansible_host=192.0.2.1\n")
	c.write("settings.json", string(settings))
	c.write("play.yml", "- hosts: weft_central\n  gather_facts: false\n  any_errors_fatal: true\n  tasks:\n    - "+
		"ansible.builtin.import_role: {name: weft_common}\n"+tasks)
	cmd := exec.Command("ansible-playbook", append([]string{"--inventory", "hosts.ini", "--extra-vars", "@settings.json",
		"play.yml"}, args...)...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "ANSIBLE_NOCOLOR=1", "OVN_RUNDIR=/proc/self/cwd/run",
		"ANSIBLE_ROLES_PATH="+filepath.Join(c.dir, "roles"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// members is the part of the role that has each host be a member of both clusters.
const members = "    - ansible.builtin.include_role: {name: ovn_central, tasks_from: members}\n"

func loopback(host int) string { return fmt.Sprintf("127.9.0.%d", host) }

func (c *centrals) status(host int, key string) (string, error) {
	out, err := exec.Command(ovsdbtest.Program(c.t, "ovn-appctl"), "-t", c.path(host, "run/ovn"+key+"_db.ctl"),
		"cluster/status", databases[key]).CombinedOutput()
	return string(out), err
}

var (
	memberLine  = regexp.MustCompile(`(?m)^    [0-9a-f]{4} \([0-9a-f]{4} at ([^)]+)\)`)
	serverID    = regexp.MustCompile(`(?m)^Server ID: (.*)$`)
	clusterID   = regexp.MustCompile(`(?m)^Cluster ID: (.*)$`)
	knowsLeader = regexp.MustCompile(`(?m)^Leader: (self|[0-9a-f]{4})$`)
)

// whole: a host knows a leader of each cluster, whose members are those hosts.
func (c *centrals) whole(host int, hosts ...int) {
	c.t.Helper()
	for key := range databases {
		labtest.Eventually(c.t, 20*time.Second, fmt.Sprintf("%s of c%d has a leader and the members %v", databases[key], host,
			hosts), func() error {
			status, err := c.status(host, key)
			if err != nil {
				return fmt.Errorf("%w: %s", err, status)
			}
			want := map[string]bool{}
			for _, h := range hosts {
				want[fmt.Sprintf("tcp:%s:%d", loopback(h), c.ports[key])] = true
			}
			found := memberLine.FindAllStringSubmatch(status, -1)
			for _, m := range found {
				delete(want, m[1])
			}
			if len(want) > 0 || len(found) != len(hosts) || !knowsLeader.MatchString(status) {
				return fmt.Errorf("%s", status)
			}
			return nil
		})
	}
}

// ids of a host's servers, or of its clusters.
func (c *centrals) ids(host int, of *regexp.Regexp) string {
	c.t.Helper()
	var all []string
	for _, key := range []string{"nb", "sb"} {
		status, err := c.status(host, key)
		found := of.FindStringSubmatch(status)
		if err != nil || found == nil {
			c.t.Fatalf("%s of c%d: %v: %s", databases[key], host, err, status)
		}
		all = append(all, found[1])
	}
	return strings.Join(all, ", ")
}

// installed are hosts that are members of both clusters.
func installed(t *testing.T, hosts int) *centrals {
	return installedOf(t, hosts, filepath.Join(prefix(), "share/ovn"))
}

// installedOf is installed with databases of other schemas.
func installedOf(t *testing.T, hosts int, schemas string) *centrals {
	t.Helper()
	c := newCentrals(t)
	var all []int
	for host := 1; host <= hosts; host++ {
		all = append(all, host)
		for key, name := range databases {
			member := func(host int) string { return fmt.Sprintf("tcp:%s:%d", loopback(host), c.ports[key]) }
			made := []string{"join-cluster", c.path(host, "lib/ovn/"+key+".db"), name, member(host), member(1)}
			if host == 1 {
				made = []string{"create-cluster", c.path(host, "lib/ovn/"+key+".db"),
					filepath.Join(schemas, "ovn-"+key+".ovsschema"), member(host)}
			}
			c.folders(host)
			ovsdbtest.Run(t, "ovsdb-tool", made...)
			cmd := exec.Command(ovsdbtest.Program(t, "ovsdb-server"), "lib/ovn/"+key+".db",
				"--remote=punix:/proc/self/cwd/run/ovn"+key+"_db.sock",
				"--unixctl=/proc/self/cwd/run/ovn"+key+"_db.ctl", "--pidfile=/proc/self/cwd/run/"+key+".pid", "-vconsole:off",
				"-vsyslog:off", "--no-chdir", "--detach")
			cmd.Dir = c.path(host, "")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		c.whole(host, all...)
	}
	return c
}

func prefix() string { return filepath.Join(ovsdbtest.Repository(), "bin/lab/ovn") }

func (c *centrals) folders(host int) {
	c.t.Helper()
	for _, folder := range []string{"run", "lib/ovn"} {
		if err := os.MkdirAll(c.path(host, folder), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
}

// forgotten: a host's servers that have ended are dead to the leaders, who have not heard of them for long.
func (c *centrals) forgotten(host int, askers ...int) {
	c.t.Helper()
	for key := range databases {
		if _, err := os.Stat(c.path(host, "run/"+key+".pid")); err == nil {
			continue
		}
		heard := regexp.MustCompile(regexp.QuoteMeta(fmt.Sprintf("tcp:%s:%d)", loopback(host), c.ports[key])) +
			`.* last msg (\d+) ms ago`)
		labtest.Eventually(c.t, 3*silence, fmt.Sprintf("c%d is dead to %s", host, databases[key]), func() error {
			for _, asker := range askers {
				status, err := c.status(asker, key)
				if err != nil || !strings.Contains(status, "Role: leader") {
					continue
				}
				found := heard.FindStringSubmatch(status)
				if found == nil {
					return nil
				}
				if ms, _ := strconv.Atoi(found[1]); ms > int(silence.Milliseconds()) {
					return nil
				}
				return fmt.Errorf("%s", status)
			}
			return fmt.Errorf("none of %v leads", askers)
		})
	}
}

// TestAHostTakesItsFormerSelfsPlace, and the databases are served all the while.
func TestAHostTakesItsFormerSelfsPlace(t *testing.T) {
	c := installed(t, 3)
	before := c.ids(1, clusterID)
	c.dies(2)
	c.forgotten(2, 1, 3)
	out, err := c.play(members, 3, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for host := 1; host <= 3; host++ {
		c.whole(host, 1, 2, 3)
	}
	if now := c.ids(2, clusterID); now != before {
		t.Errorf("c2 is of the clusters %s, and they were %s", now, before)
	}
	if out, err := c.play(members, 3, nil); err != nil || strings.Contains(out, "changed: ") {
		t.Errorf("a second run changes something: %v\n%s", err, out)
	}
}

// TestALiveMemberIsNotTakenOut by who has its address, or by itself.
func TestALiveMemberIsNotTakenOut(t *testing.T) {
	for _, test := range []struct {
		name string
		// What is wrong, the hosts that there are then, and where they lie.
		mistake func(c *centrals)
		hosts   int
		at      map[int]int
		says    string
	}{
		{"one dead, and the address of another is given twice", func(c *centrals) {
			c.dies(2)
			c.forgotten(2, 1, 3)
		}, 4, map[int]int{4: 3}, "c3 and c4 would both be its member at"},
		{"one that has no files, and is dead in the first cluster alone", func(c *centrals) {
			c.kill(c.path(2, "run/nb.pid"))
			for _, file := range []string{"lib/ovn/nb.db", "lib/ovn/sb.db"} {
				if err := os.Remove(c.path(2, file)); err != nil {
					c.t.Fatal(err)
				}
			}
			c.forgotten(2, 1, 3)
		}, 3, nil, "stop its server there (systemctl stop weft-sb)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := installed(t, 3)
			server := c.ids(3, serverID)
			test.mistake(c)
			out, err := c.play(members, test.hosts, test.at)
			if err == nil || !strings.Contains(out, test.says) {
				t.Errorf("it is not refused with %q: %v\n%s", test.says, err, out)
			}
			for host := 1; host <= 3; host += 2 {
				c.whole(host, 1, 2, 3)
			}
			if now := c.ids(3, serverID); now != server {
				t.Errorf("c3 was %s and is %s", server, now)
			}
		})
	}
}
