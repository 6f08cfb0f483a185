package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// sandboxDir names, to the process inside, the directory that it shares with the one outside.
const sandboxDir = "WEFT_BENCH_SANDBOX"

// TestMain runs benchmarks in network, mount and process namespaces of their own: servers listen
// on a loopback interface that nobody else has, files lie in memory, and the end of this process
// ends all others, however it comes.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	if dir := os.Getenv(sandboxDir); dir != "" {
		if err := enter(dir); err != nil {
			fmt.Fprintln(os.Stderr, "the benchmark's namespaces:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// outside builds the controller while the network is still there, then runs this program inside.
func outside() (code int, err error) {
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		return 0, err
	}
	// As the Makefile builds it, and always from the tree as it is now.
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "weft"), "./cmd/weft")
	build.Dir, build.Stderr = ovsdbtest.Repository(), os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("go build ./cmd/weft: %w", err)
	}
	// The parent-death signal belongs to the thread that started the child.
	runtime.LockOSThread()
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.Env = append(os.Environ(), sandboxDir+"="+dir)
	self.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	err = self.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	if errors.Is(err, unix.EPERM) {
		return 0, fmt.Errorf("make namespaces for the benchmark: %w; run it as root", err)
	}
	return 0, err
}

func enter(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", filepath.Join(dir, "run"), "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up the loopback interface: %w", err)
	}
	return nil
}

// program finds one of the lab's programs.
func program(b testing.TB, environment, below, name, remedy string) string {
	b.Helper()
	if dir := os.Getenv(environment); dir != "" {
		return filepath.Join(dir, name)
	}
	path := filepath.Join(ovsdbtest.Repository(), below, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		b.Fatalf("%s is neither in %s nor in PATH; run `%s`", name, below, remedy)
	}
	return path
}

func ovnProgram(b testing.TB, name string) string {
	return program(b, "WEFT_OVN_BIN", "bin/lab/ovn/bin", name, "make ovn")
}

func kubernetesProgram(b testing.TB) string {
	return program(b, "WEFT_LAB_BIN", "bin/lab", "hyperkube", "make lab")
}

// runDir makes an empty directory in memory.
func runDir(b testing.TB, name string) string {
	b.Helper()
	dir, err := os.MkdirTemp(filepath.Join(os.Getenv(sandboxDir), "run"), name+"-")
	if err != nil {
		b.Fatal(err)
	}
	return dir
}
