package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// A component that ran this long has earned a quick restart again.
	settled      = 10 * time.Second
	readyTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// Supervisor keeps a machine's components running.
type Supervisor struct {
	spec       *Spec
	components map[string]*component
	reboot     chan struct{}
}

// component's fields below mu are guarded by it; changed is closed and replaced at each change.
type component struct {
	Component
	machine *Spec
	// reboot has the machine start anew, off has it end for good.
	reboot, off func() error

	mu      sync.Mutex
	changed chan struct{}
	status  ComponentStatus
	process *os.Process
	// starts counts how often the component has come to serve, so that a restart can be awaited.
	starts  int
	orderly bool // the end of this run is wanted: no backoff, not an accident
	stopped bool // it is not started again until it is told to
}

// NewSupervisor makes a supervisor; nothing runs before [Supervisor.Run].
func NewSupervisor(spec *Spec) *Supervisor {
	s := &Supervisor{spec: spec, components: map[string]*component{}, reboot: make(chan struct{}, 1)}
	for _, c := range spec.Components {
		s.components[c.Name] = &component{Component: c, machine: spec, reboot: s.Reboot, off: s.Off,
			changed: make(chan struct{}),
			status:  ComponentStatus{Name: c.Name, State: StateWaiting, Since: time.Now()}}
	}
	return s
}

// Run starts all components and keeps them running until ctx ends.
func (s *Supervisor) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range s.components {
		all.Go(func() { c.keepRunning(ctx) })
	}
	all.Wait()
}

// Status is a snapshot in the order of the spec.
func (s *Supervisor) Status() Status {
	status := Status{Machine: s.spec.Name}
	for _, c := range s.spec.Components {
		status.Components = append(status.Components, s.components[c.Name].snapshot())
	}
	return status
}

func (s *Supervisor) find(name string) (*component, error) {
	if c := s.components[name]; c != nil {
		return c, nil
	}
	var names []string
	for _, c := range s.spec.Components {
		names = append(names, c.Name)
	}
	return nil, fmt.Errorf("%s has no component %q; it has %s", s.spec.Name, name, strings.Join(names, ", "))
}

// Kill sends SIGKILL to the component's process, which is then started again like after any other
// accident.
func (s *Supervisor) Kill(name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	process, status := c.process, c.status
	c.mu.Unlock()
	if err := c.unlessDone(status); err != nil {
		return err
	}
	if process == nil {
		return fmt.Errorf("%s on %s does not run: it is %s (%s)", name, s.spec.Name, status.State, status.Detail)
	}
	return process.Kill()
}

// Stop ends the component in its orderly way. It stays so until [Supervisor.Restart].
func (s *Supervisor) Stop(ctx context.Context, name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	if c.Vital {
		return fmt.Errorf("%s is all of %s: `weftlab off %s` ends it", name, s.spec.Name, s.spec.Name)
	}
	c.mu.Lock()
	process, status := c.process, c.status
	if process != nil {
		c.stopped, c.orderly = true, true
	}
	c.mu.Unlock()
	if err := c.unlessDone(status); err != nil {
		return err
	}
	if process == nil {
		return fmt.Errorf("%s on %s does not run: it is %s (%s)", name, s.spec.Name, status.State, status.Detail)
	}
	if err := c.stop(ctx, process); err != nil {
		return err
	}
	return c.await(ctx, func() bool { return c.status.State == StateStopped })
}

// Restart ends the component in its orderly way, if it runs, and returns when it serves again.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	c, err := s.find(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	process, starts, status := c.process, c.starts, c.status
	c.orderly = process != nil
	c.mu.Unlock()
	if err := c.unlessDone(status); err != nil {
		return err
	}
	if status.State == StateStopped {
		c.set(StateWaiting, "", func() { c.stopped = false })
	}
	if process != nil {
		if err := c.stop(ctx, process); err != nil {
			return err
		}
		if c.Vital { // nothing of this machine sees it serve again
			return nil
		}
	}
	return c.await(ctx, func() bool { return c.starts > starts })
}

// errReboot ends the machine's init, and with it all its processes.
var errReboot = errors.New("the machine starts anew")

// Reboot makes [Supervisor.awaitReboot] return, after the answer has been given.
func (s *Supervisor) Reboot() error {
	if err := os.WriteFile(rebootFile(s.spec.LabDir, s.spec.Name), nil, 0o644); err != nil {
		return err
	}
	select {
	case s.reboot <- struct{}{}:
	default: // it is under way
	}
	return nil
}

// Off is Reboot, except for the machine's start.
func (s *Supervisor) Off() error {
	if err := os.WriteFile(offFile(s.spec.LabDir, s.spec.Name), nil, 0o644); err != nil {
		return err
	}
	return s.Reboot()
}

// rebootDelay lets whoever asked have the answer.
const rebootDelay = 50 * time.Millisecond

func (s *Supervisor) awaitReboot(ctx context.Context) error {
	select {
	case <-s.reboot:
		time.Sleep(rebootDelay)
		return errReboot
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unlessDone refuses to end what has ended for good.
func (c *component) unlessDone(status ComponentStatus) error {
	if status.State != StateDone {
		return nil
	}
	return fmt.Errorf("%s on %s runs once, when the machine starts, and was done at %s: there is no process to end",
		c.Name, c.machine.Name, status.Since.Format(time.TimeOnly))
}

func (c *component) stop(ctx context.Context, process *os.Process) error {
	if len(c.Stop) == 0 || c.command(ctx, c.Stop) != nil {
		if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("end %s on %s: %w", c.Name, c.machine.Name, err)
		}
	}
	deadline, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := c.await(deadline, func() bool { return c.process != process }); err != nil {
		// As systemd would. kube-apiserver for one waits for watchers that never leave.
		if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill %s on %s, which did not end in %s: %w", c.Name, c.machine.Name, stopTimeout, err)
		}
	}
	return nil
}

// await returns when condition, called with the component locked, holds.
func (c *component) await(ctx context.Context, condition func() bool) error {
	for {
		c.mu.Lock()
		ok, changed, status := condition(), c.changed, c.status
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s on %s is still %s (%s)", c.Name, c.machine.Name, status.State, status.Detail)
		}
	}
}

func (c *component) snapshot() ComponentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// set changes the component's state under its lock and wakes whoever awaits a change.
func (c *component) set(state, detail string, also ...func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.State, c.status.Detail, c.status.Since = state, detail, time.Now()
	for _, f := range also {
		f()
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *component) keepRunning(ctx context.Context) {
	backoff := firstBackoff
	for ctx.Err() == nil {
		started := time.Now()
		err := c.runOnce(ctx)
		if err == nil && c.Once {
			c.set(StateDone, "", func() { c.starts++ })
			return
		}
		c.mu.Lock()
		orderly, served, stopped := c.orderly, c.starts > 0, c.stopped
		c.orderly = false
		c.mu.Unlock()
		if stopped {
			c.set(StateStopped, "")
			if c.await(ctx, func() bool { return !c.stopped }) != nil {
				return // the machine ends
			}
			continue
		}
		if c.Vital && served && c.endMachine(err, orderly) == nil {
			return
		}
		if time.Since(started) > settled {
			backoff = firstBackoff
		}
		wait := backoff
		if orderly {
			wait = 0
		} else {
			backoff = min(backoff*2, lastBackoff)
		}
		c.set(StateBackoff, fmt.Sprint(err), func() { c.status.Restarts++ })
		c.note("%v; started again in %v", err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// endMachine after the end of a vital component.
func (c *component) endMachine(end error, orderly bool) error {
	var status *exec.ExitError
	if !orderly && !errors.As(end, &status) {
		c.note("%v; the machine is off", end)
		return c.off()
	}
	c.note("%v; the machine starts anew", end)
	return c.reboot()
}

// runOnce takes the component from its preconditions to its end. It returns nil only for a Once
// that succeeded.
func (c *component) runOnce(ctx context.Context) error {
	for _, p := range c.WaitFor {
		c.set(StateWaiting, "waits for "+p.String())
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	c.set(StateStarting, "")
	if err := c.runAll(ctx, c.Prepare); err != nil {
		return err
	}
	log, err := c.log()
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.prepared(ctx, c.Command, log)
	cmd.Env = append(cmd.Env, c.Env...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	c.set(StateStarting, "", func() { c.process, c.status.PID = cmd.Process, cmd.Process.Pid })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = c.attend(ctx, cmd.Process, ended)
	c.set(StateBackoff, "", func() { c.process, c.status.PID = nil, 0 })
	return err
}

// attend sees a started process to readiness and then to its end.
func (c *component) attend(ctx context.Context, process *os.Process, ended <-chan error) error {
	if c.Once {
		return <-ended
	}
	readying, cancel := context.WithTimeout(ctx, cmp.Or(c.Patience, readyTimeout))
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- c.becomeReady(readying) }()
	var repeat <-chan time.Time
	for {
		select {
		case err := <-ready:
			if err != nil {
				killed := process.Kill()
				<-ended
				return errors.Join(fmt.Errorf("%s did not become ready: %w", c.Name, err), killed)
			}
			c.set(StateRunning, "", func() { c.starts++ })
			ready = nil
			if c.RepeatEvery > 0 {
				ticker := time.NewTicker(c.RepeatEvery)
				defer ticker.Stop()
				repeat = ticker.C
			}
		case <-repeat:
			if err := c.runAll(ctx, c.Repeat); err != nil {
				c.note("%v; tried again in %v", err, c.RepeatEvery)
			}
		case err := <-ended:
			if err == nil {
				return fmt.Errorf("%s ended", c.Name)
			}
			return fmt.Errorf("%s ended: %w", c.Name, err)
		}
	}
}

func (c *component) becomeReady(ctx context.Context) error {
	if err := c.Ready.wait(ctx); err != nil {
		return err
	}
	return c.runAll(ctx, c.Finish)
}

func (c *component) log() (*os.File, error) {
	return os.OpenFile(LogFile(c.machine.LabDir, c.machine.Name, c.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// note leaves a line of the supervisor's own in the component's log.
func (c *component) note(format string, args ...any) {
	if log, err := c.log(); err == nil {
		fmt.Fprintf(log, "weftlab: %s: %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
		log.Close()
	}
}

func (c *component) runAll(ctx context.Context, commands [][]string) error {
	for _, argv := range commands {
		if err := c.command(ctx, argv); err != nil {
			return err
		}
	}
	return nil
}

// command runs a short command with the component's log as its output.
func (c *component) command(ctx context.Context, argv []string) error {
	log, err := c.log()
	if err != nil {
		return err
	}
	defer log.Close()
	if err := c.prepared(ctx, argv, log).Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

func (c *component) prepared(ctx context.Context, argv []string, out io.Writer) *exec.Cmd {
	return command(ctx, c.machine, argv, out)
}

// command of the machine: its environment, nothing on standard input.
func command(ctx context.Context, spec *Spec, argv []string, out io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = "/"
	return cmd
}
