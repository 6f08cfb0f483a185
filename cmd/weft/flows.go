package main

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/doctor"
)

const flowsHelp = `Show who talks to whom now: the connections that the nodes' datapaths remember, with the names of pods,
Services and nodes.

It asks the API server, which asks weft observe: a kubeconfig is all that it needs, and the right to list networkflows of
observe.weft.net in the namespace. An administrator gives it by the ClusterRole ` + api.NetworkFlowsRole + `: for all
namespaces by a ClusterRoleBinding, and for the flows that have an end or the Service in a namespace by a RoleBinding in
it. Of an end in another namespace its address is shown, and its name to users with the right there.

A connection by a Service is shown with the endpoint that was chosen. UDP and ICMP have no state. A connection is
remembered for some time after its last packet: a TCP connection whose ends are gone for hours or days, UDP for a minute
or less. Connections of hosts among themselves are not shown. Nor is what a policy of the client or a missing endpoint has
refused, since no connection comes of it. What a policy of the server has refused may be there, without an answer.

What the host of a pod's own node begins is left out, such as kubelet's probes, and is counted below. It is shown with
--all, or if --from or --to names a node, an address or a CIDR.

--from and --to take [NAMESPACE/]POD, node/NAME, outside, an address or a CIDR, and --to also svc/[NAMESPACE/]NAME. A
namespace, pod, Service or node that does not exist is an error, if you have the right to get it.

--follow asks again and again. It shows what is open at first, what is new later, and what has ended. Without other
filters than the namespace it also shows how many packets the rules of policies have refused since it last asked, as weft
policy hits counts them.

The JSON is what the API server answers, a NetworkFlowsList. With --follow it is an object for each event, as kubectl get
--output-watch-events has it. Answers may be five seconds old.`

func flowsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flows",
		Short: "Show who talks to whom now, in the names of pods, Services and nodes",
		Long:  flowsHelp,
		Example: "  weft flows -n shop\n  weft flows -n shop --service db --state established\n" +
			"  weft flows --all-namespaces --from outside -o wide\n  weft flows -n shop --pod web-0 --follow",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "all flows that were asked for are shown"},
		exitCode{doctor.ExitWarning, "some flows are missing, since a node has not answered, or there are too many; " +
			"or some names are missing"},
		exitCode{doctor.ExitNotAsked, "there is no answer; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("namespace", "n", "", "flows that have an end, or their Service, in this namespace; empty: that of the "+
		"context")
	f.BoolP("all-namespaces", "A", false, "the flows of all namespaces")
	f.Bool("all", false, "also what the hosts of the pods' own nodes begin, such as kubelet's probes")
	for _, flag := range flowFilters {
		f.String(flag.name, "", flag.usage)
	}
	f.BoolP("follow", "f", false, "ask again and again, and show what is new and what has ended, until interrupted")
	f.Duration("interval", 5*time.Second, "how long to wait between two questions, with --follow; 1s at least")
	f.StringP("output", "o", "text", "form of the answer: text, wide, json or yaml")
	return answering(cmd, doctor.ExitNotAsked, cobra.NoArgs, func(ctx context.Context, s *settings, _ []string) error {
		q := flowsQuestion{timeout: s.duration("timeout"), interval: s.interval()}
		follow, output, all, filter := s.boolean("follow"), s.text("output"), s.boolean("all-namespaces"), flowsFilter(s)
		ownNodes := s.boolean("all") || namesHost(s.text("from")) || namesHost(s.text("to"))
		write := flowsForms.chosen(s)
		config, namespace, err := contextConfig(s)
		if err != nil {
			return err
		}
		if all {
			namespace = ""
		}
		q.config, q.namespace, q.filter, q.ownNodes = config, namespace, filter, ownNodes
		out := newScreen(cmd.OutOrStdout())
		if follow {
			if err := q.checkNames(ctx); err != nil {
				return err
			}
			return q.follow(cmd.Context(), newFollower(out, output), cmd.ErrOrStderr())
		}
		text, flows, err := q.ask(ctx)
		if err == nil && len(flows.Flows) == 0 {
			err = q.checkNames(ctx)
		}
		if err == nil {
			err = write(out, text, flows)
		}
		if err == nil && !isWhole(flows) {
			err = &exitError{code: doctor.ExitWarning}
		}
		return err
	})
}

// flowFilters are the flags that choose flows, by the field selectors of weft observe.
var flowFilters = []struct{ name, field, usage string }{
	{"pod", api.PodSelector, "flows of this pod alone, which is one of the ends; empty: all"},
	{"service", api.ServiceSelector, "flows by this Service alone; empty: all"},
	{"node", api.NodeSelector, "flows that have an end on this node, or that pass it; empty: all"},
	{"from", api.SourceSelector, "end that has begun the connection; empty: any"},
	{"to", api.DestinationSelector, "end that was asked, or that answers; empty: any"},
	{"protocol", api.ProtocolSelector, "protocol, such as tcp, udp, sctp or icmp; empty: all"},
	{"state", api.StateSelector, "state of a TCP or SCTP connection, such as established or syn_sent; empty: any"},
}

// flowsFilter is the field selector that the flags make; "" without any.
func flowsFilter(s *settings) string {
	var terms []fields.Selector
	for _, flag := range flowFilters {
		if value := s.text(flag.name); value != "" {
			terms = append(terms, fields.OneTermEqualSelector(flag.field, value))
		}
	}
	return fields.AndSelectors(terms...).String()
}

// namesHost says whether an end that is asked for may be the host of a node.
func namesHost(end string) bool {
	_, noAddress := netip.ParseAddr(end)
	_, noPrefix := netip.ParsePrefix(end)
	return strings.HasPrefix(end, "node/") || noAddress == nil || noPrefix == nil
}

// flowsForms write an answer.
var flowsForms = answerForms(writeFlows)

// isWhole says whether an answer has all flows.
func isWhole(flows *api.NetworkFlows) bool {
	return flows.NodesUnanswered == 0 && flows.Omitted == 0 && len(flows.Unread) == 0
}

// flowsQuestion is what weft observe is asked, once or again and again.
type flowsQuestion struct {
	config            *rest.Config
	namespace, filter string
	// ownNodes asks also for what the hosts of the pods' own nodes have begun.
	ownNodes          bool
	timeout, interval time.Duration
}

// selector is the filter, and what is left out unless it is asked for.
func (q *flowsQuestion) selector() string {
	terms := []string{q.filter}
	if !q.ownNodes {
		terms = append(terms, fields.OneTermEqualSelector(api.FromOwnNodeSelector, "false").String())
	}
	return strings.Trim(strings.Join(terms, ","), ",")
}

func (q *flowsQuestion) ask(ctx context.Context) (text []byte, flows *api.NetworkFlows, err error) {
	asked := question{resource: api.NetworkFlowsResource, namespace: q.namespace, role: api.NetworkFlowsRole}
	if selector := q.selector(); selector != "" {
		asked.query = url.Values{"fieldSelector": {selector}}
	}
	return askOne[api.NetworkFlows](ctx, q.config, asked)
}
