//go:build linux

// Package nodetest gives tests a node of their own: network, mount and process namespaces that
// nothing outlives, and in them a whole OVN with the userspace datapath.
package nodetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const insideMark = "WEFT_TEST_NAMESPACES"

// Main runs a package's tests in namespaces of their own: call it from TestMain. Whatever the
// tests start or make is gone when they end, even by SIGKILL.
func Main(m *testing.M) {
	if os.Getenv(insideMark) == "" {
		os.Exit(again(os.Stdout, os.Stderr, os.Args[1:]...))
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "nodetest: prepare the namespaces:", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// again runs this program anew inside namespaces of its own, and returns its exit code.
func again(stdout, stderr io.Writer, arguments ...string) int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(stderr, "nodetest: these tests make network namespaces: run them as root")
		return 2
	}
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	command := exec.Command("/proc/self/exe", arguments...)
	command.Env = append(os.Environ(), insideMark+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, stdout, stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(stderr, "nodetest: start the tests in namespaces of their own:", err)
		return 2
	}
	return 0
}

func prepare() error {
	for _, mount := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
	} {
		if err := unix.Mount(mount.source, mount.target, mount.kind, mount.flags, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", mount.source, mount.target, err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	// Package net finds out once whether there is IPv6, by the loopback of whichever namespace it is first
	// used in. A sandbox's is down: from then on all servers would be IPv4's.
	probe, err := net.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	return probe.Close()
}

// Sandbox makes a network namespace as a container runtime does, and returns its path. It goes
// with the test.
func Sandbox(tb testing.TB, name string) string {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		tb.Fatal(err)
	}
	defer home.Close()
	ns, err := netns.NewNamed(name)
	if err != nil {
		tb.Fatalf("make network namespace %s: %v", name, err)
	}
	ns.Close()
	if err := netns.Set(home); err != nil {
		panic(err) // the thread is lost to the tests
	}
	tb.Cleanup(func() { RemoveSandbox(tb, name) })
	return "/run/netns/" + name
}

// Inside runs do on a thread that is in the network namespace of that path. The thread comes back: a daemon that
// it has started would end with it.
func Inside(path string, do func() error) error {
	there, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer there.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return err
	}
	defer home.Close()
	if err := netns.Set(there); err != nil {
		return err
	}
	defer func() {
		if err := netns.Set(home); err != nil {
			panic(err) // the thread is lost to the tests
		}
	}()
	return do()
}

// RemoveSandbox removes a network namespace and what is plugged in there; one that is gone is fine.
func RemoveSandbox(tb testing.TB, name string) {
	tb.Helper()
	if err := unplug(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Errorf("unplug network namespace %s: %v", name, err)
	}
	if err := netns.DeleteNamed(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Errorf("remove network namespace %s: %v", name, err)
	}
}

// unplug removes the veth pairs of a network namespace. A connection whose end was lost keeps the namespace
// for minutes after its name is gone, and the pairs with it.
func unplug(name string) error {
	ns, err := netns.GetFromName(name)
	if err != nil {
		return err
	}
	defer ns.Close()
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer inside.Close()
	links, err := inside.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		if link.Type() == "veth" {
			if err := inside.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
				return err
			}
		}
	}
	return nil
}
