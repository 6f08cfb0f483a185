// Command weftlab runs a real Kubernetes cluster with weft on one machine, in namespaces of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/test/lab"
	"github.com/weftnet/weft/test/lab/machine"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weftlab:", err)
		return 1
	}
	return 0
}

// options are those of all verbs.
type options struct{ name, stateDir string }

func (o *options) dir() string {
	if o.stateDir != "" {
		return o.stateDir
	}
	return lab.StateDir(o.name)
}

// validate runs before every verb: what it lets pass, down may remove.
func (o *options) validate(stateDirGiven bool) error {
	if stateDirGiven && o.stateDir == "" {
		return errors.New("--state-dir is empty: name a directory, or leave it out")
	}
	return lab.CheckName(o.name)
}

const defaultName = "weft"

var plainWord = regexp.MustCompile(`^[\w./-]+$`)

// command is how the user calls a verb for this lab.
func (o *options) command(verb string) string {
	words := []string{os.Args[0]}
	if o.name != defaultName {
		words = append(words, "--name", o.name)
	}
	if o.stateDir != "" {
		dir := o.stateDir
		if !plainWord.MatchString(dir) {
			dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
		}
		words = append(words, "--state-dir", dir)
	}
	return strings.Join(append(words, verb), " ")
}

func (o *options) open() (*lab.Lab, error) {
	l, err := lab.Open(o.name, o.dir())
	if errors.Is(err, lab.ErrNotRunning) {
		err = fmt.Errorf("%w; `%s` starts it", err, o.command("up"))
	}
	return l, err
}

// machine of the lab that is up.
func (o *options) machine(name string) (*machine.Client, error) {
	l, err := o.open()
	if err != nil {
		return nil, err
	}
	return l.Machine(name), l.CheckMachine(name)
}

// flagError says in plain words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())
	}
	wanted, known := map[string]string{
		"int":      "a whole number is wanted, like 3",
		"duration": "a duration is wanted, like 90s or 5m",
		"bool":     "true or false is wanted",
	}[invalid.GetFlag().Value.Type()]
	if !known {
		return err
	}
	return fmt.Errorf("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), wanted)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weftlab",
		Short: "A real Kubernetes cluster with weft on one machine",
		Long: `weftlab runs a Kubernetes cluster whose network is weft: nodes with kubelet, containerd, Open vSwitch
and ovn-controller, Windows nodes as far as Linux can be one, and a machine called "central" with etcd, the control plane and OVN's databases.
All of it lives in namespaces of its own and ends with their first process, however that ends.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	o := &options{}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return o.validate(cmd.Flags().Changed("state-dir"))
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&o.name, "name", defaultName,
		"name of the lab; labs of different names run side by side")
	root.PersistentFlags().StringVar(&o.stateDir, "state-dir", "",
		"where the lab keeps its state (default $XDG_STATE_HOME/weftlab/NAME or /var/tmp/weftlab/NAME)")
	root.AddCommand(upCommand(o), downCommand(o), statusCommand(o), imagesCommand(),
		kubectlCommand(o), weftCommand(o), databaseCommand(o, "nbctl", "Northbound"),
		databaseCommand(o, "sbctl", "Southbound"), execCommand(o), controlCommand(o), logsCommand(o),
		restartCommand(o), stopCommand(o), killCommand(o), hnsCommand(o), hypervCommand(o), executedCommand(o),
		clockCommand(o), e2eCommand(o), conformanceCommand(o))
	root.AddCommand(powerCommands(o)...)
	root.AddCommand(roles()...)
	root.AddCommand(windowsRoles()...)
	return root
}

// binDir is the directory of the project's programs: this program's own.
func binDir() (string, error) {
	exe, err := os.Executable()
	return filepath.Dir(exe), err
}

// roles are the hidden commands by which the program runs itself again inside a lab.
func roles() []*cobra.Command {
	role := func(name string, args int, run func(ctx context.Context, args []string) error) *cobra.Command {
		return &cobra.Command{Use: name, Hidden: true, Args: cobra.ExactArgs(args),
			RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }}
	}
	return []*cobra.Command{
		role(machine.CommandLab, 1, func(_ context.Context, args []string) error { return machine.LabInit(args[0]) }),
		role(machine.CommandSupervise, 1, func(ctx context.Context, args []string) error {
			config, err := lab.ReadConfig(args[0])
			if err != nil {
				return err
			}
			return machine.Supervise(ctx, args[0], config.Machines())
		}),
		role(machine.CommandInit, 2, func(_ context.Context, args []string) error { return machine.Init(args[0], args[1]) }),
		role(machine.CommandMount, 3, func(_ context.Context, args []string) error {
			return machine.Mount(args[0], args[1], args[2])
		}),
		role(machine.CommandRun, 2, func(ctx context.Context, args []string) error {
			return machine.Run(ctx, args[0], args[1])
		}),
	}
}
