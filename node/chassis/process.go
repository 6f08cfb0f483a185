//go:build linux

package chassis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weftnet/weft/node/unixctl"
)

// spawner starts children from one thread that lasts as long as the process: what PR_SET_PDEATHSIG
// waits for is the end of the thread that has started the child.
type spawner struct{ jobs chan func() }

func newSpawner() *spawner {
	s := &spawner{make(chan func())}
	go func() {
		runtime.LockOSThread()
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

func (s *spawner) start(command *exec.Cmd) error {
	started := make(chan error)
	s.jobs <- func() { started <- command.Start() }
	return <-started
}

func (s *spawner) close() { close(s.jobs) }

// controller is a running ovn-controller.
type controller struct {
	socket string
	*exec.Cmd
	exited chan struct{} // closed when it has
	cause  atomic.Pointer[error]
}

// end is why it has ended. A cause that is known says more than how the process has ended.
func (p *controller) end() error {
	if cause := p.cause.Load(); cause != nil {
		return *cause
	}
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		return errors.New("it was killed, and not by weft chassis: perhaps by the kernel, when the host had no memory " +
			"left; see the kernel's log")
	}
	return fmt.Errorf("it ended by itself: %v", p.ProcessState)
}

// blame gives its end a cause, unless it has one.
func (p *controller) blame(cause error) { p.cause.CompareAndSwap(nil, &cause) }

// exitPatience is how long an ovn-controller may take to end by itself.
const exitPatience = 5 * time.Second

// startController starts ovn-controller in a node's folder. It ends with this process at the latest.
func (c Config) startController(s *spawner, lock *os.File, node, folder string, log *slog.Logger) (*controller, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	p := &controller{
		socket: filepath.Join(folder, controlSocket), exited: make(chan struct{}),
		Cmd: exec.Command(c.OVNController, c.controllerArgs(node, folder)...),
	}
	p.Dir, p.Stdout, p.Stderr = folder, write, write
	p.Env = os.Environ()
	// SYSCONFDIR may hold another chassis's name
	for _, name := range []string{"RUNDIR", "SYSCONFDIR", "LOGDIR", "DBDIR"} {
		p.Env = append(p.Env, "OVS_"+name+"="+folder, "OVN_"+name+"="+folder)
	}
	p.ExtraFiles = []*os.File{lock}
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := s.start(p.Cmd); err != nil {
		read.Close()
		return nil, err
	}
	// Whoever has a node can have its ovn-controller take any amount of memory, so it has a bound. When there is none
	// left before, the kernel must end that one, and not this process, whose end is that of all.
	most := c.controllerMemory()
	if err := limitMemory(p.Process.Pid, most); err != nil {
		log.Warn("ovn-controller may take all memory", "error", err)
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.Process.Pid), []byte("500"), 0); err != nil {
		log.Warn("ovn-controller is not preferred when memory runs out", "error", err)
	}
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		defer read.Close()
		relayLog(read, log, func(line string) {
			if cause := refusal(line, most); cause != nil {
				p.blame(cause)
			}
		})
	}()
	go func() {
		_ = p.Wait() // end tells of it
		select {
		case <-relayed:
		case <-time.After(exitPatience): // another process may have its output
		}
		close(p.exited)
	}()
	// Its own socket has its PID in the name: --unixctl, which would name it, is not known to OVN 23.03's.
	if err := os.Symlink(fmt.Sprintf(ownSocket, p.Process.Pid), p.socket); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// refusal is why a program of OVN has ended, if its last line says that it was refused memory: for its heap (Open
// vSwitch, lib/util.c, out_of_memory), or for the stack of a new thread (lib/ovs-thread.c). A thread is also refused,
// with the same error, when there are too many (pthread_create(3), EAGAIN).
func refusal(line string, most uint64) error {
	tooMuch := fmt.Sprintf("it needed more memory than it may have (%d MiB)", most>>20)
	const remedy = "if the node is sound, raise the key ovn-controller-memory of this host"
	switch {
	case strings.HasSuffix(line, ": virtual memory exhausted"):
		return fmt.Errorf("%s; %s", tooMuch, remedy)
	case strings.HasSuffix(line, ": pthread_create failed: Resource temporarily unavailable"):
		return fmt.Errorf("it was refused a thread: %s, or all chassis of this host have too many threads (TasksMax of "+
			"the host's unit); %s", tooMuch, remedy)
	}
	return nil
}

func (c Config) controllerArgs(node, folder string) []string {
	args := []string{
		"unix:" + filepath.Join(folder, databaseSocket),
		"-n", node, // and no other, whatever the node's database says
		"--no-chdir", "-vsyslog:off", "-vfile:off", "-vconsole:info", "-vPATTERN:console:%p|%c|%m",
	}
	for _, file := range [][2]string{{"--ca-cert=", c.OVNCA}, {"--certificate=", c.OVNCertificate},
		{"--private-key=", c.OVNPrivateKey}} {
		if file[1] != "" {
			args = append(args, file[0]+strings.ReplaceAll(file[1], NodePlaceholder, node))
		}
	}
	return args
}

// leave ends it so that the chassis and its flows stay, as ovn-controller(8) says of exit --restart;
// a plain exit removes them. It kills it when it takes too long or ctx is done.
func (p *controller) leave(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, exitPatience)
	defer cancel()
	_, err := unixctl.Call(ctx, p.socket, "exit", "--restart")
	if err == nil {
		select {
		case <-p.exited:
			return
		case <-ctx.Done():
			err = fmt.Errorf("it has not ended within %s, or within this host's term", exitPatience)
		}
	}
	select {
	case <-p.exited: // and so did not answer
		return
	default:
		log.Warn("ovn-controller does not end by itself and is killed", "error", err)
		p.kill()
	}
}

// kill returns when it is dead.
func (p *controller) kill() {
	_ = p.Process.Kill() // it may have ended by itself
	<-p.exited
}

// relayLog sends the lines of OVN's log, as controllerArgs asks for them, to ours. Lines of another form, such as a
// program's last one, are given to other, too.
func relayLog(from io.Reader, log *slog.Logger, other func(line string)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		level, module, message := parseLine(lines.Text())
		if module == "" {
			other(message)
		}
		log.Log(context.Background(), level, "ovn-controller: "+message, "module", module)
	}
	_, _ = io.Copy(io.Discard, from) // after a line that is too long: a full pipe would stop the child
}

func parseLine(line string) (level slog.Level, module, message string) {
	severity, rest, ok := strings.Cut(line, "|")
	if !ok {
		return slog.LevelWarn, "", line // of the loader, or of a library
	}
	module, message, ok = strings.Cut(rest, "|")
	levels := map[string]slog.Level{"DBG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
		"ERR": slog.LevelError, "EMER": slog.LevelError}
	level, known := levels[severity]
	if !ok || !known {
		return slog.LevelWarn, "", line
	}
	return level, module, message
}
