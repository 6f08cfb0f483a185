// Hypervemu is Open vSwitch's extension of the Hyper-V switch for a stock ovs-vswitchd: `hypervemu serve`
// is the driver, `hypervemu ctl` is what tests tell it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/hns"
	"github.com/weftnet/weft/test/hyperv"
)

const (
	defaultSocket  = "/run/hyperv/netlink.sock"
	defaultControl = "/run/hyperv/control.sock"
)

func main() {
	root := &cobra.Command{Use: "hypervemu", Short: "Open vSwitch's Hyper-V extension, emulated", SilenceUsage: true,
		SilenceErrors: true}
	root.AddCommand(serveCommand(), controlCommand())
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hypervemu:", err)
		os.Exit(1)
	}
}

type serveOptions struct {
	socket, control, adapter, faults, record, state string
	verbose                                         bool
}

func serveCommand() *cobra.Command {
	var o serveOptions
	command := &cobra.Command{
		Use: "serve", Short: "Be the driver until a signal", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.socket, "socket", defaultSocket, "unix socket of ovs-vswitchd's netlink sockets, its HYPERV_SOCKET")
	flags.StringVar(&o.control, "control", defaultControl, "unix socket of ctl")
	flags.StringVar(&o.adapter, "adapter", "Ethernet", "network device that is the switch's external port")
	flags.StringVar(&o.faults, "faults", "all", "known faults of the driver that it has, with commas: all, none, or "+
		"names; -NAME takes one out")
	flags.StringVar(&o.record, "record", "", "file to which the names of what packets meet and flows match are added, "+
		"when one comes first; none if empty")
	flags.StringVar(&o.state, "switch", "", "file in which HNS's emulator says how the switch is when the driver "+
		"starts; without it the extension is enabled")
	flags.BoolVar(&o.verbose, "verbose", false, "log every lost frame")
	return command
}

func serve(ctx context.Context, o serveOptions) error {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	faults, err := hyperv.ParseFaults(o.faults)
	if err != nil {
		return fmt.Errorf("--faults: %w", err)
	}
	sockets, err := listen("unixpacket", o.socket)
	if err != nil {
		return err
	}
	defer sockets.Close()
	control, err := listen("unix", o.control)
	if err != nil {
		return err
	}
	defer control.Close()
	config := hyperv.Config{Adapter: o.adapter, Faults: faults, Log: log}
	if o.record != "" {
		record, err := os.OpenFile(o.record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		defer record.Close()
		config.Record = record
	}
	extension := hyperv.New(config)
	defer extension.Close()
	if o.state != "" { // read once the control socket is there: what HNS says from now on waits in it
		state, err := hns.ReadSwitchState(o.state)
		if err != nil {
			return err
		}
		extension.SetVMMS(state.VMMS)
		extension.SetEnabled(state.Extension)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, 2)
	for _, run := range []func() error{
		func() error { return extension.Serve(ctx, sockets) },
		func() error { return hns.ServeControl(ctx, control, extension) },
	} {
		go func() {
			defer cancel()
			errs <- run()
		}()
	}
	log.Info("serving", "socket", o.socket, "control", o.control, "adapter", o.adapter, "faults", o.faults)
	return errors.Join(<-errs, <-errs)
}

// listen takes the place of a process that has died and left its socket.
func listen(network, path string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if conn, err := net.Dial(network, path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listen on %s: another emulator does", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Net: network, Name: path})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

func controlCommand() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use: "ctl VERB [ARGUMENT]", Short: "Tell the driver something", Args: cobra.MinimumNArgs(1),
		Long: "Verbs:\n" + hyperv.Usage(),
		RunE: func(c *cobra.Command, words []string) error {
			text, err := hns.Tell(c.Context(), path, words)
			if text != "" {
				fmt.Println(text)
			}
			return err
		},
	}
	command.Flags().StringVar(&path, "control", defaultControl, "unix socket of the driver")
	command.Flags().SetInterspersed(false) // what follows the verb is the verb's
	return command
}
