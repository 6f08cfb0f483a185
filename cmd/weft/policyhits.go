package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

const hitsHelp = `Count what has met the rules of policies on all nodes.

It asks the API server, which asks weft observe: a kubeconfig is all that it needs, and the right to list policyhits
of observe.weft.net in the namespace. With --all-namespaces, for which that right has to be the cluster's, rules of cluster-wide
policies are told, too. A rule without flows on any node, as there are no pods that it is about, is not listed.

What is counted are packets in the direction of their connections' first ones, since policies are not asked
about answers. A counter begins anew when ovn-controller writes its rule's flows anew, as it does when the rule
changes, or when ovs-vswitchd restarts. Of two rules of a tier that match the same, one counts for both. Counts may be some
seconds old. Nodes that have not answered are told.

The JSON and the YAML are what the API server answers, a PolicyHitsList.`

func hitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "hits",
		Short:   "Count what has met the rules of policies on all nodes",
		Long:    hitsHelp,
		Example: "  weft policy hits -n shop\n  weft policy hits --all-namespaces --per-node",
	}
	endsWith(cmd, exitCode{0, "all nodes have answered"},
		exitCode{exitUnasked, "there is no answer, or some nodes have not answered; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("namespace", "n", "", "namespace of the policies; empty: that of the context")
	f.BoolP("all-namespaces", "A", false, "the policies of all namespaces, and cluster-wide ones")
	f.Bool("per-node", false, "print one line for each node that has the rule's flows, as -o wide does")
	f.StringP("output", "o", "text", "form of the answer: text, wide, json or yaml")
	return asking(cmd, cobra.NoArgs, func(ctx context.Context, s *settings, _ []string) error {
		perNode, all := s.boolean("per-node"), s.boolean("all-namespaces")
		write := answerForms(func(w screen, list *api.PolicyHitsList, wide bool) error {
			return writeHits(w, list, perNode || wide)
		}).chosen(s)
		if err := s.err(); err != nil {
			return err
		}
		config, namespace, err := contextConfig(s)
		if err != nil {
			return err
		}
		if all {
			namespace = ""
		}
		text, list, err := askHits(ctx, config, namespace)
		if err != nil {
			return err
		}
		return errors.Join(write(newScreen(cmd.OutOrStdout()), text, list), unanswered(list))
	})
}

// askHits asks for the hits of a namespace's policies, of all policies where it is "".
func askHits(ctx context.Context, config *rest.Config, namespace string) (text []byte, list *api.PolicyHitsList,
	err error) {
	text, err = askDoor(ctx, config, api.PolicyHitsResource, namespace)
	if err != nil {
		return nil, nil, err
	}
	list = &api.PolicyHitsList{}
	if err := json.Unmarshal(text, list); err != nil {
		return nil, nil, fmt.Errorf("read what the API server answers: %w", err)
	}
	return text, list, nil
}

func writeHits(w io.Writer, list *api.PolicyHitsList, perNode bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if perNode {
		fmt.Fprintln(table, "POLICY\tRULE\tACTION\tNODE\tPACKETS\tBYTES")
	} else {
		fmt.Fprintln(table, "POLICY\tRULE\tACTION\tPACKETS\tBYTES")
	}
	for _, r := range list.Items {
		if !perNode {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\n", r.Policy, r.Rule, r.Action, r.Packets, r.Bytes)
			continue
		}
		for _, n := range r.Nodes {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\n", r.Policy, r.Rule, r.Action, n.Node, n.Packets, n.Bytes)
		}
	}
	return table.Flush()
}

// unanswered is an error where nodes are not in the counts.
func unanswered(list *api.PolicyHitsList) error {
	if list.NodesUnanswered == 0 {
		return nil
	}
	lines := []error{fmt.Errorf("%d of %d nodes have not answered, what they have counted is missing",
		list.NodesUnanswered, list.NodesAsked)}
	for _, node := range list.Unanswered {
		lines = append(lines, fmt.Errorf("node %s: %s", node.Node, node.Reason))
	}
	return errors.Join(lines...)
}
