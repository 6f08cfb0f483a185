package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/lab/machine"
)

// namespace is the path, on the host, of one of a machine's namespaces ("net", "mnt", ...).
func (l *Lab) namespace(name, kind string) (string, error) {
	if err := l.CheckMachine(name); err != nil {
		return "", err
	}
	process, err := l.processes.machine(name)
	if err != nil {
		return "", fmt.Errorf("machine %s of lab %q does not run: %w", name, l.Name, err)
	}
	switch h, isHost := l.hostNamed(name); {
	case h.kernel:
		return "", fmt.Errorf("host %s of lab %q has a kernel of its own, whose namespaces are none of this machine's", name,
			l.Name)
	case isHost:
		if process, err = l.processes.system(name); err != nil {
			return "", fmt.Errorf("the system of host %s of lab %q does not run: %w", name, l.Name, err)
		}
	}
	return fmt.Sprintf("%s/ns/%s", process, kind), nil
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
