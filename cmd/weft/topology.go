package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/doctor"
)

const topologyHelp = `Show the network as a tree: the cluster's router, and of each node its logical switch, its host, its
gateway, and its pods with their addresses.

It asks the API server, which asks weft observe: a kubeconfig is all that it needs, and the right to list networktopologies
of observe.weft.net. An administrator gives it by the ClusterRole ` + api.NetworkTopologyRole + `: for the whole network by a
ClusterRoleBinding, and for the pods of a namespace, which --namespace shows, by a RoleBinding in it.

-o wide also has the names of ports, MAC addresses, the chassis of each port, and how many load balancers each switch and
router has. The JSON is what the API server answers, a NetworkTopologyList. It may be five seconds old.`

func topologyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topology",
		Short:   "Show the network's switches, routers and ports as a tree",
		Long:    topologyHelp,
		Example: "  weft topology\n  weft topology --node l1 -o wide\n  weft topology -n shop",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "the topology is shown"},
		exitCode{doctor.ExitWarning, "it is shown in part, as the Southbound could not be read"},
		exitCode{doctor.ExitNotAsked, "there is no answer; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("namespace", "n", "", "show the pods of this namespace alone; empty: the whole network")
	f.String("node", "", "show the part of this node alone; empty: all nodes")
	f.StringP("output", "o", "text", "form of the answer: text, wide, json or yaml")
	return answering(cmd, doctor.ExitNotAsked, cobra.NoArgs, func(ctx context.Context, s *settings, _ []string) error {
		node, namespace := s.text("node"), s.text("namespace")
		write := topologyForms.chosen(s)
		config, _, err := contextConfig(s)
		if err != nil {
			return err
		}
		q := question{resource: api.NetworkTopologyResource, namespace: namespace, role: api.NetworkTopologyRole}
		if node != "" {
			q.query = url.Values{"fieldSelector": {fields.OneTermEqualSelector(api.NodeSelector, node).String()}}
		}
		text, topology, err := askOne[api.NetworkTopology](ctx, config, q)
		if err != nil {
			return err
		}
		if node != "" && namespace == "" && len(topology.Nodes) == 0 {
			return fmt.Errorf("node: the cluster has no Node %q; `kubectl get nodes` lists them", node)
		}
		if err := write(newScreen(cmd.OutOrStdout()), text, topology); err != nil {
			return err
		}
		if len(topology.Unread) > 0 {
			return &exitError{code: doctor.ExitWarning}
		}
		return nil
	})
}

// topologyForms write an answer.
var topologyForms = answerForms(writeTopology)
