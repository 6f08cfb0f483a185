//go:build linux

package chassis

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
)

// TestAHostThatVanishesLeavesNoStream: its cable is pulled, so that it says nothing any more. An agent
// that has something to send notices, and so does one that has not.
func TestAHostThatVanishesLeavesNoStream(t *testing.T) {
	for name, chatty := range map[string]bool{"idle": false, "with bytes under way": true} {
		t.Run(name, func(t *testing.T) {
			const near, far = "192.0.2.1", "192.0.2.2"
			sandbox := nodetest.Sandbox(t, "far")
			ip(t, "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", "far")
			defer ip(t, "link", "del", "near0")
			ip(t, "addr", "add", near+"/24", "dev", "near0")
			ip(t, "link", "set", "near0", "up")
			ip(t, "-n", "far", "addr", "add", far+"/24", "dev", "far0")
			ip(t, "-n", "far", "link", "set", "far0", "up")
			ca := newAuthority(t)
			listener, err := net.Listen("tcp", near+":0")
			if err != nil {
				t.Fatal(err)
			}
			bridge := make(chan net.Conn, 1)
			var open atomic.Int32
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() {
				ended <- tunnel.Serve(ctx, listener, tunnel.ServerConfig{
					Credentials: ca.agent(windows),
					Targets: map[tunnel.Target]tunnel.Service{tunnel.OpenFlow: {Peer: tunnel.HostName,
						Open: func(context.Context) (net.Conn, error) {
							ours, theirs := net.Pipe()
							bridge <- theirs
							return ours, nil
						}}},
					Observe: tunnel.Observer{Opened: func(tunnel.Target) { open.Add(1) }, Closed: func(tunnel.Target) {
						open.Add(-1)
					}},
				})
			}()
			defer func() { cancel(); <-ended }()
			var config Config
			ca.useHost(&config, time.Now().Add(time.Hour))
			conn := dialFrom(t, sandbox, listener.Addr().String(), tunnel.Files(config.CA, config.Certificate,
				config.PrivateKey))
			defer conn.Close()
			nodetest.Eventually(t, 10*time.Second, func() error { return wantOpen(&open, 1) })
			ip(t, "-n", "far", "link", "set", "far0", "down")
			begun := time.Now()
			theirs := <-bridge
			defer theirs.Close()
			if chatty {
				go func() {
					for {
						if _, err := theirs.Write([]byte("hello")); err != nil {
							return
						}
						signal.Sleep(ctx, 500*time.Millisecond)
					}
				}()
			}
			nodetest.Eventually(t, 12*time.Second, func() error { return wantOpen(&open, 0) })
			t.Logf("noticed after %v", time.Since(begun).Round(100*time.Millisecond))
		})
	}
}

func ip(tb testing.TB, args ...string) {
	tb.Helper()
	if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		tb.Fatalf("ip %v: %v\n%s", args, err, output)
	}
}

func wantOpen(open *atomic.Int32, want int32) error {
	if now := open.Load(); now != want {
		return fmt.Errorf("%d streams are open, want %d", now, want)
	}
	return nil
}

// dialFrom dials from another network namespace.
func dialFrom(tb testing.TB, sandbox, address string, credentials tunnel.Credentials) net.Conn {
	tb.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		ns, err := netns.GetFromPath(sandbox)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err != nil {
			done <- result{nil, err}
			return
		}
		conn, err := tunnel.Dial(context.Background(), address, tunnel.OpenFlow, credentials, tunnel.AgentName(windows))
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		tb.Fatal(r.err)
	}
	return r.conn
}
