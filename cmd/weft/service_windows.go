package main

import (
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

// serviceTime bounds the wait for a state of the service.
const serviceTime = 45 * time.Second

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
	verb := func(use, short string, run func(*mgr.Service) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			return withService(run)
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
				if err := startService(s); err != nil || patience == 0 {
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
		verb("stop", "Stop the service and wait until it has ended", stopService),
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

func uninstallService(s *mgr.Service) error {
	if err := stopService(s); err != nil {
		return err
	}
	if err := s.Delete(); err != nil {
		return fmt.Errorf("remove service %s: %w", serviceName, err)
	}
	_ = eventlog.Remove(serviceName) // what the log holds stays readable without
	return nil
}

func startService(s *mgr.Service) error {
	if err := s.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		return fmt.Errorf("start service %s: %w", serviceName, err)
	}
	return awaitState(s, svc.Running)
}

func stopService(s *mgr.Service) error {
	status, err := s.Query()
	if err != nil {
		return fmt.Errorf("ask for the state of service %s: %w", serviceName, err)
	}
	if status.State == svc.Stopped {
		return nil
	}
	if _, err := s.Control(svc.Stop); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return fmt.Errorf("stop service %s: %w", serviceName, err)
	}
	return awaitState(s, svc.Stopped)
}

func awaitState(s *mgr.Service, want svc.State) error {
	for deadline := time.Now().Add(serviceTime); ; time.Sleep(100 * time.Millisecond) {
		status, err := s.Query()
		if err != nil {
			return fmt.Errorf("ask for the state of service %s: %w", serviceName, err)
		}
		switch {
		case status.State == want:
			return nil
		case want == svc.Running && status.State == svc.Stopped:
			return fmt.Errorf("service %s has ended with code %d; see the event log, source %s", serviceName,
				max(status.Win32ExitCode, status.ServiceSpecificExitCode), serviceName)
		case time.Now().After(deadline):
			return fmt.Errorf("service %s is %s after %v", serviceName, stateNames[status.State], serviceTime)
		}
	}
}

var stateNames = map[svc.State]string{
	svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping", svc.Running: "running",
	svc.ContinuePending: "continuing", svc.PausePending: "pausing", svc.Paused: "paused",
}

func serviceStatus(cmd *cobra.Command, s *mgr.Service) error {
	status, err := s.Query()
	if err != nil {
		return fmt.Errorf("ask for the state of service %s: %w", serviceName, err)
	}
	fmt.Fprintln(cmd.OutOrStdout(), stateNames[status.State])
	if status.State != svc.Running {
		return &exitError{code: notRunning}
	}
	return nil
}
