package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/test/lab/machine"
)

// power is a verb that switches a machine.
func power(o *options, verb, short, long string, change func(context.Context, *machine.Client) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " MACHINE", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			machine, err := o.machine(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), restartTimeout)
			defer cancel()
			if err := change(ctx, machine); err != nil {
				return fmt.Errorf("%s %s: %w", verb, args[0], err)
			}
			return nil
		},
	}
}

func powerCommands(o *options) []*cobra.Command {
	return []*cobra.Command{
		power(o, "reboot", "Cut a machine's power, and return when it serves again",
			`reboot ends everything in a machine at once and starts it again, as a loss of power would. What is on
its disk stays: the databases, kubelet's and containerd's state, HNS networks, all that a host wrote. Memory,
interfaces, processes and containers do not. It returns when all components serve; pods may come back later.`,
			func(ctx context.Context, m *machine.Client) error { return m.Reboot(ctx) }),
		power(o, "off", "Cut a machine's power", "off ends everything in a machine at once. It stays off until weftlab on.",
			func(ctx context.Context, m *machine.Client) error { return m.Off(ctx) }),
		power(o, "on", "Start a machine that is off", "on starts a machine that is off, and returns when all its "+
			"components serve.",
			func(ctx context.Context, m *machine.Client) error { return m.On(ctx) }),
		{
			Use: "reset HOST", Short: "Give a host a new disk", Args: cobra.ExactArgs(1),
			Long: `reset cuts a host's power, gives it the disk of a new one and starts it: it is as if just installed, with the
keys that ssh knows it by. It returns when it serves.`,
			RunE: func(cmd *cobra.Command, args []string) error {
				l, err := o.open()
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), restartTimeout)
				defer cancel()
				return l.ResetHost(ctx, args[0])
			},
		},
	}
}
