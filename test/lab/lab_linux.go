package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/lab/machine"
	"github.com/weftnet/weft/test/lab/pki"
)

// Lab is a running lab.
type Lab struct {
	Config
	files files
	pid   int // of the first process in its namespaces
}

func (l *Lab) layout() layout { return newLayout(l.Config, l.files) }

// ErrNotRunning is that of a lab that is not up.
var ErrNotRunning = errors.New("is not up")

// Open finds the running lab in a state directory.
func Open(name, dir string) (*Lab, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	running, err := isLocked(dir)
	if err != nil {
		return nil, err
	}
	if !running {
		return nil, fmt.Errorf("lab %q %w", name, ErrNotRunning)
	}
	lab := &Lab{}
	if lab.Config, err = ReadConfig(dir); err != nil {
		return nil, fmt.Errorf("lab %q is just starting or is damaged: %w", name, err)
	}
	pid, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err == nil {
		lab.pid, err = strconv.Atoi(string(pid))
	}
	if err != nil {
		return nil, fmt.Errorf("lab %q is just starting or is damaged: %w", name, err)
	}
	lab.files = newFiles(lab.Config, dir)
	return lab, nil
}

// ReadConfig of the lab with that state directory.
func ReadConfig(dir string) (Config, error) {
	config := Config{Gateway: GatewayOwn, MTU: 1500} // as they were before there was a choice
	text, err := os.ReadFile(filepath.Join(dir, configFile))
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	return config, err
}

// Files of the state directory.
const (
	configFile   = "lab.json"
	pidFile      = "pid"
	lockFile     = "lock"
	superviseLog = "supervise.log"
)

// isLocked tells whether the first process of a lab lives: it holds the lock from its birth on.
func isLocked(dir string) (bool, error) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// namespace is the path, on the host, of one of a machine's namespaces ("net", "mnt", ...).
func (l *Lab) namespace(name, kind string) (string, error) {
	if err := l.CheckMachine(name); err != nil {
		return "", err
	}
	pid, err := os.ReadFile(machine.PIDFile(l.files.dir, name))
	if err != nil {
		return "", fmt.Errorf("machine %s of lab %q does not run: %w", name, l.Name, err)
	}
	// The machine's PID is one of the lab's PID namespace, which the lab's own /proc shows.
	process := fmt.Sprintf("/proc/%d/root/proc/%s", l.pid, pid)
	switch h, isHost := l.hostNamed(name); {
	case h.kernel:
		return "", fmt.Errorf("host %s of lab %q has a kernel of its own, whose namespaces are none of this machine's", name,
			l.Name)
	case isHost:
		if process, err = systemProcess(process); err != nil {
			return "", fmt.Errorf("the system of host %s of lab %q does not run: %w", name, l.Name, err)
		}
	}
	return fmt.Sprintf("%s/ns/%s", process, kind), nil
}

// systemProcess is the directory of the first process of a host's system, given that of its machine's.
func systemProcess(machine string) (string, error) {
	pid, err := os.ReadFile(machine + "/root" + systemPID)
	if err != nil {
		return "", err
	}
	nspawn := strings.TrimSpace(string(pid))
	children, err := os.ReadFile(fmt.Sprintf("%s/root/proc/%s/task/%s/children", machine, nspawn, nspawn))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(children))
	if len(fields) == 0 {
		return "", errors.New("systemd-nspawn has not started it yet")
	}
	return machine + "/root/proc/" + fields[0], nil
}

// hostEnv is what a command in a host's own system has in its environment.
func hostEnv() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"TERM=" + os.Getenv("TERM")}
}

// enterKernel is the command that runs argv in a host with a kernel of its own: by ssh, as root.
func (l *Lab) enterKernel(name string, argv ...string) ([]string, error) {
	command := "cd / && exec env -i"
	for _, word := range append(hostEnv(), argv...) {
		command += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return l.Enter(Control, "ssh", "-q", "-o", "ConnectTimeout=5", "root@"+name, command)
}

// Enter is the command that runs argv in all namespaces of a machine, in its root directory.
func (l *Lab) Enter(name string, argv ...string) ([]string, error) {
	h, isHost := l.hostNamed(name)
	if h.kernel {
		return l.enterKernel(name, argv...)
	}
	command := []string{"nsenter"}
	for _, kind := range [][2]string{{"mount", "mnt"}, {"uts", "uts"}, {"ipc", "ipc"}, {"net", "net"}, {"pid", "pid"},
		{"cgroup", "cgroup"}} {
		path, err := l.namespace(name, kind[1])
		if err != nil {
			return nil, err
		}
		command = append(command, "--"+kind[0]+"="+path)
	}
	spec, err := machine.Read(l.files.dir, name)
	if err != nil {
		return nil, err
	}
	env := spec.Env
	if isHost { // its own system's
		env = append([]string{"-i"}, hostEnv()...)
	}
	command = append(append(command, "--", "env"), env...)
	return append(command, argv...), nil
}

// EnterControl is the command that runs argv where Ansible runs, in the working directory. /etc, /opt, /var
// and /run are the machine's own, everything else is the host's.
func (l *Lab) EnterControl(argv ...string) ([]string, error) {
	if l.Hosts == "" {
		return nil, fmt.Errorf("lab %q has no hosts, and so no machine for Ansible: `weftlab up --hosts c1,l1` makes one",
			l.Name)
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return l.Enter(Control, append([]string{"env", "--chdir=" + dir}, argv...)...)
}

// EnterNetwork is the command that runs argv on the host's file system, in the working directory,
// but in a machine's network.
func (l *Lab) EnterNetwork(name string, argv ...string) ([]string, error) {
	path, err := l.namespace(name, "net")
	if err != nil {
		return nil, err
	}
	return append([]string{"nsenter", "--net=" + path, "--", "env", "KUBECONFIG=" + l.Kubeconfig()}, argv...), nil
}

// Kubeconfig is the file of an administrator's credentials. The API server is reached in the
// network of the central only: by [Lab.Dial] and [Lab.EnterNetwork].
func (l *Lab) Kubeconfig() string { return l.files.kubeconfig("admin") }

// KubectlCommand is the command for kubectl with args as the cluster's administrator.
func (l *Lab) KubectlCommand(args ...string) ([]string, error) {
	return l.EnterNetwork(Central, append([]string{l.files.lab("kubectl")}, args...)...)
}

// PolicyCommand is the command for weft policy with args as the cluster's administrator.
func (l *Lab) PolicyCommand(args ...string) ([]string, error) {
	return l.EnterNetwork(Central, append([]string{filepath.Join(l.files.bin, "weft"), "policy"}, args...)...)
}

// HNSCommand is the command that hands args to the control of a Windows node's emulated HNS.
func (l *Lab) HNSCommand(name string, args ...string) ([]string, error) {
	if err := l.checkWindows(name); err != nil {
		return nil, err
	}
	return l.Enter(name, append([]string{l.files.lab("hnsemu"), "ctl", "--control", hnsControl}, args...)...)
}

// HyperVCommand is the command that hands args to the control of a Windows node's emulated extension.
func (l *Lab) HyperVCommand(name string, args ...string) ([]string, error) {
	if err := l.checkWindows(name); err != nil {
		return nil, err
	}
	if !l.emulated() {
		return nil, fmt.Errorf("the Windows nodes of lab %q have no emulated extension: start one without "+
			"--windows-datapath linux", l.Name)
	}
	return l.Enter(name, append([]string{l.files.lab("hypervemu"), "ctl", "--control", hypervControl}, args...)...)
}

// SetClock puts the clock that a Windows node's .exes read off by that much, from the next second or
// so on. Its kubelet is a Linux program and keeps the machine's time.
func (l *Lab) SetClock(name string, offset time.Duration) error {
	if err := l.checkWindows(name); err != nil {
		return err
	}
	return os.WriteFile(l.files.clock(name), fmt.Appendf(nil, "%+ds\n", int64(offset.Seconds())), 0o644)
}

func (l *Lab) checkWindows(name string) error {
	if err := l.CheckMachine(name); err != nil {
		return err
	}
	if !slices.Contains(l.WindowsNodes(), name) {
		return fmt.Errorf("%s is no Windows node; lab %q has %d of them", name, l.Name, l.Windows)
	}
	return nil
}

// IssueTunnelCertificate gives a node's agent a new certificate for those who have streams to it, changed from what its
// role wants by change, which may be nil. The agent reads its certificate again when it has changed.
func (l *Lab) IssueTunnelCertificate(name string, change func(*pki.Subject)) error {
	subject, has := certificates{l.layout()}.clusterSubjects()[agentPair(name)]
	if !has {
		return fmt.Errorf("%s is no node of lab %q", name, l.Name)
	}
	if change != nil {
		change(&subject)
	}
	ca, err := pki.ReadAuthority(l.files.pki(""), clusterCA)
	if err != nil {
		return err
	}
	pair, err := ca.Issue(subject)
	if err != nil {
		return err
	}
	return pair.Write(l.files.pki(""), agentPair(name))
}

// Dial connects in the network of the central, for clients such as client-go's rest.Config.Dial.
func (l *Lab) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	path, err := l.namespace(Central, "net")
	if err != nil {
		return nil, err
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// The thread that changes its namespace must end with this goroutine: it stays locked.
		runtime.LockOSThread()
		namespace, err := os.Open(path)
		if err == nil {
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
			namespace.Close()
		}
		if err != nil {
			done <- result{err: fmt.Errorf("enter the network of lab %q: %w", l.Name, err)}
			return
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// CheckMachine reports a name that none of the lab's machines has.
func (l *Lab) CheckMachine(name string) error {
	if !slices.Contains(l.Machines(), name) {
		return fmt.Errorf("lab %q has no machine %q; it has %s", l.Name, name, strings.Join(l.Machines(), ", "))
	}
	return nil
}

// Machine is the client for a machine's supervisor.
func (l *Lab) Machine(name string) *machine.Client { return machine.NewClient(l.files.dir, name) }

// IsOff tells whether a machine is off because that is wanted.
func (l *Lab) IsOff(name string) bool { return machine.IsOff(l.files.dir, name) }

// LogFile of a component.
func (l *Lab) LogFile(name, component string) string {
	return machine.LogFile(l.files.dir, name, component)
}

// Components lists the names of a machine's components.
func (l *Lab) Components(name string) ([]string, error) {
	if err := l.CheckMachine(name); err != nil {
		return nil, err
	}
	spec, err := machine.Read(l.files.dir, name)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range spec.Components {
		names = append(names, c.Name)
	}
	return names, nil
}
