// Command weft is every part of Weft but the CNI plugin: each part is a verb.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/version"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		exit = &exitError{failureCode, err}
	}
	if exit.err != nil {
		fmt.Fprintln(os.Stderr, "weft:", exit.err)
	}
	return exit.code
}

// exitError ends the process with a code of its own; with nothing printed where err is nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "weft",
		Short:         "An OVN network for Kubernetes clusters that mix Linux and Windows nodes",
		Version:       version.Version(),
		SilenceErrors: true,
	}
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "kubectl-weft" { // as kubectl runs its plugins
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl weft"}
	}
	root.AddCommand(commands()...)
	return root
}

// userCommands are for people with a kubeconfig, on every system.
func userCommands() []*cobra.Command {
	return []*cobra.Command{statusCommand(), traceCommand(), connectivityCommand(), topologyCommand(), flowsCommand(),
		policyCommand(), sysdumpCommand(), captureCommand(), uiCommand(),
		ovnCommand(api.NorthboundCommand, "  weft nbctl show\n  weft nbctl lr-route-list cluster\n"+
			"  weft nbctl -- --columns=name,addresses find Logical_Switch_Port up=false"),
		ovnCommand(api.SouthboundCommand, "  weft sbctl show\n  weft sbctl lflow-list l1"), versionCommand()}
}

// daemon is a command that runs until it is told to stop: start is handed its settings.
func daemon(cmd *cobra.Command, start func(context.Context, *settings) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.Flags().String("config", "", configUsage)
	cmd.Flags().String("log-level", "info", "least level of the lines in the log: debug, info, warn or error")
	cmd.Flags().String("log-format", logText, "format of the lines in the log: text (key=value) or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true // a wrong value is no question of usage
		return launch(cmd, func(ctx context.Context) error {
			settings, err := loadSettings(cmd)
			if err != nil {
				return err
			}
			if err := setUpLog(settings); err != nil {
				return err
			}
			profiling := settings.boolean("profiling")
			if err := settings.err(); err != nil {
				return err
			}
			if profiling && settings.text("metrics-address") == "" {
				return errors.New("profiling: profiles are served at metrics-address, which is empty; set it, as 127.0.0.1:9641")
			}
			askAPIServers()
			slog.Info("starting", "command", cmd.Name(), "version", version.Version())
			return start(ctx, settings)
		})
	}
	return cmd
}

// setUpLog sends client-go's log the way of ours.
func setUpLog(s *settings) error {
	text, format := s.text("log-level"), s.text("log-format")
	if err := s.err(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("log-level: %w; it is debug, info, warn or error", err)
	}
	if format != logText && format != logJSON {
		return fmt.Errorf("log-format: %q is neither %q nor %q", format, logText, logJSON)
	}
	handler, err := logHandler(s, format, level)
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(handler))
	klog.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	return nil
}
