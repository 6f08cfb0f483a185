package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// process is a server of the benchmark's.
type process struct {
	name    string
	cmd     *exec.Cmd
	log     string
	started time.Time
	exited  chan struct{}
}

// start runs a program whose output goes to a file; it ends with the benchmark at the latest.
func start(b testing.TB, name, dir, program string, args ...string) *process {
	b.Helper()
	p := &process{name: name, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		b.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // stop looks at ProcessState
		close(p.exited)
	}()
	b.Cleanup(func() { p.stop(b) })
	return p
}

// stop asks the process to end, and insists after a while.
func (p *process) stop(b testing.TB) {
	b.Helper()
	for _, signal := range []os.Signal{unix.SIGTERM, unix.SIGKILL} {
		_ = p.cmd.Process.Signal(signal) // it may have ended
		select {
		case <-p.exited:
			return
		case <-time.After(20 * time.Second):
			b.Errorf("%s outlived %v by 20 s", p.name, signal)
		}
	}
}

// cpu is the processor time that the process has used so far, to the nanosecond.
func (p *process) cpu() (time.Duration, error) {
	// The clock of another process: CPUCLOCK_SCHED of its PID (see clock_getcpuclockid(3)).
	clock := int32(^p.cmd.Process.Pid)<<3 | 2
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", p.name, err)
	}
	return time.Duration(t.Nano()), nil
}

// spent is the processor time that processes have used so far, and this one, which makes the load.
func spent(b testing.TB, processes ...*process) time.Duration {
	b.Helper()
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	sum := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	for _, p := range processes {
		used, err := p.cpu()
		if err != nil {
			b.Fatal(err)
		}
		sum += used
	}
	return sum
}

// peak is the most memory that the process has had resident so far, in bytes: its code and its
// maps of files count.
func (p *process) peak(b testing.TB) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		b.Fatalf("memory of %s: %v\n%s", p.name, err, p.tail())
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kB int
	if _, err := fmt.Sscanf(string(rest), "%d kB", &kB); err != nil {
		b.Fatalf("memory of %s: VmHWM: %v", p.name, err)
	}
	return kB * 1024
}

// tail is the end of the process's log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return p.name + " said last:\n  " + strings.Join(lines[max(0, len(lines)-15):], "\n  ")
}

// until waits for a condition, and fails when a process that it depends on is gone.
func until(b testing.TB, limit time.Duration, what string, p *process, condition func(context.Context) error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-p.exited:
			b.Fatalf("%s: %s is gone\n%s", what, p.name, p.tail())
		case <-ctx.Done():
			b.Fatalf("%s: not after %v: %v\n%s", what, limit, err, p.tail())
		case <-tick.C:
		}
	}
}

// run runs a command to its end and returns what it printed.
func run(b testing.TB, program string, args ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var out, warnings bytes.Buffer // Open vSwitch's programs warn of a busy machine while they write
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &warnings
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, &out, &warnings)
	}
	return out.String()
}
