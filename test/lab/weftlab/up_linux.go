package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/test/lab"
)

func upCommand(o *options) *cobra.Command {
	config := lab.Config{}
	var ipv6, dual, keep bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab and wait until its cluster is Ready",
		Long: `up starts a lab in the background and returns when its nodes and its DNS are Ready. A lab of that name
that is up already with the same settings is only waited for. If it does not come up it is taken
down again; its logs stay in the state directory.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ipv6 && dual {
				return errors.New("--ipv6 and --dual exclude each other: --ipv6 is IPv6 alone, --dual is IPv4 and IPv6")
			}
			config.Name, config.Families = o.name, lab.IPv4
			if ipv6 {
				config.Families = lab.IPv6
			}
			if dual {
				config.Families = lab.Dual
			}
			if config.Hosts != "" {
				config.NoWeft = true
				if !cmd.Flags().Changed("linux") {
					config.Linux = 0
				}
			}
			var err error
			if config.Bin, err = binDir(); err != nil {
				return err
			}
			if err := config.Validate(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return up(ctx, o, config, keep)
		},
	}
	f := cmd.Flags()
	f.IntVar(&config.Linux, "linux", 2, "number of Linux nodes")
	f.IntVar(&config.Windows, "windows", 0, "number of Windows nodes: weft.exe under Wine over an emulated HNS")
	f.StringVar(&config.WindowsDatapath, "windows-datapath", lab.DatapathHyperV,
		"Windows nodes' datapath: hyperv (the driver, emulated) or linux (userspace, without some features)")
	f.StringVar(&config.WindowsFaults, "windows-faults", "", "known faults that the emulated driver of Windows nodes "+
		"has, as all,-stale-tuple: all, none, or names of docs/hyperv.md (default all)")
	f.StringVar(&config.Hosts, "hosts", "", "instead of nodes, servers for Ansible: c1,c2,… for centrals, l1,l2,… for "+
		"Linux nodes, each with :RELEASE where it is not bookworm, and +kernel where it has a kernel of its own")
	f.BoolVar(&ipv6, "ipv6", false, "IPv6 only: nodes, pods and Services")
	f.BoolVar(&dual, "dual", false, "both address families, IPv4 first")
	f.StringVar(&config.OVN, "ovn", lab.OVNPrefix, "OVN's programs: prefix (bin/lab/ovn) or system (from PATH)")
	f.StringVar(&config.Gateway, "gateway", lab.GatewayHost, "where gateway routers have their addresses from: host "+
		"(they share the node's) or own")
	f.IntVar(&config.MTU, "mtu", lab.DefaultMTU, "MTU of the lab's networks in bytes; pods have some less")
	f.IntVar(&config.Controllers, "controllers", 1, "replicas of the weft controller, of which one leads")
	f.IntVar(&config.Zones, "zones", 0, fmt.Sprintf("zones of the cluster, up to %d, each with OVN databases of its own "+
		"(default: no zones)", lab.MaxZones))
	f.BoolVar(&config.PodNetworks, "pod-networks", false, "nodes know the addresses of their pods by PodNetworks, and "+
		"not by annotations")
	f.BoolVar(&keep, "keep", false, "leave a lab that does not come up as it is")
	f.DurationVar(&timeout, "timeout", 3*time.Minute, "how long to wait")
	f.BoolVar(&config.NoWeft, "no-weft", false, "leave weft out; nodes stay NotReady")
	if err := f.MarkHidden("no-weft"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func up(ctx context.Context, o *options, config lab.Config, keep bool) error {
	progress := newProgress(os.Stderr)
	defer progress.finish()
	running, err := o.open()
	switch {
	case err == nil && running.Config != config:
		return fmt.Errorf("lab %q is up with other settings; `%s` ends it", o.name, o.command("down"))
	case err == nil:
		err := running.WaitReady(ctx, progress)
		progress.finish()
		if interrupted(ctx) {
			return fmt.Errorf("interrupted; lab %q, which was up before, goes on", o.name)
		}
		if !errors.Is(err, lab.ErrEnded) {
			return err
		}
	case !errors.Is(err, lab.ErrNotRunning):
		return err
	}
	started, err := lab.Start(ctx, config, o.dir(), progress.say)
	if err != nil {
		if interrupted(ctx) {
			return errors.New("interrupted; nothing was started")
		}
		return err
	}
	err = started.WaitReady(ctx, progress)
	progress.finish()
	if err != nil {
		return o.giveUp(ctx, err, keep)
	}
	fmt.Printf("lab %q is Ready: %s -- get nodes\n", o.name, o.command("kubectl"))
	return nil
}

// giveUp on a lab that has not come up.
func (o *options) giveUp(ctx context.Context, err error, keep bool) error {
	if interrupted(ctx) {
		err = errors.New("interrupted")
	}
	if keep {
		return fmt.Errorf("%w\nlab %q is left as it is; `%s` ends it", err, o.name, o.command("down"))
	}
	if down := lab.Down(o.dir(), true); down != nil {
		return errors.Join(err, down)
	}
	return fmt.Errorf("%w\nlab %q was taken down; its logs stay in %s", err, o.name, o.dir())
}

// interrupted tells a signal, as Ctrl-C sends it, from a time-out.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// progress prints a line for each stage. What it waits for it says in a live line on a terminal, and elsewhere
// in a line every ten seconds.
type progress struct {
	out      io.Writer
	terminal bool
	live     bool
	now      func() time.Time
	spoke    time.Time // last
}

func newProgress(out *os.File) *progress {
	_, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	return &progress{out: out, terminal: err == nil, now: time.Now, spoke: time.Now()}
}

const (
	liveWidth = 100
	silence   = 10 * time.Second
)

// Waiting implements [lab.Progress].
func (p *progress) Waiting(stage, detail string) {
	line := strings.ReplaceAll(fmt.Sprintf("  … %s: %s", stage, detail), "\n", " ")
	if runes := []rune(line); len(runes) > liveWidth {
		line = string(runes[:liveWidth])
	}
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		p.live = true
	case p.now().Sub(p.spoke) >= silence:
		p.print(line)
	}
}

// Reached implements [lab.Progress].
func (p *progress) Reached(stage string, after time.Duration) {
	p.print(fmt.Sprintf("  %5.1f s  %s", after.Seconds(), stage))
}

func (p *progress) say(what string) { p.print("  " + what) }

func (p *progress) print(line string) {
	p.finish()
	fmt.Fprintln(p.out, line)
	p.spoke = p.now()
}

// finish removes the live line.
func (p *progress) finish() {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.live = false
	}
}

func downCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End a lab and remove all that it left, also after a crash",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return lab.Down(o.dir(), false) },
	}
}

func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show machines, components and nodes; fails if one does not work",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := o.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			return status(ctx, l)
		},
	}
}

func status(ctx context.Context, l *lab.Lab) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MACHINE\tCOMPONENT\tSTATE\tPID\tRESTARTS\tFOR\tDETAIL")
	broken := 0
	for _, name := range l.Machines() {
		machine, err := l.Machine(name).Status(ctx)
		if err != nil && l.IsOff(name) {
			fmt.Fprintf(table, "%s\t\toff\t\t\t\t\n", name)
			continue
		}
		if err != nil {
			fmt.Fprintf(table, "%s\t\tdown\t\t\t\t%v\n", name, err)
			broken++
			continue
		}
		for _, c := range machine.Components {
			if !c.OK() {
				broken++
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", name, c.Name, c.State, c.PID, c.Restarts,
				time.Since(c.Since).Round(time.Second), c.Detail)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	argv, err := l.KubectlCommand("get", "nodes", "-o", "wide")
	if err == nil {
		err = runHere(ctx, argv)
	}
	if broken > 0 {
		err = errors.Join(fmt.Errorf("%d components do not work", broken), err)
	}
	return err
}

func imagesCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "images",
		Short:  "Make and unpack the container images, if they are not",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bin, err := binDir()
			if err != nil {
				return err
			}
			_, err = lab.EnsureImages(cmd.Context(), bin, newProgress(os.Stderr).say)
			return err
		},
	}
}
