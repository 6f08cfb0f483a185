package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/version"
	"github.com/weftnet/weft/node/doctor"
)

const versionHelp = `Print the versions of this program, of the OVN and Open vSwitch that it is made for, and of what the
cluster has.

If there is a kubeconfig, it asks the API server, which asks weft observe. That needs the right to list networkversions of
observe.weft.net. An administrator gives it, by a ClusterRoleBinding to the ClusterRole ` + api.NetworkVersionRole + `.

The cluster's versions are those of the doors (weft observe), of the controller that leads, of chassis hosts, of
ovn-northd, and of each node's agent and Open vSwitch. A controller that stands by does not tell its own.`

// versions are what `weft version -o json` prints: the program, and what the door has said of the cluster.
type versions struct {
	version.Info
	Cluster *api.NetworkVersion `json:"cluster,omitempty"`
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of this program, and of Weft, OVN and Open vSwitch in the cluster",
		Long:    versionHelp,
		Example: "  weft version\n  weft version --client",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "the versions are printed: this program's, and the answer of the cluster, " +
		"with a line for each source that it could not read; without a kubeconfig, or with --client: this program's alone"},
		exitCode{doctor.ExitNotAsked, "there is no answer from the cluster; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.Bool("client", false, "print the versions of this program alone, and ask nobody")
	f.StringP("output", "o", "text", "form of the answer: text or json")
	return answering(cmd, doctor.ExitNotAsked, cobra.NoArgs, func(ctx context.Context, s *settings, _ []string) error {
		write, known := versionForms[s.text("output")]
		alone := s.boolean("client")
		switch {
		case s.err() != nil:
			return s.err()
		case !known:
			return fmt.Errorf("output: %q is neither \"text\" nor \"json\"", s.text("output"))
		}
		all := versions{Info: version.Current()}
		var problem error
		if !alone {
			all.Cluster, problem = clusterVersions(ctx, s)
		}
		return errors.Join(write(cmd.OutOrStdout(), all), problem)
	})
}

// clusterVersions asks the door; nil where there is no kubeconfig, and so no cluster to ask about.
func clusterVersions(ctx context.Context, s *settings) (*api.NetworkVersion, error) {
	config, _, err := contextConfig(s)
	switch {
	case clientcmd.IsEmptyConfig(errors.Unwrap(err)):
		return nil, nil
	case err != nil:
		return nil, err
	}
	_, cluster, err := askOne[api.NetworkVersion](ctx, config, question{resource: api.NetworkVersionResource,
		role: api.NetworkVersionRole})
	return cluster, err
}

var versionForms = map[string]func(io.Writer, versions) error{
	"text": writeVersions,
	"json": func(w io.Writer, v versions) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	},
}

func writeVersions(w io.Writer, v versions) error {
	if err := v.Info.Write(w, "text"); err != nil || v.Cluster == nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nPART\tNAME\tWEFT\tOPEN VSWITCH")
	part := func(kind string, p api.PartVersion) {
		fmt.Fprintf(table, "%s\t%s\t%s\t-\n", kind, told(p.Name), told(p.Version))
	}
	for _, door := range v.Cluster.Doors {
		part("door", door)
	}
	part("controller", v.Cluster.Controller)
	for _, host := range v.Cluster.ChassisHosts {
		part("chassis host", host)
	}
	for _, n := range v.Cluster.Nodes {
		kind := "node"
		if n.System != "" {
			kind = shown(n.System) + " node"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", kind, told(n.Name), told(n.Agent), told(n.OpenVSwitch))
	}
	fmt.Fprintf(table, "\nOVN in the cluster\t%s\n", told(v.Cluster.OVN))
	for _, u := range v.Cluster.Unread {
		fmt.Fprintf(table, "not read: %s: %s\n", shown(u.Source), shown(u.Reason))
	}
	return table.Flush()
}

// told is a text that somebody else may have written, or a dash if nobody has.
func told(text string) string {
	if text == "" {
		return "-"
	}
	return shown(text)
}
