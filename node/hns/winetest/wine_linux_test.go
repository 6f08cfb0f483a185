package winetest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/hns"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// TestUnderWine is the tests of node/windows that need a Windows machine.
func TestUnderWine(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dependOn(t, filepath.Join(root, "node"), filepath.Join(root, "cni"), filepath.Join(root, "test/hns"))
	rpc, control := emulator(t)
	env := append(hns.WineEnv(prefix(t, root), t.TempDir(), rpc), "WEFT_TEST_CONTROL="+control, "WEFT_TEST_NETNS="+
		compartments(t))
	for _, pkg := range []string{"./node/windows"} {
		program := filepath.Join(t.TempDir(), filepath.Base(pkg)+".test.exe")
		build := exec.Command("go", "test", "-c", "-o", program, pkg)
		// As the programs for Windows are built, from packages that are compiled already.
		build.Dir, build.Env = root, append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the tests of %s for Windows: %v\n%s", pkg, err, output)
		}
		t.Run(filepath.Base(pkg), func(t *testing.T) { run(t, env, program) })
	}
	server := exec.Command(hns.WineServer, "-k")
	server.Env = env
	_ = server.Run() // the prefix's last programs; the process namespace ends with the test anyway
}

// dependOn looks at the sources of what is tested, so that `go test` takes no old result for a new one's.
func dependOn(t *testing.T, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			_, err = os.Stat(path)
			return err
		}))
	}
}

// run runs a package's tests in Windows' form.
func run(t *testing.T, env []string, program string) {
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute) // for what hangs; a busy machine takes more than three
	defer cancel()
	command := exec.CommandContext(ctx, hns.WineProgram, program, "-test.v", "-test.run",
		cmp.Or(os.Getenv("WEFT_TEST_RUN"), "^TestEmulated"))
	command.Env, command.Dir = env, t.TempDir()
	var output strings.Builder
	command.Stdout = io.MultiWriter(&output, t.Output())
	command.Stderr = command.Stdout
	// What Wine leaves running may hold the pipe.
	command.WaitDelay = 5 * time.Second
	if err := command.Run(); err != nil || !strings.Contains(output.String(), "--- PASS: TestEmulated") {
		t.Fatalf("the tests under Wine: %v", err)
	}
}

// emulator serves an HNS whose adapter is "Ethernet" with 172.30.0.3, and its control, a line a verb.
func emulator(t *testing.T) (rpc, control string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	uplink(t)
	plane, err := hns.NewLinux(log)
	if err != nil {
		t.Fatal(err)
	}
	service, err := hns.New(hns.Config{DataPlane: plane, Log: log, StateFile: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	calls, verbs := listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- hns.ServeRPC(ctx, calls, service, plane.Host()) }()
	go func() { ended <- plane.Run(ctx) }()
	go serveControl(verbs, service)
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("the emulator: %v", err)
			}
		}
	})
	return calls.Addr().String(), verbs.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// serveControl answers a line of words with "ok" or what is wrong.
func serveControl(l net.Listener, service *hns.Service) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil {
			_, err = service.Control(strings.Fields(line))
		}
		if err == nil {
			err = errors.New("ok")
		}
		fmt.Fprintf(conn, "%v\n", err)
		conn.Close()
	}
}

// uplink makes the adapter, and the device that Open vSwitch would make for the management port.
func uplink(t *testing.T) {
	t.Helper()
	adapter := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "Ethernet", MTU: 1500}, PeerName: "underlay"}
	must(t, netlink.LinkAdd(adapter))
	for _, name := range []string{"Ethernet", "underlay"} {
		must(t, netlink.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name, Index: index(t, name)}}))
	}
	for _, text := range []string{"172.30.0.3/24", "fd30::3/64"} {
		address, err := netlink.ParseAddr(text)
		must(t, err)
		address.Flags = unix.IFA_F_NODAD
		must(t, netlink.AddrAdd(adapter, address))
	}
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: index(t, "Ethernet"), Gw: net.ParseIP("172.30.0.254"),
		Protocol: unix.RTPROT_STATIC}))
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "weft-mp0"}, Mode: netlink.TUNTAP_MODE_TAP}
	must(t, netlink.LinkAdd(tap))
	must(t, netlink.LinkSetHardwareAddr(tap, net.HardwareAddr{0x0a, 0x58, 10, 244, 1, 2}))
}

func index(t *testing.T, name string) int {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	return link.Attrs().Index
}

// compartments makes network namespaces for pods and returns the paths.
func compartments(t *testing.T) string {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	must(t, err)
	defer home.Close()
	var paths []string
	for i := range 4 {
		name := fmt.Sprintf("pod%d", i)
		space, err := netns.NewNamed(name)
		must(t, err)
		must(t, space.Close())
		paths = append(paths, "/run/netns/"+name)
	}
	must(t, netns.Set(home))
	return strings.Join(paths, ",")
}

// prefix is a Wine prefix of the test's own over the lab's.
func prefix(t *testing.T, root string) string {
	t.Helper()
	base := os.Getenv("WEFT_WINE_PREFIX")
	if base == "" {
		base = filepath.Join(root, "bin/lab/wine/prefix")
	}
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is no Wine prefix: run `make bin/lab/wine/.complete`, or set WEFT_WINE_PREFIX to the folder that " +
			"test/lab/scripts/wine.sh has made")
	}
	scratch := "/run/wine"
	over := filepath.Join(scratch, "prefix")
	for _, folder := range []string{over, filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")} {
		must(t, os.MkdirAll(folder, 0o700))
	}
	must(t, unix.Mount("overlay", over, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", base,
		scratch, scratch)))
	return over
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
