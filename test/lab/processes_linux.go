package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weftnet/weft/test/lab/machine"
)

// processes are those of a running lab. Each is known by its directory in /proc, as this machine reaches it.
type processes struct {
	dir string // the lab's state directory
	pid int    // of the first process in its namespaces
}

// readProcesses of the lab that has that state directory, when its first process has started.
func readProcesses(dir string) (processes, error) {
	file := filepath.Join(dir, pidFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return processes{}, err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return processes{}, fmt.Errorf("%s: %w", file, err)
	}
	return processes{dir, pid}, nil
}

// machine is the directory of a machine's first process.
func (p processes) machine(name string) (string, error) {
	pid, err := os.ReadFile(machine.PIDFile(p.dir, name))
	if err != nil {
		return "", err
	}
	// The machine's PID is one of the lab's PID namespace, which the lab's own /proc shows.
	return fmt.Sprintf("/proc/%d/root/proc/%s", p.pid, pid), nil
}

// system is the directory of the first process of a host's own system, which systemd-nspawn has started.
func (p processes) system(host string) (string, error) {
	outer, err := p.machine(host)
	if err != nil {
		return "", err
	}
	pid, err := os.ReadFile(outer + "/root" + systemPID)
	if err != nil {
		return "", err
	}
	nspawn := strings.TrimSpace(string(pid))
	children, err := os.ReadFile(fmt.Sprintf("%s/root/proc/%s/task/%s/children", outer, nspawn, nspawn))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(children))
	if len(fields) == 0 {
		return "", errors.New("systemd-nspawn has not started it yet")
	}
	return outer + "/root/proc/" + fields[0], nil
}
