package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/spf13/cobra"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node"
	"github.com/weftnet/weft/node/nodeconfig"
)

// What the service control manager does when the agent ends without having been told to: the same as
// systemd's Restart=always with a growing pause. A day without failure begins anew.
var recovery = []mgr.RecoveryAction{
	{Type: mgr.ServiceRestart, Delay: 5 * time.Second},
	{Type: mgr.ServiceRestart, Delay: 10 * time.Second},
	{Type: mgr.ServiceRestart, Delay: 30 * time.Second},
}

const recoveryReset = 24 * 60 * 60 // seconds

// Bounds of the waits for a state of the service. An agent that is told to stop first ends what it does to the host's
// adapter: a call of HNS alone may take a minute, and to give the adapter back some 400 s.
const (
	startTime = 45 * time.Second
	stopTime  = 10 * time.Minute
)

// stopNotice is after how long a person is told what a stop waits for.
const stopNotice = 20 * time.Second

// servicePoll is how often the service control manager is asked.
const servicePoll = 100 * time.Millisecond

func serviceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "service", Short: "Install and run `weft node` as a Windows service", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	install := &cobra.Command{
		Use:   "install [flags] [-- FLAGS OF weft node]",
		Short: "Install the service, or change it; it starts with Windows",
		Example: `  weft service install -- --config C:\ProgramData\weft\weft.yaml
  weft service install --depends hns,ovsdb-server -- --ovn-southbound ssl:192.0.2.1:6642 --encap-address 192.0.2.10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			depends, err := cmd.Flags().GetStringSlice("depends")
			if err != nil {
				return err
			}
			cmd.SilenceUsage = true
			return installService(args, depends)
		},
	}
	installFlags(install.Flags())
	verb := func(use, short string, run func(context.Context, *mgr.Service) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			return withService(func(s *mgr.Service) error { return run(cmd.Context(), s) })
		}}
	}
	start := &cobra.Command{
		Use: "start", Short: "Start the service and wait until it runs, or until its node is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			patience, err := cmd.Flags().GetDuration("ready")
			if err != nil {
				return err
			}
			cmd.SilenceUsage = true
			return withService(func(s *mgr.Service) error {
				if err := startService(cmd.Context(), s); err != nil || patience == 0 {
					return err
				}
				return awaitReady(cmd.Context(), s, patience)
			})
		},
	}
	startFlags(start.Flags())
	status := &cobra.Command{Use: "status", Short: "Print the service's state", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			return withService(func(s *mgr.Service) error { return serviceStatus(cmd, s) })
		}}
	status.Long = status.Short + "."
	endsWith(status, statusExits...)
	cmd.AddCommand(install, start,
		verb("uninstall", "Stop the service and remove it", uninstallService),
		verb("stop", "Stop the service and wait until it has ended", func(ctx context.Context, s *mgr.Service) error {
			return stopService(ctx, s)
		}),
		status)
	return cmd
}

// checkArguments refuses flags that `weft node` would not start with.
func checkArguments(args []string) (nodeconfig.Config, error) {
	if i := slices.IndexFunc(args, func(a string) bool {
		return a == "--service" || strings.HasPrefix(a, "--service=")
	}); i >= 0 {
		return nodeconfig.Config{}, fmt.Errorf("%s goes without saying", args[i])
	}
	cmd := nodeCommand()
	if err := cmd.ParseFlags(args); err != nil {
		return nodeconfig.Config{}, fmt.Errorf("flags of weft node: %w", err)
	}
	if rest := cmd.Flags().Args(); len(rest) > 0 {
		return nodeconfig.Config{}, fmt.Errorf("flags of weft node: %q is none", rest[0])
	}
	settings, err := loadSettings(cmd)
	if err != nil {
		return nodeconfig.Config{}, err
	}
	config, err := nodeConfig(settings)
	if err != nil {
		return nodeconfig.Config{}, fmt.Errorf("configuration:\n%w", err)
	}
	return config, nil
}

func installService(args, depends []string) error {
	agent, err := checkArguments(args)
	if err != nil {
		return err
	}
	// Now and not only at its start: the keys that are put there meanwhile must be nobody else's.
	if err := node.SecureFolder(agent.StateDir); err != nil {
		return fmt.Errorf("state-dir: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args = append([]string{"node", "--service"}, args...)
	config := mgr.Config{
		ServiceType: windows.SERVICE_WIN32_OWN_PROCESS, StartType: mgr.StartAutomatic, ErrorControl: mgr.ErrorNormal,
		DisplayName: "Weft node agent", Description: "Attaches pods to the OVN network of the cluster: HNS, Open vSwitch " +
			"and the CNI plugin.",
		Dependencies: depends, BinaryPathName: commandLine(filepath.Clean(program), args),
	}
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connect to the service control manager: %w; run this as Administrator", err)
	}
	defer manager.Disconnect()
	s, err := manager.OpenService(serviceName)
	switch {
	case err == nil:
		err = known(s.UpdateConfig(config)) // what Wine does not know comes last
	case errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST):
		s, err = manager.CreateService(serviceName, filepath.Clean(program), config, args...)
	}
	if err != nil {
		return fmt.Errorf("install service %s: %w", serviceName, err)
	}
	defer s.Close()
	if err := s.SetRecoveryActions(recovery, recoveryReset); err != nil {
		return fmt.Errorf("set the recovery actions of service %s: %w", serviceName, err)
	}
	if err := known(s.SetRecoveryActionsOnNonCrashFailures(true)); err != nil {
		return fmt.Errorf("set the recovery actions of service %s: %w", serviceName, err)
	}
	if err := known(startLate(s)); err != nil {
		return fmt.Errorf("delay the start of service %s: %w", serviceName, err)
	}
	_ = eventlog.Remove(serviceName) // there may be none; a former one may be of another version
	if err := eventlog.InstallAsEventCreate(serviceName, eventlog.Info|eventlog.Warning|eventlog.Error); err != nil {
		return fmt.Errorf("install %s as a source of the event log: %w", serviceName, err)
	}
	return nil
}

// startLate has Windows start the service after those that start with it.
func startLate(s *mgr.Service) error {
	delayed := windows.SERVICE_DELAYED_AUTO_START_INFO{IsDelayedAutoStartUp: 1}
	return windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO,
		(*byte)(unsafe.Pointer(&delayed)))
}

// known passes over settings that a service control manager does not know. Wine's is one.
func known(err error) error {
	if errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return nil
	}
	return err
}

// commandLine quotes a program and its arguments as Windows' own programs take them apart.
func commandLine(program string, args []string) string {
	quoted := []string{syscall.EscapeArg(program)}
	for _, arg := range args {
		quoted = append(quoted, syscall.EscapeArg(arg))
	}
	return strings.Join(quoted, " ")
}

func withService(do func(*mgr.Service) error) error {
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connect to the service control manager: %w; run this as Administrator", err)
	}
	defer manager.Disconnect()
	s, err := manager.OpenService(serviceName)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return fmt.Errorf("service %s is not installed; `weft service install` does that", serviceName)
	}
	if err != nil {
		return fmt.Errorf("open service %s: %w", serviceName, err)
	}
	defer s.Close()
	return do(s)
}

func uninstallService(ctx context.Context, s *mgr.Service) error {
	if err := stopService(ctx, s); err != nil {
		return err
	}
	if err := s.Delete(); err != nil {
		return fmt.Errorf("remove service %s: %w", serviceName, err)
	}
	_ = eventlog.Remove(serviceName) // what the log holds stays readable without
	return nil
}

// controlled is a service as its control manager has it.
type controlled interface {
	Query() (svc.Status, error)
	Start(args ...string) error
	Control(svc.Cmd) (svc.Status, error)
}

// startService starts a service that is still ending once it has ended.
func startService(ctx context.Context, s controlled) error {
	status, err := queryService(s)
	if err != nil {
		return err
	}
	if status.State == svc.StopPending {
		if err := stopService(ctx, s); err != nil {
			return err
		}
	}
	if err := s.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		return fmt.Errorf("start service %s: %w", serviceName, err)
	}
	status, err = pollService(ctx, s, startTime, func(now svc.State) (bool, error) {
		return now == svc.Running || now == svc.Stopped, nil
	})
	if err == nil && status.State == svc.Stopped {
		return fmt.Errorf("service %s has ended with code %d; see the event log, source %s", serviceName,
			max(status.Win32ExitCode, status.ServiceSpecificExitCode), serviceName)
	}
	return err
}

// stopService waits for a stop that is under way, too, whoever has asked for it.
func stopService(ctx context.Context, s controlled) error {
	notice := time.AfterFunc(stopNotice, func() {
		fmt.Fprintf(os.Stderr, "service %s is still stopping, for the agent first ends what it does to the host's adapter: "+
			"it is waited for, up to %v\n", serviceName, stopTime)
	})
	defer notice.Stop()
	_, err := pollService(ctx, s, stopTime, func(now svc.State) (bool, error) {
		if now == svc.Stopped || now == svc.StopPending {
			return now == svc.Stopped, nil
		}
		if _, err := s.Control(svc.Stop); err != nil && !askAgain(err) {
			return false, fmt.Errorf("stop service %s: %w", serviceName, err)
		}
		return false, nil
	})
	return err
}

// askAgain: the service is about to have another state, which says what to do.
func askAgain(err error) bool {
	return errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) || // it has ended
		errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL) // it starts, or is ending
}

// pollService asks for the service's state until done says so, or fails.
func pollService(
	ctx context.Context, s controlled, patience time.Duration, done func(now svc.State) (bool, error),
) (svc.Status, error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		status, err := queryService(s)
		if err != nil {
			return status, err
		}
		ok, err := done(status.State)
		switch {
		case ok || err != nil:
			return status, err
		case ctx.Err() != nil:
			return status, fmt.Errorf("service %s is %s: %w", serviceName, stateNames[status.State], ctx.Err())
		case waiting.Err() != nil:
			return status, fmt.Errorf("service %s is %s after %v; `weft service status` says when that has changed",
				serviceName, stateNames[status.State], patience)
		}
		signal.Sleep(waiting, servicePoll)
	}
}

func queryService(s controlled) (svc.Status, error) {
	status, err := s.Query()
	if err != nil {
		return status, fmt.Errorf("ask for the state of service %s: %w", serviceName, err)
	}
	return status, nil
}

var stateNames = map[svc.State]string{
	svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping", svc.Running: "running",
	svc.ContinuePending: "continuing", svc.PausePending: "pausing", svc.Paused: "paused",
}

func serviceStatus(cmd *cobra.Command, s *mgr.Service) error {
	status, err := queryService(s)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), stateNames[status.State])
	if status.State != svc.Running {
		return &exitError{code: notRunning}
	}
	return nil
}
