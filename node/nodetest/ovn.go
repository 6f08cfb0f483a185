//go:build linux

package nodetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// OVN is a central and one chassis, each program a child of the test.
type OVN struct {
	tb  testing.TB
	dir string
	bin string
	// driver is the environment of an ovs-vswitchd that has a driver in place of the kernel's, see Driver.
	driver map[string]string
	// namespace is the network namespace of a further node, and central the OVN that it is a node of, see StartNode.
	namespace string
	central   *OVN

	processes map[string]*process
}

type process struct {
	args []string
	*exec.Cmd
	exited chan struct{}
}

// Programs of a whole OVN, in the order of their start.
const (
	NBServer      = "nb"
	SBServer      = "sb"
	OVSServer     = "ovs"
	Northd        = "ovn-northd"
	Vswitchd      = "ovs-vswitchd"
	OVNController = "ovn-controller"
)

var runs atomic.Int32

// StartOVN starts everything. Nothing is configured: that is for the code under test.
func StartOVN(tb testing.TB) *OVN {
	tb.Helper()
	return StartOVNOver(tb, nil)
}

// StartOVNOver is StartOVN with an ovs-vswitchd over a driver of the test's own, see Driver.
func StartOVNOver(tb testing.TB, driver map[string]string) *OVN {
	tb.Helper()
	o := newOVN(tb)
	o.driver = driver
	for _, name := range []string{NBServer, SBServer, OVSServer, Northd} {
		o.Start(name)
	}
	o.Run("ovs-vsctl", "--db="+o.OVSDatabase(), "--no-wait", "init")
	o.Start(Vswitchd)
	o.Start(OVNController)
	return o
}

// StartCentral starts an OVN without a node.
func StartCentral(tb testing.TB) *OVN {
	tb.Helper()
	o := newOVN(tb)
	for _, name := range []string{NBServer, SBServer, Northd} {
		o.Start(name)
	}
	return o
}

// StartNode starts a further node of this OVN, in a network namespace (see Sandbox).
func (o *OVN) StartNode(namespace string) *OVN {
	o.tb.Helper()
	n := newOVN(o.tb)
	n.namespace, n.central = namespace, o
	n.Start(OVSServer)
	n.Run("ovs-vsctl", "--db="+n.OVSDatabase(), "--no-wait", "init")
	n.Start(Vswitchd)
	n.Start(OVNController)
	return n
}

// StartOVS starts Open vSwitch alone.
func StartOVS(tb testing.TB) *OVN {
	tb.Helper()
	o := newOVN(tb)
	o.Start(OVSServer)
	o.Run("ovs-vsctl", "--db="+o.OVSDatabase(), "--no-wait", "init")
	o.Start(Vswitchd)
	return o
}

func newOVN(tb testing.TB) *OVN {
	tb.Helper()
	o := &OVN{tb: tb, dir: fmt.Sprintf("/run/ovn-%d", runs.Add(1)), bin: Programs(tb), processes: map[string]*process{}}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(o.stop)
	for name := range schemas {
		o.createDatabase(name)
	}
	return o
}

var schemas = map[string]string{
	NBServer: "ovn/ovn-nb.ovsschema", SBServer: "ovn/ovn-sb.ovsschema", OVSServer: "openvswitch/vswitch.ovsschema",
}

func (o *OVN) createDatabase(server string) {
	o.tb.Helper()
	o.Run("ovsdb-tool", "create", o.path(server+".db"), filepath.Join(filepath.Dir(o.bin), "share", schemas[server]))
}

// LoseOVSDatabase starts the node's ovsdb-server, which must not run, with a new and empty database.
func (o *OVN) LoseOVSDatabase() {
	o.tb.Helper()
	if err := os.Remove(o.path(OVSServer + ".db")); err != nil {
		o.tb.Fatal(err)
	}
	o.createDatabase(OVSServer)
	o.Start(OVSServer)
	o.Run("ovs-vsctl", "--db="+o.OVSDatabase(), "--no-wait", "init")
}

// Programs is the folder of OVN's programs. Those of `make ovn` have a mark that is made anew with them: go's cache of
// results knows by it when they have changed.
func Programs(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv("WEFT_OVN_BIN"); dir != "" {
		return dir
	}
	dir := filepath.Join(moduleRoot(tb), "bin", "lab", "ovn", "bin")
	if _, err := os.Stat(filepath.Join(dir, "..", ".complete")); err == nil {
		return dir
	}
	if path, err := exec.LookPath("ovn-controller"); err == nil {
		return filepath.Dir(path)
	}
	tb.Fatal("OVN's programs are not here: run `make ovn`, or set WEFT_OVN_BIN to their folder")
	return ""
}

// moduleRoot is the folder of go.mod, "/" for a test that runs elsewhere.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	root, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; root != "/"; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
	}
	return root
}

func (o *OVN) path(name string) string { return filepath.Join(o.dir, name) }

// OVSDatabase, Northbound and Southbound are the servers as a client dials them.
func (o *OVN) OVSDatabase() string { return "unix:" + o.path("ovs.sock") }
func (o *OVN) Northbound() string  { return "unix:" + o.all().path("nb.sock") }
func (o *OVN) Southbound() string  { return "unix:" + o.all().path("sb.sock") }

// all is the OVN that has the databases.
func (o *OVN) all() *OVN {
	if o.central != nil {
		return o.central
	}
	return o
}

// Control is the socket of a program's unixctl.
func (o *OVN) Control(name string) string { return o.path(name + ".ctl") }

func (o *OVN) arguments(name string) []string {
	log := []string{"-vconsole:off", "-vsyslog:off", "--log-file=" + o.path(name+".log"), "--no-chdir"}
	control := "--unixctl=" + o.path(name+".ctl")
	switch name {
	case NBServer, SBServer, OVSServer:
		return append([]string{"ovsdb-server", o.path(name + ".db"), control, "--remote=punix:" + o.path(name+".sock")},
			log...)
	case Northd:
		return append([]string{name, control, "--ovnnb-db=" + o.Northbound(), "--ovnsb-db=" + o.Southbound()}, log...)
	}
	return append([]string{name, control, o.OVSDatabase()}, log...)
}

// Start starts a program that is not running and waits until it listens.
func (o *OVN) Start(name string) {
	o.tb.Helper()
	args := o.arguments(name)
	errors, err := os.OpenFile(o.path(name+".err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		o.tb.Fatal(err)
	}
	defer errors.Close()
	p := &process{args: args, Cmd: o.command(context.Background(), filepath.Join(o.bin, args[0]), args[1:]...),
		exited: make(chan struct{})}
	p.Stdout, p.Stderr = errors, errors
	if name == Vswitchd {
		for variable, value := range o.driver {
			p.Env = append(p.Env, variable+"="+value)
		}
	}
	if err := p.Cmd.Start(); err != nil {
		o.tb.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.Wait() // how it ended is of no matter: tests kill it
		close(p.exited)
	}()
	o.processes[name] = p
	socket := o.path(name + ".ctl")
	if strings.HasPrefix(args[0], "ovsdb-server") {
		socket = o.path(name + ".sock")
	}
	Eventually(o.tb, 20*time.Second, func() error {
		select {
		case <-p.exited:
			o.tb.Fatalf("%s ended at its start:\n%s", name, o.log(name))
		default:
		}
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// PID is that of a program that runs.
func (o *OVN) PID(name string) int { return o.processes[name].Process.Pid }

// Kill ends a program at once, as a crash does.
func (o *OVN) Kill(name string) {
	o.tb.Helper()
	p := o.processes[name]
	if err := p.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		o.tb.Fatalf("kill %s: %v", name, err)
	}
	<-p.exited
}

// Pause stops a program as a busy machine does, until Resume.
func (o *OVN) Pause(name string) { o.signal(name, syscall.SIGSTOP) }

// Resume lets a paused program go on.
func (o *OVN) Resume(name string) { o.signal(name, syscall.SIGCONT) }

func (o *OVN) signal(name string, signal syscall.Signal) {
	o.tb.Helper()
	if err := o.processes[name].Process.Signal(signal); err != nil {
		o.tb.Fatalf("signal %v to %s: %v", signal, name, err)
	}
}

// Restart is Kill and Start.
func (o *OVN) Restart(name string) {
	o.tb.Helper()
	o.Kill(name)
	o.Start(name)
}

func (o *OVN) stop() {
	for _, name := range []string{OVNController, Vswitchd, Northd, OVSServer, SBServer, NBServer} {
		if p := o.processes[name]; p != nil {
			_ = p.Process.Signal(syscall.SIGKILL)
			<-p.exited
			if o.tb.Failed() {
				o.tb.Logf("%s:\n%s", name, o.log(name))
			}
		}
	}
	if o.namespace == "" && o.processes[Vswitchd] != nil { // or the namespace ends with what is in it
		// What a vswitchd leaves that is killed: the devices of its internal ports, or all of the kernel's datapath.
		removeTaps(o.tb)
		if !Userspace() {
			o.removeDatapaths()
		}
	}
	if err := os.RemoveAll(o.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.tb.Error(err)
	}
}

// removeDatapaths of the kernel, in this network namespace, with the connections that they have tracked.
func (o *OVN) removeDatapaths() {
	for i, datapath := range strings.Fields(o.Run("ovs-dpctl", "dump-dps")) {
		if i == 0 { // which it can do while there is one
			o.Run("ovs-dpctl", "flush-conntrack")
		}
		o.Run("ovs-dpctl", "del-dp", datapath)
	}
}

func removeTaps(tb testing.TB) {
	links, err := netlink.LinkList()
	if err != nil {
		tb.Error(err)
	}
	for _, link := range links {
		if link.Type() != "tuntap" {
			continue
		}
		if err := netlink.LinkDel(link); err != nil {
			tb.Error(err)
		}
	}
}

func (o *OVN) log(name string) string {
	var text strings.Builder
	for _, suffix := range []string{".err", ".log"} {
		content, err := os.ReadFile(o.path(name + suffix))
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		text.WriteString(strings.Join(lines[max(0, len(lines)-15):], "\n") + "\n")
	}
	return text.String()
}

func (o *OVN) environment() []string {
	env := os.Environ()
	for _, name := range []string{"RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR"} {
		env = append(env, "OVS_"+name+"="+o.dir, "OVN_"+name+"="+o.dir)
	}
	return env
}

// command is a program in the node's network namespace.
func (o *OVN) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if o.namespace != "" { // `ip` becomes the program
		program, args = "ip", append([]string{"netns", "exec", o.namespace, program}, args...)
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Env = o.environment()
	return command
}

// Shell runs a script in the node's network namespace, as far as its first command that fails.
func (o *OVN) Shell(script string) {
	o.tb.Helper()
	if output, err := o.command(context.Background(), "sh", "-ec", script).CombinedOutput(); err != nil {
		o.tb.Fatalf("%s\n%v\n%s", script, err, output)
	}
}

// Run runs one of OVN's programs to its end and returns what it printed.
func (o *OVN) Run(program string, args ...string) string {
	o.tb.Helper()
	output, err := o.Try(program, args...)
	if err != nil {
		o.tb.Fatal(err)
	}
	return output
}

// Try is Run, which may fail.
func (o *OVN) Try(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var output []byte
	var err error
	for {
		output, err = o.command(ctx, filepath.Join(o.bin, program), args...).CombinedOutput()
		// ovs-vswitchd answers before it has read its configuration, and learns most of its commands with it.
		if err == nil || !bytes.Contains(output, []byte("is not a valid command")) || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

// NB and VS run ovn-nbctl and ovs-vsctl.
func (o *OVN) NB(args ...string) string {
	o.tb.Helper()
	return o.Run("ovn-nbctl", append([]string{"--db=" + o.Northbound()}, args...)...)
}

func (o *OVN) VS(args ...string) string {
	o.tb.Helper()
	return o.Run("ovs-vsctl", append([]string{"--timeout=100", "--db=" + o.OVSDatabase()}, args...)...)
}
