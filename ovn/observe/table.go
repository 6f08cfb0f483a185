package observe

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// table is what `kubectl get` prints.
func table(list *api.PolicyHitsList) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Policy", Type: "string"}, {Name: "Rule", Type: "string"}, {Name: "Action", Type: "string"},
			{Name: "Packets", Type: "integer"}, {Name: "Bytes", Type: "integer"}, {Name: "Nodes", Type: "integer", Priority: 1},
		},
		Rows: []metav1.TableRow{},
	}
	for _, item := range list.Items {
		t.Rows = append(t.Rows, metav1.TableRow{
			Cells: []any{item.Policy, item.Rule, item.Action, item.Packets, item.Bytes, len(item.Nodes)},
			Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
				ObjectMeta: item.ObjectMeta}},
		})
	}
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
func statusTable(list *api.NetworkStatusList) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Result", Type: "string"}, {Name: "Object", Type: "string"}, {Name: "Finding", Type: "string"},
			{Name: "Remedy", Type: "string", Priority: 1},
		},
		Rows: []metav1.TableRow{},
	}
	for _, status := range list.Items {
		findings := status.Findings
		if len(findings) == 0 {
			findings = []api.Finding{{Severity: status.Result, Object: "all", Text: "all is well"}}
		}
		for _, f := range findings {
			text := f.Text
			if f.More > 0 {
				text += fmt.Sprintf(" (and %d more)", f.More)
			}
			t.Rows = append(t.Rows, metav1.TableRow{
				Cells: []any{f.Severity, f.Object, text, f.Remedy},
				Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
					TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
					ObjectMeta: status.ObjectMeta}},
			})
		}
	}
	return t
}
