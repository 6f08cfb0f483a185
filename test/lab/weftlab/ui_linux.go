package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/test/lab"
)

func weftCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "weft [--] ARGS...",
		Short: "Run weft as the cluster's administrator: status, trace, flows, policy and others",
		Long: `weft runs weft as the cluster's administrator, in the network of the machine central.

The page of weft ui is served at 127.0.0.1 of this machine. Open the printed address yourself.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := o.open()
			if err != nil {
				return err
			}
			if port, ok := pagePort(args); ok {
				return showPage(cmd.Context(), l, port, args)
			}
			argv, err := l.WeftCommand(args...)
			if err != nil {
				return err
			}
			return become(argv)
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// pagePort says whether weft serves its page when it is given args, and at which port; 0 is a free one. Args that weft
// refuses are left to it.
func pagePort(args []string) (port uint16, serves bool) {
	if len(args) == 0 || args[0] != "ui" {
		return 0, false
	}
	f := pflag.NewFlagSet("ui", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.Uint16Var(&port, "port", 0, "")
	return port, f.Parse(args[1:]) == nil
}

// showPage runs `weft ui` inside the lab, and serves its page at the same port of this machine's loopback: the page
// answers only requests that name its own address.
func showPage(ctx context.Context, l *lab.Lab, port uint16, args []string) error {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopback, port)))
	if err != nil {
		return fmt.Errorf("port: %w; give another one", err)
	}
	defer listener.Close()
	address := listener.Addr().(*net.TCPAddr).AddrPort()
	// Of a flag that is given twice, the last one counts. A browser that weft started would be in the lab's network.
	args = append(args, "--port", strconv.Itoa(int(address.Port())), "--no-open")
	argv, err := l.WeftCommand(args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	page := exec.CommandContext(ctx, argv[0], argv[1:]...)
	page.Stdin, page.Stdout, page.Stderr = os.Stdin, os.Stdout, os.Stderr
	page.Cancel = func() error { return page.Process.Signal(syscall.SIGTERM) }
	page.WaitDelay = 5 * time.Second
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	page.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := page.Start(); err != nil {
		return err
	}
	forwarded := make(chan error, 1)
	go func() {
		defer cancel()
		forwarded <- forward(ctx, listener, func(ctx context.Context) (net.Conn, error) {
			return l.Dial(ctx, "tcp", address.String())
		})
	}()
	err = page.Wait()
	if ctx.Err() != nil {
		err = nil // it was told to end
	}
	cancel()
	return errors.Join(err, <-forwarded)
}

// forward passes connections of listener on to what dial connects to, until ctx is done.
func forward(ctx context.Context, listener net.Listener, dial func(context.Context) (net.Conn, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve the page: %w", err)
		}
		open.Go(func() {
			server, err := dial(ctx)
			if err != nil {
				client.Close()
				fmt.Fprintln(os.Stderr, "weftlab: reach the page:", err)
				return
			}
			_ = tunnel.Join(ctx, client, server, nil) // a browser may go whenever it likes
		})
	}
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
