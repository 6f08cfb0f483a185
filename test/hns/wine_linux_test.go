package hns

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/nodetest"
)

// winePrefix overlays the base prefix with one of the test's own, which goes with it.
func winePrefix(t *testing.T) (prefix, home string) {
	t.Helper()
	base, err := filepath.Abs("../../bin/lab/wine/prefix")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(base, "system.reg")); err != nil {
		t.Fatalf("there is no Wine prefix (%v): run make lab", err)
	}
	dir, err := os.MkdirTemp("/run", "wine") // a tmpfs: an overlay does not lie on another
	if err != nil {
		t.Fatal(err)
	}
	prefix, home = filepath.Join(dir, "prefix"), filepath.Join(dir, "home")
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{prefix, home, upper, work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", prefix, "overlay", 0, "lowerdir="+base+",upperdir="+upper+",workdir="+
		work); err != nil {
		t.Fatalf("overlay the Wine prefix: %v", err)
	}
	t.Cleanup(func() {
		end := exec.Command(WineServer, "-k")
		end.Env = WineEnv(prefix, home, "")
		_ = end.Run() // it may have ended by itself
		if err := errors.Join(unix.Unmount(prefix, unix.MNT_DETACH), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return prefix, home
}

// windowsTest builds a package's tests for Windows.
func windowsTest(t *testing.T, pkg string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "test.exe")
	build := exec.Command("go", "test", "-c", "-o", program, pkg)
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of %s for Windows: %v\n%s", pkg, err, output)
	}
	return program
}

// TestTour runs hcsshim and winipcfg, unmodified, under Wine over the emulator.
func TestTour(t *testing.T) {
	program := windowsTest(t, "./tour")
	m := newMachine(t)
	const namespace = "11111111-2222-3333-4444-555555555555"
	control(t, m.service, "namespace", "add", namespace, nodetest.Sandbox(t, "pod"))
	control(t, m.service, "start", namespace)
	address := serveRPC(t, m.service, m.plane.Host())
	prefix, home := winePrefix(t)
	run := func(t *testing.T, only string, more ...string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, WineProgram, program, "-test.v", "-test.run", only)
		command.Env = append(append(WineEnv(prefix, home, address), "HNS_TOUR_ADAPTER=Ethernet", "HNS_TOUR_NAMESPACE="+
			namespace), more...)
		output, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(output), "--- PASS") {
			t.Errorf("under Wine: %v\n%s", err, output)
		}
	}
	run(t, ".")
	t.Run("HNS is stopped", func(t *testing.T) {
		control(t, m.service, "fault", "restart", "60")
		run(t, "TestHNSIsNotRunning", "HNS_TOUR_STOPPED=1")
		control(t, m.service, "fault", "clear")
	})
	state := control(t, m.service, "state")
	if !strings.Contains(state, `"NameServers": "192.0.2.53"`) {
		t.Errorf("the name server that was set is not in the state\n%s", state)
	}
}

func serveRPC(t *testing.T, s *Service, host Host) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeRPC(ctx, l, s, host) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
