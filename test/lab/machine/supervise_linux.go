package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supervise starts the machines of a lab, each again when it has ended, until ctx ends. It runs in
// the lab's namespaces.
func Supervise(ctx context.Context, dir string, machines []string) error {
	// The bridges carry the machines' traffic, they take no part in it.
	for _, scope := range []string{"all", "default"} {
		if err := sysctl("net.ipv6.conf." + scope + ".disable_ipv6=1"); err != nil {
			return err
		}
	}
	// One bridge serves several machines: all are wired one after the other.
	var wiring sync.Mutex
	var all sync.WaitGroup
	for _, name := range machines {
		all.Go(func() {
			for ctx.Err() == nil {
				err := startMachine(ctx, &wiring, dir, name)
				if ctx.Err() == nil && rebooted(dir, name) {
					slog.Info("machine starts anew", "machine", name)
					awaitOn(ctx, dir, name)
					continue
				}
				slog.Error("machine ended", "machine", name, "err", err)
				noteEnd(dir, name, err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// rebooted tells whether the machine ended because it was asked to start anew, and removes what does
// not outlive a machine.
func rebooted(dir, name string) bool {
	if err := os.Remove(rebootFile(dir, name)); err != nil {
		return false
	}
	if err := removeMachineCgroups(dir, name); err != nil {
		slog.Error("remove the cgroups of a machine that starts anew", "machine", name, "err", err)
	}
	return true
}

// awaitOn returns when the machine is not to be off, any more.
func awaitOn(ctx context.Context, dir, name string) {
	for IsOff(dir, name) && ctx.Err() == nil {
		if err := os.Remove(PIDFile(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			slog.Error("note that a machine is off", "machine", name, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(powerPoll):
		}
	}
}

// noteEnd lets whoever waits for the machine know.
func noteEnd(dir, name string, end error) {
	if err := os.WriteFile(EndFile(dir, name), []byte(fmt.Sprint(end)), 0o644); err != nil {
		slog.Error("write how the machine ended", "machine", name, "err", err)
	}
}

// startMachine returns when the machine has ended.
func startMachine(ctx context.Context, wiring *sync.Mutex, dir, name string) error {
	spec, err := Read(dir, name)
	if err != nil {
		return err
	}
	released, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close()
	mounted, mount, err := os.Pipe()
	if err != nil {
		released.Close()
		return err
	}
	defer mounted.Close()
	cmd := exec.CommandContext(ctx, self, CommandInit, dir, name)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{released, mount} // become releaseFD and mountedFD
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true,
	}
	err = cmd.Start()
	released.Close()
	mount.Close()
	if err != nil {
		return fmt.Errorf("start machine %s: %w", name, err)
	}
	pid := cmd.Process.Pid
	err = os.WriteFile(PIDFile(dir, name), []byte(strconv.Itoa(pid)), 0o644)
	if err == nil {
		if _, end := mounted.Read(make([]byte, 1)); end != nil {
			return fmt.Errorf("machine %s did not get as far as its interfaces: %w", name, cmd.Wait())
		}
		wiring.Lock()
		err = wire(spec, pid)
		wiring.Unlock()
	}
	if err == nil {
		_, err = release.Write([]byte{1})
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return cmd.Wait()
}
