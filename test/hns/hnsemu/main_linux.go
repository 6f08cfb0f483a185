// Hnsemu is the Windows Host Networking Service for programs under Wine: `hnsemu serve` is the
// service, `hnsemu ctl` is what container runtimes and tests tell it.
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
)

const defaultControl = "/run/hns/control.sock"

func main() {
	root := &cobra.Command{Use: "hnsemu", Short: "The Windows Host Networking Service, emulated", SilenceUsage: true,
		SilenceErrors: true}
	root.AddCommand(serveCommand(), controlCommand())
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hnsemu:", err)
		os.Exit(1)
	}
}

type serveOptions struct {
	rpc, control, state string
	dataPlane           bool
	booted, noDriver    bool
	driver, driverFile  string
	verbose             bool
}

func serveCommand() *cobra.Command {
	var o serveOptions
	command := &cobra.Command{
		Use: "serve", Short: "Be the service until a signal", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), o) },
	}
	flags := command.Flags()
	flags.StringVar(&o.rpc, "rpc", "127.0.0.1:19798", "HOST:PORT where the DLLs call")
	flags.StringVar(&o.control, "control", defaultControl, "unix socket of ctl")
	flags.StringVar(&o.state, "state", "", "file that keeps the objects; without it they end with the process")
	flags.BoolVar(&o.dataPlane, "data-plane", false, "make networks and endpoints real in this network namespace")
	flags.BoolVar(&o.booted, "booted", false, "the machine has booted since the state was written: networks stay, "+
		"endpoints and namespaces are gone")
	flags.BoolVar(&o.noDriver, "no-driver", false, "Open vSwitch's extension is not installed")
	flags.StringVar(&o.driver, "driver", "", "control socket of the emulated Hyper-V extension, which is told how the "+
		"switch is; vNICs whose device it removes are gone then")
	flags.StringVar(&o.driverFile, "driver-file", "", "file from which the emulated Hyper-V extension learns how the "+
		"switch is when it starts; with --driver")
	flags.BoolVar(&o.verbose, "verbose", false, "log every call")
	return command
}

func serve(ctx context.Context, o serveOptions) error {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	config := hns.Config{StateFile: o.state, NoDriver: o.noDriver, Booted: o.booted, Log: log}
	if (o.driver == "") != (o.driverFile == "") {
		return errors.New("--driver and --driver-file go together")
	}
	if o.driver != "" {
		config.Driver = hns.ExtensionEmulator{Control: o.driver, File: o.driverFile}
	}
	var host hns.Host
	var plane *hns.Linux
	if o.dataPlane {
		var err error
		if plane, err = hns.NewLinux(log); err != nil {
			return err
		}
		plane.WMI = o.driver != ""
		config.DataPlane, host = plane, plane.Host()
	}
	service, err := hns.New(config)
	if err != nil {
		return err
	}
	rpc, err := net.Listen("tcp", o.rpc)
	if err != nil {
		return fmt.Errorf("listen for the DLLs: %w", err)
	}
	defer rpc.Close()
	control, err := listenControl(o.control)
	if err != nil {
		return err
	}
	defer control.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := []func() error{
		func() error { return hns.ServeRPC(ctx, rpc, service, host) },
		func() error { return hns.ServeControl(ctx, control, service) },
	}
	if plane != nil {
		ends = append(ends, func() error { return plane.Run(ctx) })
	}
	errs := make(chan error, len(ends))
	for _, run := range ends {
		go func() {
			defer cancel()
			errs <- run()
		}()
	}
	log.Info("serving", "rpc", o.rpc, "control", o.control, "data-plane", o.dataPlane)
	var all []error
	for range ends {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// listenControl takes the place of a process that has died and left its socket.
func listenControl(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listen on %s: another emulator does", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for ctl: %w", err)
	}
	return l, nil
}

func controlCommand() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use: "ctl VERB ARGS", Short: "Tell the service something", Args: cobra.MinimumNArgs(1),
		Long: "Verbs:\n" + hns.Usage(),
		RunE: func(c *cobra.Command, words []string) error {
			text, err := hns.Tell(c.Context(), path, words)
			if text != "" {
				fmt.Println(text)
			}
			return err
		},
	}
	command.Flags().StringVar(&path, "control", defaultControl, "unix socket of the service")
	command.Flags().SetInterspersed(false) // what follows the verb is the verb's
	return command
}
