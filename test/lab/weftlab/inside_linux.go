package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/lab"
)

// become replaces this process, so that input, terminal, signals and exit code are the command's.
func become(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, unix.Exec(path, argv, os.Environ()))
}

func runHere(ctx context.Context, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// passing is a verb whose arguments, from the first one on that is not a flag, or from --, are not
// its own.
func passing(use, short string, args cobra.PositionalArgs, argv func(args []string) ([]string, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(_ *cobra.Command, args []string) error {
			command, err := argv(args)
			if err != nil {
				return err
			}
			return become(command)
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func kubectlCommand(o *options) *cobra.Command {
	return passing("kubectl [--] ARGS...", "Run kubectl as the cluster's administrator", cobra.ArbitraryArgs,
		func(args []string) ([]string, error) {
			l, err := o.open()
			if err != nil {
				return nil, err
			}
			return l.KubectlCommand(args...)
		})
}

// databaseCommand is nbctl or sbctl.
func databaseCommand(o *options, name, database string) *cobra.Command {
	return passing(name+" [--] ARGS...", "Run ovn-"+name+" on the OVN "+database, cobra.ArbitraryArgs,
		func(args []string) ([]string, error) {
			l, err := o.open()
			if err != nil {
				return nil, err
			}
			return l.Enter(lab.Central, append([]string{"ovn-" + name}, args...)...)
		})
}

func execCommand(o *options) *cobra.Command {
	return passing("exec MACHINE [--] COMMAND...", "Run a command inside a machine: its network, processes and files",
		cobra.MinimumNArgs(2),
		func(args []string) ([]string, error) {
			l, err := o.open()
			if err != nil {
				return nil, err
			}
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				return nil, errors.New("exec needs a command, like: weftlab exec l1 -- ip addr")
			}
			return l.Enter(args[0], command...)
		})
}

func controlCommand(o *options) *cobra.Command {
	return passing("control [--] COMMAND...", "Run a command where Ansible runs: ansible-playbook, ssh HOST, kubectl",
		cobra.MinimumNArgs(1),
		func(args []string) ([]string, error) {
			l, err := o.open()
			if err != nil {
				return nil, err
			}
			return l.EnterControl(args...)
		})
}

func logsCommand(o *options) *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs COMPONENT [MACHINE]",
		Short: "Show what a component wrote, on all machines that have it or on one",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := o.open()
			if err != nil {
				return err
			}
			machines := l.Machines()
			if len(args) == 2 {
				machines = args[1:]
			}
			var files, known []string
			for _, name := range machines {
				components, err := l.Components(name)
				if err != nil {
					return err
				}
				known = append(known, components...)
				if path := l.LogFile(name, args[0]); slices.Contains(components, args[0]) {
					files = append(files, path)
				}
			}
			if len(files) == 0 {
				slices.Sort(known)
				return fmt.Errorf("no component %q on %s; there are %s", args[0], strings.Join(machines, ", "),
					strings.Join(slices.Compact(known), ", "))
			}
			argv := []string{"tail", "-n", "+1"}
			if lines > 0 {
				argv = []string{"tail", "-n", fmt.Sprint(lines)}
			}
			if follow {
				argv = append(argv, "-F")
			}
			return become(append(argv, files...))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as the logs grow")
	cmd.Flags().IntVarP(&lines, "lines", "n", 0, "only the last ones")
	return cmd
}

const restartTimeout = 2 * time.Minute

func restartCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "restart MACHINE COMPONENT",
		Short: "End a component in its orderly way, and return when it serves again",
		Long: `restart ends a component as its own tools would (SIGTERM; ovn-controller keeps its flows), starts it
again and returns when it serves. weftlab status lists machines and components.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			machine, err := o.machine(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), restartTimeout)
			defer cancel()
			return machine.Restart(ctx, args[1])
		},
	}
}

func stopCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "stop MACHINE COMPONENT",
		Short: "End a component in its orderly way; weftlab restart starts it again",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			machine, err := o.machine(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), restartTimeout)
			defer cancel()
			return machine.Stop(ctx, args[1])
		},
	}
}

func killCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "kill MACHINE COMPONENT",
		Short: "Send SIGKILL to a component; it is started again after a moment",
		Long: `kill sends SIGKILL to a component's process and returns at once. The machine starts it again 0.2 s later,
as an init system would, and waits longer each time that it ends soon.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			machine, err := o.machine(args[0])
			if err != nil {
				return err
			}
			return machine.Kill(cmd.Context(), args[1])
		},
	}
}
