package observe

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/flows"
)

// asTable says whether `kubectl get` prints the answer.
func asTable(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "as=Table") }

// table is what `kubectl get` prints, and what it warns of: a table has no place for what is missing.
type table struct {
	metav1.Table
	warnings []string
}

// column is one of a table. A wide one is printed by -o wide alone.
func column(name string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string"}
}

func number(name string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer"}
}

func wide(c metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	c.Priority = 1
	return c
}

func newTable(columns ...metav1.TableColumnDefinition) *table {
	return &table{Table: metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ColumnDefinitions: columns, Rows: []metav1.TableRow{}}}
}

// row adds a row of an object.
func (t *table) row(of metav1.ObjectMeta, cells ...any) {
	t.Rows = append(t.Rows, metav1.TableRow{Cells: cells,
		Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
			ObjectMeta: of}}})
}

func (t *table) warn(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// missing warns of nodes and sources that have not answered.
func (t *table) missing(unanswered, asked int, unread []api.Unread) {
	if unanswered > 0 {
		t.warn("%d of %d nodes have not answered, and what they know is missing", unanswered, asked)
	}
	for _, u := range unread {
		t.warn("not read: %s: %s", u.Source, u.Reason)
	}
}

// warning is the header by which an API server has clients tell users of something (RFC 7234, 5.5).
func warning(w http.ResponseWriter, text string) {
	w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
}

// hitsTable has a row for each rule.
func hitsTable(list *api.PolicyHitsList) *table {
	t := newTable(column("Policy"), column("Rule"), column("Action"), number("Packets"), number("Bytes"),
		wide(number("Nodes")))
	for _, item := range list.Items {
		t.row(item.ObjectMeta, item.Policy, item.Rule, item.Action, item.Packets, item.Bytes, len(item.Nodes))
	}
	t.missing(list.NodesUnanswered, list.NodesAsked, nil)
	return t
}

func forbidden(name, namespace string) error {
	where := "namespace " + namespace
	if namespace == "" {
		where = "all namespaces"
	}
	return fmt.Errorf("user %q has no right to list %s.%s of %s", name, api.PolicyHitsResource, group, where)
}

// statusTable has a row for each finding, or one that there is none.
func statusTable(list *api.NetworkStatusList) *table {
	t := newTable(column("Result"), column("Object"), column("Finding"), wide(column("Remedy")))
	for _, status := range list.Items {
		findings := status.Findings
		if len(findings) == 0 {
			findings = []api.Finding{{Severity: status.Result, Object: "all", Text: "all is well",
				Remedy: status.NotJudged}}
		}
		for _, f := range findings {
			text := f.Text
			if f.More > 0 {
				text += fmt.Sprintf(" (and %d more)", f.More)
			}
			t.row(status.ObjectMeta, f.Severity, f.Object, text, f.Remedy)
		}
	}
	return t
}

// flowsTable has a row for each connection.
func flowsTable(list *api.NetworkFlowsList) *table {
	t := newTable(column("From"), column("To"), column("Service"), column("Protocol"), column("State"),
		wide(column("Seen As")), wide(column("Nodes")))
	for _, item := range list.Items {
		for i := range item.Flows {
			f := &item.Flows[i]
			t.row(item.ObjectMeta, flows.EndText(&f.Source), flows.EndText(&f.Destination), dash(flows.ServiceText(f.Service)),
				f.Protocol, dash(f.State), dash(f.SeenAs), dash(strings.Join(f.Nodes, ",")))
		}
		t.missing(item.NodesUnanswered, item.NodesAsked, item.Unread)
		if item.Omitted > 0 {
			t.warn("%d more are left out: choose fewer, by a namespace or a field selector", item.Omitted)
		}
	}
	return t
}

// versionTable has a row for each of Weft's parts, and one for OVN.
func versionTable(list *api.NetworkVersionList) *table {
	t := newTable(column("Part"), column("Name"), column("Weft"), column("Open vSwitch"), column("OVN"))
	for _, v := range list.Items {
		part := func(kind string, p api.PartVersion) {
			t.row(v.ObjectMeta, kind, dash(p.Name), dash(p.Version), "-", "-")
		}
		for _, door := range v.Doors {
			part("door", door)
		}
		part("controller", v.Controller)
		for _, host := range v.ChassisHosts {
			part("chassis host", host)
		}
		for _, n := range v.Nodes {
			t.row(v.ObjectMeta, strings.TrimSpace(n.System+" node"), n.Name, dash(n.Agent), dash(n.OpenVSwitch), "-")
		}
		t.row(v.ObjectMeta, "ovn-northd", "-", "-", "-", dash(v.OVN))
		t.missing(0, 0, v.Unread)
	}
	return t
}

// topologyTable has a row for each port of a pod, a host or a router.
func topologyTable(list *api.NetworkTopologyList) *table {
	t := newTable(column("Node"), column("Kind"), column("Name"), column("Addresses"), column("Up"),
		wide(column("MAC")), wide(column("Chassis")))
	for _, item := range list.Items {
		port := func(node, kind string, p api.PortTopology) {
			up := "no"
			if p.Up {
				up = "yes"
			}
			t.row(item.ObjectMeta, node, kind, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"),
				dash(strings.Join(p.Addresses, ",")), up, dash(p.MAC), dash(p.Chassis))
		}
		router := func(node, kind string, r api.RouterTopology) {
			for _, p := range r.Ports {
				t.row(item.ObjectMeta, node, kind, r.Name+" to "+cmp.Or(p.Switch, p.Name), dash(strings.Join(p.Networks, ",")), "-",
					dash(p.MAC), dash(r.Chassis))
			}
		}
		for _, r := range item.Routers {
			router("-", "router", r)
		}
		for _, n := range item.Nodes {
			if n.Host != nil {
				port(n.Name, "host", *n.Host)
			}
			if n.Gateway != nil {
				router(n.Name, "gateway", *n.Gateway)
			}
			for _, p := range n.Pods {
				port(n.Name, "pod", p)
			}
		}
		t.missing(0, 0, item.Unread)
	}
	return t
}

// dash is a text, or a dash where there is none.
func dash(text string) string { return cmp.Or(text, "-") }
