package trace

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/ovntest/translated"
	"github.com/weftnet/weft/ovn/ovntrace"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

func everything(context.Context, string) (bool, error) { return true, nil }

// spec reads a question as "pod shop/web > Service shop/db 3306".
func spec(t testing.TB, text string) api.TraceSpec {
	t.Helper()
	from, to, _ := strings.Cut(text, " > ")
	end := func(text string) (e api.TraceEnd, rest string) {
		words := strings.Fields(text)
		e.Kind, e.Name = words[0], words[1]
		if namespace, name, ok := strings.Cut(e.Name, "/"); ok {
			e.Namespace, e.Name = namespace, name
		}
		return e, strings.Join(words[2:], " ")
	}
	var s api.TraceSpec
	s.Source, _ = end(from)
	s.Destination, to = end(to)
	for _, word := range strings.Fields(to) {
		switch word {
		case "udp", "sctp":
			s.Protocol = word
		case ipv6:
			s.Family = word
		case "live":
			s.Live = true
		case "l1", "l9":
			s.Node = word
		case "OVN":
			s.OVN = true
		default:
			s.Port = word
		}
	}
	return s
}

// story is what a status tells, a line each.
func story(s *api.TraceStatus) string {
	var b strings.Builder
	for _, way := range [][]api.TraceStep{s.Request, s.Reply} {
		for _, step := range way {
			fmt.Fprintf(&b, "%s %s %q: %s\n", step.Node, step.Kind, step.Object, step.Text)
		}
		b.WriteString("--\n")
	}
	fmt.Fprintf(&b, "%s: %s\nTo do: %s\nEndpoints: %s\n", s.Result, s.Reason, s.Remedy, strings.Join(s.Endpoints, " "))
	return b.String()
}

// tracer asks a cluster.
func tracer(t testing.TB, c *translated.Cluster) *Tracer {
	t.Helper()
	return &Tracer{Program: ovntrace.New(ovsdbtest.Program(t, "ovn-trace"), c.Southbound, 1),
		Northbound: ovsdb.Config{Endpoints: c.Northbound}, Southbound: ovsdb.Config{Endpoints: c.Southbound},
		Kubernetes: c.APIServer(t), Nodes: c.Nodes}
}

// TestTracesOfARealOVN asks about a cluster that a controller has written and ovn-northd has translated. The stories
// are in testdata.
func TestTracesOfARealOVN(t *testing.T) {
	c := tracer(t, translated.Start(t, translated.Read(t, translated.Shop), "shop_asleep"))
	for _, ask := range []asked{
		{"same-node", "Pod shop/web > Pod shop/cart 80", api.Arrives},
		{"other-node", "Pod shop/web > Pod shop/db 3307", api.Arrives},
		{"other-node-ipv6", "Pod shop/web > Pod shop/db 3307 IPv6", api.Arrives},
		{"echo", "Pod shop/web > Pod guarded/crown", api.Refused},
		{"wrong-peer", "Pod shop/cart > Pod shop/db 3307", api.Refused},
		{"wrong-port", "Pod shop/web > Pod shop/db 3308", api.Refused},
		{"wrong-protocol", "Pod shop/web > Pod shop/db 3307 udp", api.Refused},
		{"other-namespace", "Pod shop/web > Pod bank/safe 3307", api.Refused},
		{"service", "Pod shop/web > Service shop/db sql", api.Arrives},
		{"to-itself", "Pod shop/web > Service shop/mirror", api.Arrives},
		{"to-its-own-address", "Pod shop/db > Pod shop/db 3308", api.Arrives},
		{"service-by-address", "Pod shop/web > Address 10.96.0.10 3306", api.Arrives},
		{"service-without-endpoints", "Pod shop/web > Service shop/empty", api.Refused},
		{"service-without-endpoints-udp", "Pod shop/web > Service shop/both dns", api.Refused},
		{"service-without-endpoints-here", "Pod shop/web > Service shop/nearby", api.Refused},
		{"no-service", "Pod shop/web > Address 10.96.0.99 80", api.Refused},
		{"outside", "Pod shop/web > Address 198.51.100.1 443", api.Arrives},
		{"outside-ipv6", "Pod shop/web > Address 2001:db8:9::1", api.Arrives},
		{"unbound", "Pod shop/web > Pod shop/asleep 80", api.Lost},
		{"nobodys-address", "Pod shop/web > Address 10.244.0.77 80", api.Lost},
		{"nobodys-address-elsewhere", "Pod shop/web > Address 10.244.1.77 80", api.Lost},
		{"from-a-host", "Node l1 > Pod shop/cart 80", api.Arrives},
		{"from-a-host-elsewhere", "Node l1 > Service shop/db", api.Refused},
		{"from-a-host-network-pod", "Pod shop/monitor > Pod shop/cart 80", api.Arrives},
		{"to-its-host", "Pod shop/web > Node l1 22", api.Arrives},
		{"echo-to-its-host", "Pod shop/web > Node l1", api.Arrives},
		{"to-another-host", "Pod shop/web > Node l2 22", api.Arrives},
	} {
		t.Run(ask.name, func(t *testing.T) { c.tells(t, ask) })
	}
	t.Run("one of two endpoints", func(t *testing.T) { c.oneOfTwo(t) })
	t.Run("questions without an answer", func(t *testing.T) { c.unanswered(t) })
	t.Run("rights", func(t *testing.T) { c.rights(t) })
	t.Run("probes", func(t *testing.T) { c.plans(t) })
}

// asked is a question, and the result that its story in testdata has.
type asked struct{ name, question, result string }

func (c *Tracer) tells(t *testing.T, ask asked) {
	t.Helper()
	status, err := c.Trace(t.Context(), spec(t, ask.question), everything)
	if err != nil {
		t.Fatal(err)
	}
	if status.Result != ask.result {
		t.Errorf("the result is %s, want %s", status.Result, ask.result)
	}
	golden(t, ask.name, ask.question+"\n"+story(status))
}

// TestTracesOfTheOutside asks about connections that come in by a gateway, and such that leave with an address of their
// own. Policies, and the endpoints that a node has, count for clients outside, too.
func TestTracesOfTheOutside(t *testing.T) {
	c := tracer(t, translated.Start(t, translated.Read(t, translated.Shop+"\n---\n"+translated.Outside)))
	for _, ask := range []asked{
		{"egress-address", "Pod trade/desk > Address 198.51.100.1 443", api.Arrives},
		{"external-address-from-a-pod", "Pod shop/web > Address 203.0.113.80 80", api.Arrives},
		{"from-outside", "Address 198.51.100.9 > Address 203.0.113.80 80", api.Arrives},
		{"from-outside-to-where-it-is-served", "Address 198.51.100.9 > Address 203.0.113.81 80", api.Arrives},
		{"from-outside-to-where-it-is-not", "Address 198.51.100.9 > Address 203.0.113.81 80 l1", api.Refused},
		{"from-outside-to-a-host", "Address 198.51.100.9 > Address 203.0.113.82 80", api.Arrives},
		{"from-outside-to-nobody", "Address 198.51.100.9 > Address 203.0.113.99 80", api.Lost},
		{"from-outside-to-a-pod", "Address 198.51.100.9 > Address 10.244.1.6 8080", api.Arrives},
		{"from-outside-and-denied", "Address 198.51.100.9 > Address 10.244.1.5 3307", api.Refused},
	} {
		t.Run(ask.name, func(t *testing.T) { c.tells(t, ask) })
	}
	t.Run("rights", func(t *testing.T) {
		only := func(_ context.Context, namespace string) (bool, error) { return namespace == "trade", nil }
		var forbidden *ForbiddenError
		ask := spec(t, "Address 198.51.100.9 > Address 203.0.113.80 80")
		if status, err := c.Trace(t.Context(), ask, only); !errors.As(err, &forbidden) {
			t.Errorf("as the outside, by a right in a namespace: %+v, %v", status, err)
		}
	})
}

// nodePorts is a cluster whose nodes have all kinds of gateways, see [translated.NodePorts].
func nodePorts(t *testing.T) *translated.Cluster {
	t.Helper()
	objects := translated.Read(t, translated.NodePorts)
	translated.Gateways(objects, map[string]func(*contract.NodeFacts){
		"l1": translated.SharesAddresses, "l2": translated.SharesAddresses,
		"l4": func(f *contract.NodeFacts) { f.Gateway = nil },
		"l5": func(f *contract.NodeFacts) { f.Gateway.Routed = true },
		"w1": func(f *contract.NodeFacts) { translated.SharesAddresses(f); f.OS = contract.Windows },
	})
	return translated.Start(t, objects)
}

// TestTracesOfNodePorts asks about NodePorts, by all who may answer: the client's own switch, the gateway router of the
// node that is asked, and its agent.
func TestTracesOfNodePorts(t *testing.T) {
	c := tracer(t, nodePorts(t))
	for _, ask := range []asked{
		{"nodeport-own-node", "Pod shop/two > Node l2 30080", api.Arrives},
		{"nodeport-own-node-elsewhere", "Pod shop/one > Node l1 30080", api.Arrives},
		{"nodeport-own-node-local", "Pod shop/one > Node l1 30081", api.Arrives},
		{"nodeport-own-node-without-a-gateway", "Pod shop/four > Node l4 30080", api.Arrives},
		{"nodeport-own-node-windows-sctp", "Pod shop/six > Node w1 30090 sctp", api.Refused},
		{"nodeport-other-node", "Pod shop/one > Node l2 30080", api.Arrives},
		{"nodeport-other-node-ipv6", "Pod shop/one > Node l2 30080 IPv6", api.Arrives},
		{"nodeport-other-node-udp", "Pod shop/one > Node l2 30053 udp", api.Arrives},
		{"nodeport-other-node-sctp", "Pod shop/one > Address 192.0.2.2 30090 sctp", api.Arrives},
		{"nodeport-other-node-and-back", "Pod bank/teller > Node l1 30080", api.Arrives},
		{"nodeport-other-node-local", "Pod shop/one > Node l2 30081", api.Arrives},
		{"nodeport-other-node-local-without", "Pod shop/two > Node l1 30081", api.Refused},
		{"nodeport-other-node-without-endpoints", "Pod shop/one > Node l2 30084", api.Refused},
		{"nodeport-other-node-sticky", "Pod shop/one > Node l2 30083", api.Arrives},
		{"nodeport-other-node-at-its-router", "Pod shop/one > Address 203.0.113.3 30080", api.Arrives},
		{"nodeport-other-node-at-its-host", "Pod shop/one > Node l3 30080", api.Arrives},
		{"nodeport-other-node-at-its-host-local", "Pod shop/one > Node l4 30081", api.Refused},
		{"nodeport-other-node-at-its-host-sctp", "Pod shop/one > Node l4 30090 sctp", api.Refused},
		{"nodeport-without-a-gateway", "Pod shop/four > Node l1 30080", api.Lost},
		{"nodeport-routed", "Pod shop/five > Node l2 30080", api.Arrives},
		{"nodeport-routed-local", "Pod shop/five > Node l2 30081", api.Arrives},
		{"nodeport-routed-local-ipv6", "Pod shop/five > Node l2 30081 IPv6", api.Arrives},
		{"nodeport-routed-outside", "Pod shop/five > Address 198.51.100.9 80", api.Arrives},
		{"hostport-routed", "Pod shop/five > Node l2 8443", api.Arrives},
		{"nodeport-routed-at-a-host", "Pod shop/five > Node l3 30080", api.Refused},
		{"nodeport-windows-sctp", "Pod shop/one > Node w1 30090 sctp", api.Refused},
		{"nodeport-of-a-host", "Pod shop/one > Node l1 30082", api.Arrives},
		{"nodeport-of-its-host", "Pod shop/one > Node l2 30082", api.Arrives},
		{"nodeport-as-an-endpoint", "Pod shop/one > Service shop/round", api.Arrives},
		{"nodeport-of-its-node-as-an-endpoint", "Pod shop/two > Service shop/round", api.Refused},
		{"nodeport-outside-of-its-host-as-an-endpoint", "Address 198.51.100.9 > Node l1 30087", api.Refused},
		{"nodeport-outside-of-its-host-as-an-endpoint-local", "Address 198.51.100.9 > Node l2 30088", api.Arrives},
		{"nodeport-other-node-at-its-host-as-an-endpoint-local", "Pod shop/one > Node l4 30088", api.Refused},
		{"nodeport-host-itself-as-an-endpoint", "Node l2 > Service shop/round", api.Arrives},
		{"nodeport-in-circles", "Pod shop/two > Node l1 30086", api.Lost},
		{"nodeport-of-nobody", "Pod shop/one > Node l2 30099", api.Arrives},
		{"nodeport-outside", "Address 198.51.100.9 > Node l2 30080", api.Arrives},
		{"nodeport-outside-elsewhere", "Address 198.51.100.9 > Node w1 30080", api.Arrives},
		{"nodeport-outside-ipv6", "Address 2001:db8:9::1 > Node l1 30081", api.Refused},
		{"nodeport-outside-local", "Address 192.0.2.77 > Node l2 30081", api.Arrives},
		{"nodeport-outside-by-another-node", "Address 198.51.100.9 > Node l2 30080 l1", api.Arrives},
		{"nodeport-outside-at-a-router", "Address 198.51.100.9 > Address 203.0.113.3 30080", api.Arrives},
		{"nodeport-outside-at-a-host", "Address 198.51.100.9 > Node l3 30080", api.Arrives},
		{"nodeport-outside-of-its-host", "Address 198.51.100.9 > Node l2 30085", api.Arrives},
		{"nodeport-outside-of-nobody", "Address 198.51.100.9 > Node l1 22", api.Arrives},
		{"nodeport-outside-windows-sctp", "Address 198.51.100.9 > Node w1 30090 sctp", api.Refused},
		{"nodeport-outside-source-ranges", "Address 192.0.2.77 > Address 203.0.113.81 80", api.Refused},
		{"nodeport-host-itself", "Node l1 > Node l1 30080", api.Arrives},
		{"nodeport-host-itself-local", "Node l2 > Node l2 30081", api.Arrives},
		{"nodeport-host-itself-local-elsewhere", "Node w1 > Node w1 30081", api.Arrives},
		{"nodeport-host-itself-local-and-endpoint", "Node l2 > Node l2 30085", api.Arrives},
		{"nodeport-host-itself-sctp", "Node l1 > Node l1 30090 sctp", api.Refused},
		{"nodeport-host-other-node", "Node l1 > Node l2 30080 IPv6", api.Arrives},
		{"nodeport-host-other-node-at-its-host", "Node l1 > Node l4 30080", api.Arrives},
		{"nodeport-host-its-own-router", "Node l3 > Address 203.0.113.3 30080", api.Arrives},
	} {
		t.Run(ask.name, func(t *testing.T) { c.tells(t, ask) })
	}
	t.Run("rights", func(t *testing.T) {
		only := func(_ context.Context, namespace string) (bool, error) { return namespace == "shop", nil }
		for _, service := range []string{"round", "passed"} {
			status, err := c.Trace(t.Context(), spec(t, "Pod shop/one > Service shop/"+service), only)
			var forbidden *ForbiddenError
			if !errors.As(err, &forbidden) || strings.Contains(err.Error(), "bank") {
				t.Errorf("an endpoint of %s that is a NodePort of another namespace: %+v, %v", service, status, err)
			}
		}
	})
	t.Run("the output of ovn-trace", func(t *testing.T) {
		status, err := c.Trace(t.Context(), spec(t, "Pod shop/one > Node l1 30080 IPv6 OVN"), everything)
		if err != nil {
			t.Fatal(err)
		}
		if text := status.OVN[0].Text; !strings.Contains(text, "ip6.dst == 2001:db8:1::1 && tcp.dst == 30080") {
			t.Errorf("it shows no flow of the NodePort:\n%s", text)
		}
	})
}

// mistyped are policies in whose rules labels are mistyped.
const mistyped = `
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: cart}
spec:
  podSelector: {matchLabels: {app: cart}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: shpo}}}, {podSelector: {matchLabels: {app: cart}}}]
  - from: [{namespaceSelector: {matchLabels: {team: bnak}}}]
  egress:
  - to: [{podSelector: {matchLabels: {app: bd}}}]
`

// TestSelectorsOfNobody: who is refused is named, and which of the rules' selectors select nobody. Those of other
// namespaces are told to those who may see these.
func TestSelectorsOfNobody(t *testing.T) {
	c := tracer(t, translated.Start(t, translated.Read(t, translated.Shop+mistyped)))
	for question, want := range map[string]struct {
		reason string
		nobody []string
	}{
		"Pod shop/web > Pod shop/cart 80": {"pod shop/web (10.244.0.5) is none of its peers",
			[]string{"spec.ingress[0]: [shop: pods app=shpo] selects no pod", "spec.ingress[1]: [namespaces team=bnak: pods *"}},
		"Node l2 > Pod shop/cart 80": {"node l2 (10.244.1.2) is none of its peers",
			[]string{"app=shpo] selects no pod", "team=bnak"}},
		"Pod shop/cart > Pod bank/safe 80":   {"pod bank/safe (10.244.1.3) is none of its peers", []string{"app=bd"}},
		"Pod shop/cart > Service shop/db":    {"the endpoint 10.244.1.5 of Service shop/db is none", []string{"app=bd"}},
		"Pod shop/cart > Node l1 22":         {"node l1 (192.0.2.1) is none of its peers", []string{"app=bd"}},
		"Pod shop/cart > Address 192.0.2.2":  {"node l2 (192.0.2.2) is none of its peers", []string{"app=bd"}},
		"Pod shop/cart > Address 192.0.2.77": {": 192.0.2.77 is none of its peers", []string{"app=bd"}},
		"Pod shop/cart > Pod shop/db 3308":   {"pod shop/db (10.244.1.5) is none of its peers", []string{"app=bd"}},
	} {
		status, err := c.Trace(t.Context(), spec(t, question), everything)
		if err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		told := len(status.Notes) == len(want.nobody)
		for i := range want.nobody {
			told = told && strings.Contains(status.Notes[i], want.nobody[i])
		}
		if !told || !strings.Contains(status.Reason, want.reason) {
			t.Errorf("%s: %s\n%q, want %q", question, status.Reason, status.Notes, want)
		}
	}
	only := func(_ context.Context, namespace string) (bool, error) { return namespace == "shop", nil }
	status, err := c.Trace(t.Context(), spec(t, "Pod shop/web > Pod shop/cart 80"), only)
	if err != nil || len(status.Notes) != 1 || !strings.Contains(status.Notes[0], "app=shpo") {
		t.Errorf("by the right in a namespace: %+v, %v", status, err)
	}
}

// oneOfTwo: which endpoint is taken is a matter of chance, but it is the one that is told.
func (c *Tracer) oneOfTwo(t *testing.T) {
	status, err := c.Trace(t.Context(), spec(t, "Pod shop/db > Service shop/both http"), everything)
	if err != nil {
		t.Fatal(err)
	}
	text := story(status)
	pods := map[string]string{"10.244.0.4:8080": "pod shop/cart", "10.244.0.5:8080": "pod shop/web"}
	if !slices.Equal(status.Endpoints, slices.Sorted(maps.Keys(pods))) || status.Result != api.Arrives {
		t.Errorf("the endpoints are %q:\n%s", status.Endpoints, text)
	}
	for endpoint, pod := range pods {
		if strings.Contains(text, "becomes "+endpoint+", one of 2 endpoints") != strings.Contains(text, pod+" receives it") {
			t.Errorf("another one than %s is told:\n%s", endpoint, text)
		}
	}
}

// plans: a probe asks what the trace asks, by the addresses that were chosen.
func (c *Tracer) plans(t *testing.T) {
	for question, want := range map[string]api.TraceProbe{
		"Pod shop/web > Pod shop/db 3307 live":      {Protocol: "tcp", Source: "10.244.0.5", Destination: "10.244.1.5:3307"},
		"Pod shop/web > Pod shop/db 9 udp live":     {Protocol: "udp", Source: "10.244.0.5", Destination: "10.244.1.5:9"},
		"Pod shop/web > Pod shop/web 80 live":       {Protocol: "tcp", Source: "10.244.0.5", Destination: "10.244.0.5:80"},
		"Pod shop/web > Service shop/db live":       {Protocol: "tcp", Source: "10.244.0.5", Destination: "10.96.0.10:3306"},
		"Pod shop/web > Service shop/both dns live": {Protocol: "udp", Source: "10.244.0.5", Destination: "10.96.0.12:53"},
		"Pod shop/web > Pod shop/db 3307 IPv6 live": {Protocol: "tcp", Source: "fd00:10:244::5",
			Destination: "[fd00:10:244:1::5]:3307"},
	} {
		want.Comparison = api.ProbeUnknown // nobody has sent it
		status, err := c.Trace(t.Context(), spec(t, question), everything)
		if err != nil || status.Probe == nil || *status.Probe != want {
			t.Errorf("%s: %+v, %v, want %+v", question, status, err, want)
		}
	}
}

// unanswered: the error names the field and the remedy.
func (c *Tracer) unanswered(t *testing.T) {
	for question, want := range map[string]string{
		"Pod shop/gone > Pod shop/db 80":               "spec.source: there is no pod shop/gone",
		"Pod shop/web > Service shop/gone":             "spec.destination: there is no Service shop/gone",
		"Pod shop/web > Service shop/both":             "2 ports of Service shop/both fit; name one of: http 80/tcp",
		"Pod shop/web > Service shop/both 81":          "has no port 81; name one that it has, by number or name",
		"Pod shop/web > Service shop/both htp":         "has no port htp; name one that it has",
		"Pod shop/web > Service shop/both 80 udp":      "no port 80/udp; name one that it has, by number or name, and",
		"Pod shop/web > Service shop/both sctp":        "no port by sctp; name one that it has, by number or name, and",
		"Pod shop/web > Service shop/headless 80":      "headless",
		"Pod shop/web > Service shop/db IPv6":          "Service shop/db have no addresses of the family IPv6",
		"Pod shop/web > Pod shop/db http":              "spec.port: \"http\" is not a number",
		"Pod shop/web > Pod shop/db 65536":             "spec.port",
		"Pod shop/web > Pod shop/db udp":               "spec.port: is empty",
		"Pod shop/web > Node l9 22":                    "spec.destination: there is no node l9",
		"Pod shop/web > Address localhost 22":          "spec.destination.name: \"localhost\" is not an address",
		"Pod shop/web > Address 224.0.0.1 22":          "spec.destination.name: 224.0.0.1 is not the address of one host",
		"Pod shop/web > Address fe80::1%eth0 22":       "spec.destination.name",
		"Node l1 > Address 198.51.100.1 22":            "spec.destination: the host of node l1 reaches 198.51.100.1",
		"Service shop/db > Pod shop/db 22":             "spec.source.kind: a trace begins at a Pod, a Node or an Address",
		"Address 198.51.100.9 > Pod shop/db 22":        "spec.destination.kind: a connection from outside",
		"Address 10.0.0.x > Address 203.0.113.80 80":   "spec.source.name: \"10.0.0.x\" is not an address",
		"Pod shop/web > Pod shop/db 22 l1":             "spec.node: a Pod does not come in by a gateway",
		"Address 198.51.100.9 > Address 8.8.8.8 80 l9": "spec.node: there is no node l9 that has a gateway",
		"Node l1 > Node l2 22":                         "about a pod, a Service or a NodePort",
		"Pod shop/web\"||1 > Pod shop/db 22":           "spec.source: \"shop/web\\\"||1\" is not the name of a Pod",
		"Pod Shop/web > Pod shop/db 22":                "spec.source",
		"Pod shop/web > Gateway l1 22":                 "spec.destination.kind: \"Gateway\" is none of",
		"Pod shop/web > Service shop/db --ovs=x":       "spec.port",
		"Pod shop/web > Address --db=tcp:192.0.2.9 1":  "spec.destination.name",
		"Node l1 > Pod shop/cart 80 live":              "spec.live: a probe is sent from the network of a Pod",
		"Pod shop/web > Pod shop/cart live":            "spec.live: a probe is a connection and no echo",
		"Pod shop/monitor > Pod shop/cart 80 live":     "spec.live: pod shop/monitor in the network of node l1 has",
	} {
		status, err := c.Trace(t.Context(), spec(t, question), everything)
		var wrong *QuestionError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", question, status, err, want)
		}
	}
}

// rights: whoever asks is told nothing of namespaces whose right is missing, whatever endpoints a Service of an own
// namespace has.
func (c *Tracer) rights(t *testing.T) {
	only := func(namespaces ...string) May {
		return func(_ context.Context, namespace string) (bool, error) {
			return slices.Contains(namespaces, namespace), nil
		}
	}
	raw := spec(t, "Pod shop/web > Pod shop/db 3307")
	raw.OVN = true
	for _, ask := range []struct {
		spec api.TraceSpec
		may  May
	}{
		{spec(t, "Pod shop/web > Pod bank/safe 80"), only("shop")},
		{spec(t, "Pod bank/safe > Pod shop/web 80"), only("shop")},
		{spec(t, "Pod bank/nobody > Pod shop/web 80"), only("shop")},
		{spec(t, "Pod shop/web > Service bank/gone 80"), only("shop")},
		{spec(t, "Pod shop/web > Node l2 80"), only("shop", "bank")},
		{spec(t, "Node l1 > Pod shop/web 80"), only("shop", "bank")},
		{spec(t, "Pod shop/web > Address 10.244.1.3 80"), only("shop", "bank")},
		{spec(t, "Pod shop/web > Service shop/thief 80"), only("shop")},
		{raw, only("shop")},
	} {
		status, err := c.Trace(t.Context(), ask.spec, ask.may)
		var forbidden *ForbiddenError
		if !errors.As(err, &forbidden) || status != nil {
			t.Errorf("%+v: %+v, %v", ask.spec, status, err)
		} else if text := err.Error(); strings.Contains(text, "vault") || ask.spec.Destination.Name == "thief" &&
			strings.Contains(text, "bank") {
			t.Errorf("%+v: the refusal tells %q", ask.spec, text)
		}
	}
	for _, ask := range []struct {
		question, not string
		may           May
	}{
		{"Pod shop/web > Pod shop/db 3307", "192.0.2.", only("shop")},
		{"Pod shop/web > Pod guarded/crown 80", "ClusterNetworkPolicy guard", only("shop", "guarded")},
	} {
		status, err := c.Trace(t.Context(), spec(t, ask.question), ask.may)
		if err != nil {
			t.Fatal(err)
		}
		if text := story(status); strings.Contains(text, ask.not) {
			t.Errorf("%s: a user without the right in the cluster is told %q:\n%s", ask.question, ask.not, text)
		}
	}
}

var update = flag.Bool("update", false, "write what the stories are now")

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
