package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/doctor"
)

const traceHelp = `Follow the first packet of a connection, and the answer to it, and say where it ends, and why.

It asks the API server, which asks weft observe: a kubeconfig is all that it needs, and the right to create traces of
observe.weft.net in the namespaces of both ends. Nodes, addresses, names outside and --ovn need that right in the whole
cluster. An administrator gives it, by a binding to the ClusterRole ` + api.TraceRole + `.

SRC is a pod, [NAMESPACE/]NAME, node/NAME, or an address outside the cluster. DST is a pod, a node,
svc/[NAMESPACE/]NAME, an address, or a name outside, which has a dot. A name outside is resolved on this machine. PORT
is a number, or the name of a Service's port. Without a port, a Service's only one is meant, and others are asked for an
echo (ICMP). An IPv6 address stands in brackets before its port.

A connection from an address outside comes in by the gateway of a node, see --node, and goes to an address by which a
Service is known outside, to that of a pod, or to a node. A NodePort is a port of a node, or of an address of it. The
trace says whether the node's switch, its gateway router or its agent answers there.

Without --live nothing is sent. ovn-trace, OVN's simulator, follows the packet through the logical flows of the live
Southbound, with the values of the node for the variables of NodePorts. It knows no connections: what the request has
translated is taken to be translated back for the answer. Of a Service's endpoints it takes one by chance.

With --live, the agent of the pod's node sends a probe, too: one connection by TCP or SCTP, which it closes at once, or
one datagram by UDP. It leaves from the pod's own network, with the pod's address, to the address and the port that were
asked. The answer says what the probe has met within 3 seconds, and whether that is what the trace says. A datagram is a
question of DNS, which other programs need not answer. A probe needs a port, and the right to create traces/live in the
namespace of the pod (ClusterRole ` + api.LiveRole + `).

The JSON is what the API server answers, a Trace.`

func traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace SRC DST[:PORT]",
		Short: "Follow a packet from a pod, a node or the outside to where it ends, and say why",
		Long:  traceHelp,
		Example: "  weft trace shop/web svc/shop/db:3306\n  weft trace shop/web svc/shop/db:3306 --live\n" +
			"  weft trace -n shop web 198.51.100.1:53 --protocol udp\n  weft trace node/l1 shop/db:3306 --family 6 --ovn\n" +
			"  weft trace 198.51.100.9 203.0.113.80:443 --node l1\n  weft trace shop/web node/l2:30080",
	}
	endsWith(cmd, exitCode{doctor.ExitOK, "the packet arrives, and so does its answer"},
		exitCode{doctor.ExitWarning, "the packet or its answer is refused, or lost"},
		exitCode{doctor.ExitFailed, "with --live: the probe's result differs from the trace, or cannot be compared, " +
			"whatever the trace says"},
		exitCode{doctor.ExitNotAsked, "there is no answer; the error says why"})
	f := cmd.Flags()
	contextFlags(f)
	f.StringP("namespace", "n", "", "namespace of pods and Services named without one; empty: that of the context")
	f.String("protocol", "", "protocol of the connection: tcp, udp or sctp; empty: that of the Service's port, or tcp "+
		"for a port of another destination")
	f.String("family", "", "address family: 4 or 6; empty: 4 if both ends have it, else 6")
	f.String("node", "", "node by whose gateway a connection from an address enters; empty: the one that serves the "+
		"destination, or else the first with a gateway")
	f.Bool("live", false, "let the pod's node also send a probe, and compare it with the trace")
	f.Bool("ovn", false, "print the output of ovn-trace, too")
	f.StringP("output", "o", "text", "form of the answer: text, wide, json or yaml")
	completeArguments(cmd, 2, anyEnd)
	return answering(cmd, doctor.ExitNotAsked, cobra.ExactArgs(2), func(ctx context.Context, s *settings,
		args []string) error {
		write := traceForms.chosen(s)
		config, namespace, err := contextConfig(s)
		if err != nil {
			return err
		}
		spec, err := traceSpec(ctx, s, args, namespace, net.DefaultResolver)
		if err != nil {
			return err
		}
		text, trace, err := askTrace(ctx, config, spec)
		if err == nil {
			err = write(newScreen(cmd.OutOrStdout()), text, trace)
		}
		if err != nil {
			return err
		}
		return traceVerdict(spec, trace)
	})
}

// traceVerdict is the exit code of an answer.
func traceVerdict(spec api.TraceSpec, trace *api.Trace) error {
	switch probe := trace.Status.Probe; {
	case spec.Live && (probe == nil || probe.Comparison != api.ProbeAgrees):
		return &exitError{code: doctor.ExitFailed}
	case trace.Status.Result != api.Arrives:
		return &exitError{code: doctor.ExitWarning}
	}
	return nil
}

// resolver finds the addresses of a name outside.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// traceFamilies are the API's words for the values of --family, and those of a resolver.
var traceFamilies = map[string]struct{ api, network string }{"": {"", "ip"}, "4": {"IPv4", "ip4"}, "6": {"IPv6", "ip6"}}

// traceSpec is the question that a command line asks.
func traceSpec(ctx context.Context, s *settings, args []string, namespace string, names resolver) (spec api.TraceSpec,
	err error) {
	family, known := traceFamilies[s.text("family")]
	if !known {
		return spec, fmt.Errorf("family: %q is neither \"4\" nor \"6\"; leave it empty for 4, or for 6 if an end has no IPv4",
			s.text("family"))
	}
	spec = api.TraceSpec{Protocol: s.text("protocol"), Family: family.api, OVN: s.boolean("ovn"),
		Live: s.boolean("live"), Node: s.text("node")}
	if spec.Source, err = api.ParseTraceEnd(args[0], namespace); err != nil {
		return spec, err
	}
	to, port := cutPort(args[1])
	spec.Port = port
	if spec.Destination, err = api.ParseTraceEnd(to, namespace); err != nil || spec.Destination.Kind != api.AddressEnd {
		return spec, err
	}
	if _, err := netip.ParseAddr(to); err == nil {
		return spec, nil
	}
	found, err := names.LookupNetIP(ctx, family.network, to)
	if err != nil {
		return spec, fmt.Errorf("resolve %s on this machine: %w; give its address", to, err)
	}
	spec.Destination.Name = found[0].Unmap().String()
	return spec, s.err()
}

// cutPort parts a destination from its port, "" if it has none.
func cutPort(text string) (to, port string) {
	if rest, ok := strings.CutPrefix(text, "["); ok {
		to, port, _ = strings.Cut(rest, "]")
		return to, strings.TrimPrefix(port, ":")
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return text, ""
	}
	to, port, _ = strings.Cut(text, ":")
	return to, port
}

func askTrace(ctx context.Context, config *rest.Config, spec api.TraceSpec) (text []byte, trace *api.Trace,
	err error) {
	text, err = question{resource: api.TraceResource, namespace: spec.Source.Namespace, object: &api.Trace{
		TypeMeta: metav1.TypeMeta{Kind: api.TraceKind, APIVersion: api.GroupVersion}, Spec: spec}}.ask(ctx, config)
	if apierrors.IsForbidden(err) {
		return nil, nil, fmt.Errorf("%w\nAn administrator gives the right in a namespace: kubectl create rolebinding NAME "+
			"--namespace=NAMESPACE --clusterrole=%[2]s --user=USER\nIn the whole cluster: kubectl create clusterrolebinding "+
			"NAME --clusterrole=%[2]s --user=USER", err, api.TraceRole)
	}
	if err != nil {
		return nil, nil, err
	}
	trace = &api.Trace{}
	if err := json.Unmarshal(text, trace); err != nil {
		return nil, nil, fmt.Errorf("read what the API server answers: %w", err)
	}
	if trace.Status.Result == "" {
		return nil, nil, fmt.Errorf("the API server answers without a result; weft observe is of another version")
	}
	return text, trace, nil
}
