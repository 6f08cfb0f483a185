package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/test/lab"
	"github.com/weftnet/weft/test/lab/hcs"
	"github.com/weftnet/weft/test/lab/ofctl"
	"github.com/weftnet/weft/test/pktmon"
)

// windowsRoles are hidden commands that run on the lab's Windows nodes. The first argument of
// hcs-… is the HNS emulator's control socket.
func windowsRoles() []*cobra.Command {
	role := func(name string, least int, run func(ctx context.Context, args []string) error) *cobra.Command {
		return &cobra.Command{Use: name, Hidden: true, Args: cobra.MinimumNArgs(least), DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }}
	}
	return []*cobra.Command{
		role("hcs-cni", 2, func(ctx context.Context, args []string) error {
			plugin := hcs.Plugin{Namespaces: hcs.HNS{Socket: args[0]}, Command: args[1:],
				Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
			if code := plugin.Run(ctx, os.Environ()); code != 0 {
				os.Exit(code) // the reason is on standard output
			}
			return nil
		}),
		role("hcs-runc", 2, func(ctx context.Context, args []string) error {
			if err := hcs.BeforeRunc(ctx, hcs.HNS{Socket: args[0]}, hcs.Bundles, args[2:]); err != nil {
				return err
			}
			return become(args[1:])
		}),
		role("ofctl-relay", 0, func(ctx context.Context, _ []string) error {
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ofctl.Address)
			if err != nil {
				return err
			}
			return ofctl.Serve(ctx, listener, "ovs-ofctl")
		}),
		role("pktmon", 0, func(ctx context.Context, _ []string) error {
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", pktmon.Address)
			if err != nil {
				return err
			}
			return pktmon.Serve(ctx, listener, pktmon.NewMonitor(pktmon.Links{}))
		}),
		role("relay", 2, func(ctx context.Context, args []string) error { return relay(ctx, args[0], args[1]) }),
	}
}

// relay passes each connection to a TCP address on to the unix socket whose path fits the pattern
// then: a control socket has its process's number in its name.
func relay(ctx context.Context, address, pattern string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := pass(ctx, conn, pattern); err != nil {
				slog.Error("relay", "to", pattern, "err", err)
			}
		}()
	}
}

func pass(ctx context.Context, client net.Conn, pattern string) error {
	server, err := dialFirst(ctx, pattern)
	if err != nil {
		return err
	}
	defer server.Close()
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, ends := range [][2]net.Conn{{server, client}, {client, server}} {
		both.Go(func() {
			_, errs[i] = io.Copy(ends[0], ends[1])
			ends[0].(interface{ CloseWrite() error }).CloseWrite() //nolint:errcheck // the other way shows it
		})
	}
	both.Wait()
	return errors.Join(errs...)
}

// dialFirst connects to the first socket that answers. One whose process was killed is there and does not.
func dialFirst(ctx context.Context, pattern string) (conn net.Conn, err error) {
	sockets, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("there is no %s", pattern)
	for _, socket := range sockets {
		if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", socket); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func hnsCommand(o *options) *cobra.Command {
	return emulatorCommand(o, "hns", "Look at a Windows node's emulated HNS, or break it", lab.EmulatedWindows.HNSCommand)
}

func hypervCommand(o *options) *cobra.Command {
	return emulatorCommand(o, "hyperv", "Look at a Windows node's emulated Hyper-V extension, or break it",
		lab.EmulatedWindows.HyperVCommand)
}

// emulatedWindows of a node of the lab that is up.
func (o *options) emulatedWindows(node string) (lab.EmulatedWindows, error) {
	l, err := o.open()
	if err != nil {
		return lab.EmulatedWindows{}, err
	}
	return l.EmulatedWindows(node)
}

func emulatorCommand(o *options, name, short string, of func(lab.EmulatedWindows, ...string) ([]string,
	error)) *cobra.Command {
	return passing(name+" NODE [--] ARGS...", short, cobra.MinimumNArgs(2), func(args []string) ([]string, error) {
		windows, err := o.emulatedWindows(args[0])
		if err != nil {
			return nil, err
		}
		rest := args[1:]
		if rest[0] == "--" {
			rest = rest[1:]
		}
		return of(windows, rest...)
	})
}

func clockCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clock NODE OFFSET",
		Short: "Put the clock of a Windows node's programs off, by 2h or -30m; 0s puts it right",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			offset, err := time.ParseDuration(args[1])
			if err != nil {
				return fmt.Errorf("OFFSET %q: a duration is wanted, like 2h or -30m", args[1])
			}
			windows, err := o.emulatedWindows(args[0])
			if err != nil {
				return err
			}
			return windows.SetClock(offset)
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}
