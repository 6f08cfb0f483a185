package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/lab/machine"
	"github.com/weftnet/weft/test/lab/pki"
)

// Lab is a running lab.
type Lab struct {
	Config
	files     files
	processes processes
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
	config, err := ReadConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("lab %q is just starting or is damaged: %w", name, err)
	}
	started, err := readProcesses(dir)
	if err != nil {
		return nil, fmt.Errorf("lab %q is just starting or is damaged: %w", name, err)
	}
	return &Lab{config, newFiles(config, dir), started}, nil
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
func isLocked(dir string) (bool, error) { return isFileLocked(filepath.Join(dir, lockFile)) }

func isFileLocked(path string) (bool, error) {
	file, err := os.Open(path)
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

// Kubeconfig is the file of an administrator's credentials. The API server is reached in the
// network of the central only: by [Lab.Dial] and [Lab.EnterNetwork].
func (l *Lab) Kubeconfig() string { return l.files.kubeconfig("admin") }

// KubectlCommand is the command for kubectl with args as the cluster's administrator.
func (l *Lab) KubectlCommand(args ...string) ([]string, error) {
	return l.EnterNetwork(Central, append([]string{l.files.lab("kubectl")}, args...)...)
}

// WeftCommand is the command for weft with args as the cluster's administrator.
func (l *Lab) WeftCommand(args ...string) ([]string, error) {
	return l.EnterNetwork(Central, append([]string{filepath.Join(l.files.bin, "weft")}, args...)...)
}

// IssueTunnelCertificate gives a node's agent a new certificate for those who have streams to it, changed from what its
// role wants by change, which may be nil. The agent reads its certificate again when it has changed.
func (l *Lab) IssueTunnelCertificate(name string, change func(*pki.Subject)) error {
	certificates := certificates{l.layout()}
	subject, has := certificates.clusterSubjects()[agentPair(name)]
	if !has {
		return fmt.Errorf("%s is no node of lab %q", name, l.Name)
	}
	if change != nil {
		change(&subject)
	}
	return certificates.reissue(agentPair(name), subject)
}

// Path is where this machine reaches a file of one of the lab's machines, a unix socket for one.
func (l *Lab) Path(name, file string) (string, error) {
	if err := l.CheckMachine(name); err != nil {
		return "", err
	}
	process, err := l.processes.machine(name)
	return process + "/root" + file, err
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
