package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/ovn/hits"
)

const hitsHelp = `Count what has met the rules of policies on this machine.

Run it on a central host, as root: it reads the counters of Open vSwitch's flows, and the Northbound and the
Southbound, by their sockets there, to know whose they are. Other nodes have no way to the Northbound. A rule without flows on the node, as it has no pods there that the rule is about, is not listed.

What is counted are packets in the direction of their connections' first ones, since policies are not asked
about answers. A counter begins anew when ovn-controller writes its rule's flows anew, as it does when the rule
changes, or when ovs-vswitchd restarts. Of two rules that match the same, one counts for both.

A Windows node's flows are read on the chassis host that has the node, by the bridge's socket there:

  weft policy hits --bridge unix:/run/weft/chassis/NODE/br-int.mgmt

The JSON is a list of objects with policy, rule, action, packets and bytes.`

func hitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hits",
		Short: "Count what has met the rules of policies on this machine",
		Long:  hitsHelp,
	}
	f := cmd.Flags()
	f.StringSlice("ovn-northbound", nil, "endpoints of the OVN Northbound: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")
	f.StringSlice("ovn-southbound", nil, "endpoints of the OVN Southbound")
	databaseFlags(f)
	f.StringSlice("bridge", []string{"br-int"}, "integration bridges: names, or sockets as unix:PATH")
	f.String("ovs-ofctl", "ovs-ofctl", "Open vSwitch's program for flows: a path, or a name in PATH")
	f.String("output", "text", "text or json")
	return asking(cmd, cobra.NoArgs, func(ctx context.Context, s *settings, _ []string) error {
		write, known := map[string]func(io.Writer, []hits.Count) error{"text": writeHits, "json": writeHitsJSON}[s.text("output")]
		if !known {
			return fmt.Errorf("output: %q is neither \"text\" nor \"json\"", s.text("output"))
		}
		var errs []error
		for _, key := range []string{"ovn-northbound", "ovn-southbound", "bridge"} {
			if len(s.list(key)) == 0 {
				errs = append(errs, fmt.Errorf("%s: is empty; give it, like the other keys, here or in the file of --config", key))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		counts, err := hits.Read(ctx, hits.Config{
			Northbound: databaseConfig(s, "ovn-northbound"), Southbound: databaseConfig(s, "ovn-southbound"),
			Bridges: s.list("bridge"), Program: s.text("ovs-ofctl"),
		})
		if err != nil {
			return err
		}
		return write(cmd.OutOrStdout(), counts)
	})
}

func writeHits(w io.Writer, counts []hits.Count) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POLICY\tRULE\tACTION\tPACKETS\tBYTES")
	for _, c := range counts {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\n", c.Policy, c.Rule, c.Action, c.Packets, c.Bytes)
	}
	return table.Flush()
}

func writeHitsJSON(w io.Writer, counts []hits.Count) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if counts == nil {
		counts = []hits.Count{}
	}
	return encoder.Encode(counts)
}
