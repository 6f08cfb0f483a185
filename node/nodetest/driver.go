//go:build linux

package nodetest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Driver serves a datapath's driver, as test/hyperv emulates one, until the test ends. The environment that it returns
// leads an ovs-vswitchd to it in place of the kernel's.
func Driver(tb testing.TB, serve func(context.Context, *net.UnixListener) error) (environment map[string]string) {
	tb.Helper()
	dir := tb.TempDir()
	library, socket := filepath.Join(dir, "netlink.so"), filepath.Join(dir, "netlink.sock")
	source := filepath.Join(moduleRoot(tb), "test", "hyperv", "shim", "netlink.c")
	if _, err := os.Stat(source); err != nil { // has go's cache of results know of it, too
		tb.Fatal(err)
	}
	build := exec.CommandContext(tb.Context(), "gcc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC",
		"-o", library, source, "-ldl")
	if output, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", source, err, output)
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: socket})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, listener) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return map[string]string{"LD_PRELOAD": library, "HYPERV_SOCKET": socket}
}
