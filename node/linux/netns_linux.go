package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/platform"
)

// openSandbox opens a network namespace by path; [platform.ErrNoSandbox] if it is gone. A file without a
// namespace mounted on it is what remains of one after a reboot.
func openSandbox(path string) (netns.NsHandle, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return netns.None(), fmt.Errorf("network namespace %s: %w", path, platform.ErrNoSandbox)
	}
	if err != nil {
		return netns.None(), fmt.Errorf("open network namespace %s: %w", path, err)
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(fd, &stat); err != nil {
		unix.Close(fd)
		return netns.None(), fmt.Errorf("network namespace %s: %w", path, err)
	}
	if int64(stat.Type) != unix.NSFS_MAGIC && int64(stat.Type) != unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return netns.None(), fmt.Errorf("network namespace %s is only a file: %w", path, platform.ErrNoSandbox)
	}
	return netns.NsHandle(fd), nil
}

// InSandbox runs do on a thread that is inside the network namespace.
func (l *Platform) InSandbox(_ context.Context, path string, do func() error) error {
	sandbox, err := openSandbox(path)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	return onThreadOf(l.home, sandbox, do)
}

// inSandbox runs do on a thread that is inside the namespace, with a netlink handle of it.
func inSandbox(home, sandbox netns.NsHandle, do func(*netlink.Handle) error) error {
	return onThreadOf(home, sandbox, func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("netlink socket in network namespace: %w", err)
		}
		defer handle.Close()
		return do(handle)
	})
}

// onThreadOf runs do on a thread of its own that is inside the namespace. If the thread cannot
// come back to home it is never used again.
func onThreadOf(home, sandbox netns.NsHandle, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(sandbox); err != nil {
			runtime.UnlockOSThread() // it never left
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		err := do()
		if back := netns.Set(home); back == nil {
			runtime.UnlockOSThread()
		} // otherwise the thread ends with this goroutine, still locked to it
		done <- err
	}()
	return <-done
}
