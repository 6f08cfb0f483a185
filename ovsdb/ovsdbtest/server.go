package ovsdbtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Process is a real ovsdb-server with one database, on a directory of its own.
type Process struct {
	// Endpoint is where clients find it.
	Endpoint string

	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan struct{}
}

// Server starts an ovsdb-server with an empty database; it ends with the test.
func Server(t testing.TB, d Database) *Process {
	t.Helper()
	p := create(t, d)
	p.Start()
	return p
}

// Relay starts an ovsdb-server that has the database of another one, as clients of it see it, and passes on what they
// write; see ovsdb(7), Relay Service Model.
func Relay(t testing.TB, name, endpoint string) *Process {
	t.Helper()
	p := newProcess(t, socketDir(t), "relay:"+name+":"+endpoint)
	p.Start()
	return p
}

func create(t testing.TB, d Database) *Process {
	t.Helper()
	dir := socketDir(t)
	schema := filepath.Join(dir, "schema")
	if err := os.WriteFile(schema, d.Schema, 0o600); err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(dir, "db")
	Run(t, "ovsdb-tool", "create", database, schema)
	return newProcess(t, dir, database)
}

// Recreate starts a killed server with a new, empty database.
func (p *Process) Recreate(d Database) {
	p.t.Helper()
	database, schema := filepath.Join(p.dir, "db"), filepath.Join(p.dir, "schema")
	if err := os.Remove(database); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(schema, d.Schema, 0o600); err != nil {
		p.t.Fatal(err)
	}
	Run(p.t, "ovsdb-tool", "create", database, schema)
	p.Start()
}

func newProcess(t testing.TB, dir, database string) *Process {
	socket := filepath.Join(dir, "db.sock")
	return &Process{
		t: t, dir: dir, Endpoint: "unix:" + socket,
		args: []string{
			"--remote=punix:" + socket, "--unixctl=" + filepath.Join(dir, "ctl"),
			"-vconsole:warn", "-vfile:off", "-vsyslog:off", database,
		},
	}
}

// Start starts the server after a Kill; what it had committed is there again.
func (p *Process) Start() {
	p.t.Helper()
	p.cmd = exec.Command(Program(p.t, "ovsdb-server"), p.args...)
	p.cmd.Stderr = &p.log
	p.cmd.Env = append(os.Environ(), "OVS_RUNDIR="+p.dir, "OVN_RUNDIR="+p.dir)
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start ovsdb-server: %v", err)
	}
	done, cmd := make(chan struct{}), p.cmd
	p.done = done
	go func() {
		cmd.Wait()
		close(done)
	}()
	p.t.Cleanup(p.Kill)
	waitUntil(p.t, "ovsdb-server answers", func() bool {
		select {
		case <-done:
			p.t.Fatalf("ovsdb-server ended: %s", p.log.String())
		default:
		}
		_, err := p.output("version")
		return err == nil
	})
}

// Kill ends the server at once, as a crash would.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

func (p *Process) output(args ...string) (string, error) {
	out, err := exec.Command(Program(p.t, "ovs-appctl"), append([]string{"-t", filepath.Join(p.dir, "ctl")},
		args...)...).Output()
	return string(out), err
}

// Control asks the server something over its control socket, as ovs-appctl does.
func (p *Process) Control(args ...string) string {
	p.t.Helper()
	return Run(p.t, "ovs-appctl", append([]string{"-t", filepath.Join(p.dir, "ctl")}, args...)...)
}

// Run runs one of OVN's or Open vSwitch's programs and gives its output.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := Try(t, name, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return out
}

// Try is Run of what may fail; the error has what the program said about it.
func Try(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(Program(t, name), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

// Program finds one of OVN's programs: in WEFT_OVN_BIN, where `make ovn` puts them, or on PATH.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range []string{os.Getenv("WEFT_OVN_BIN"), filepath.Join(Repository(), "bin/lab/ovn/bin")} {
		if dir == "" {
			continue
		}
		if path := filepath.Join(dir, name); executable(path) {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not here: run make ovn", name)
	}
	return path
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

func waitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s until %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Transactions is the number of transactions that the server has committed since its database
// was made.
func (p *Process) Transactions() int {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "db"))
	if err != nil {
		p.t.Fatal(err)
	}
	// Each record of the log is two lines: a header, and JSON. The first holds the schema.
	return bytes.Count(text, []byte("OVSDB JSON ")) - 1
}

// PID is the server's process.
func (p *Process) PID() int { return p.cmd.Process.Pid }
