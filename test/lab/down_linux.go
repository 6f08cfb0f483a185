package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/lab/machine"
)

// ErrForeign is that of a directory which is not the lab's to remove.
var ErrForeign = errors.New("is not a lab's state directory; nothing in it was touched")

// checkOwn reports ErrForeign unless nothing is lost when dir is removed: it does not exist, or is
// empty, or holds what only a lab writes.
func checkOwn(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s %w", dir, ErrForeign)
	case err != nil:
		return err
	}
	if config, err := ReadConfig(dir); err == nil && config.Validate() == nil {
		return nil
	}
	for _, e := range entries {
		// The lock comes before the configuration: a start that was interrupted leaves it alone.
		if info, err := e.Info(); err != nil || e.Name() != lockFile || info.Size() > 0 {
			return fmt.Errorf("%s %w", dir, ErrForeign)
		}
	}
	return nil
}

// Down ends a lab, if it runs, and removes all that it left, also when it has crashed. With
// keepLogs its state directory keeps logs. Of a directory that is not a lab's, nothing is touched.
func Down(dir string, keepLogs bool) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := checkOwn(dir); err != nil {
		return err
	}
	running, err := isLocked(dir)
	if err != nil {
		return err
	}
	if running {
		if err := killLab(dir); err != nil {
			return err
		}
	}
	if err := removeCgroups(namesDir, dir); err != nil {
		return err
	}
	if keepLogs {
		return removeAllButLogs(dir)
	}
	return os.RemoveAll(dir)
}

// removeCgroups removes those of a lab that has ended. If a lab of its name runs in another directory, they are that
// one's now.
func removeCgroups(names, dir string) error {
	config, err := ReadConfig(dir)
	if err == nil {
		taken, err := isNameTaken(names, config.Name)
		if taken || err != nil {
			return err
		}
	}
	return machine.RemoveCgroups(dir)
}

// removeLeftovers is Down for a lab that is not running. The directory itself stays: it may be the
// one that the caller works in.
func removeLeftovers(dir string) error {
	if err := checkOwn(dir); err != nil {
		return err
	}
	running, err := isLocked(dir)
	if err != nil {
		return err
	}
	if running {
		return fmt.Errorf("a lab is running in %s", dir)
	}
	if err := removeCgroups(namesDir, dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

const killTimeout = 30 * time.Second

// killLab kills the first process of the lab's namespaces and returns when the kernel has ended
// all the others.
func killLab(dir string) error {
	lab, err := readProcesses(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the lab in %s is just starting: try again in a moment", dir)
	}
	if err != nil {
		return err
	}
	pid := lab.pid
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("find the lab's first process %d: %w", pid, err)
	}
	defer unix.Close(process)
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill the lab's first process %d: %w", pid, err)
	}
	for deadline := time.Now().Add(killTimeout); time.Now().Before(deadline); {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}},
			int(time.Until(deadline).Milliseconds())+1)
		if ready > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("the lab's processes did not end in %s after its first one, %d, was killed", killTimeout, pid)
}

// removeAllButLogs leaves what explains a failure.
func removeAllButLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			// Without its configuration the directory would not be known for a lab's.
			if e.Name() != configFile && !strings.HasSuffix(e.Name(), ".log") {
				errs = append(errs, os.Remove(path))
			}
			continue
		}
		below, err := os.ReadDir(path)
		errs = append(errs, err)
		for _, b := range below {
			if b.Name() != "log" {
				errs = append(errs, os.RemoveAll(filepath.Join(path, b.Name())))
			}
		}
	}
	return errors.Join(errs...)
}
