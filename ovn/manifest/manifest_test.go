package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func pods(s *Set) (names []string) {
	for _, o := range s.Objects {
		if p, ok := o.(*corev1.Pod); ok {
			names = append(names, fmt.Sprintf("%s/%s %v", p.Namespace, p.Name, p.Labels))
		}
	}
	return names
}

func TestEachWorkloadIsAPod(t *testing.T) {
	var text strings.Builder
	for kind, k := range kinds {
		if k.template == nil {
			continue
		}
		template := "{template: {metadata: {labels: {of: " + kind + "}}}}"
		if kind == "CronJob" {
			template = "{jobTemplate: {spec: " + template + "}}"
		}
		fmt.Fprintf(&text, "---\n{apiVersion: %s, kind: %s, metadata: {name: app}, spec: %s}\n", k.version, kind, template)
	}
	text.WriteString("--- {apiVersion: v1, kind: Pod, metadata: {name: app, namespace: prod}}")
	s, err := Read(strings.NewReader(text.String()), "prod", "-")
	if err != nil {
		t.Fatal(err)
	}
	got := pods(s)
	want := []string{"prod/app map[]", "prod/app-cronjob map[of:CronJob]", "prod/app-daemonset map[of:DaemonSet]", "prod/app-deployment map[of:Deployment]",
		"prod/app-job map[of:Job]", "prod/app-replicaset map[of:ReplicaSet]", "prod/app-statefulset map[of:StatefulSet]"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if where := s.Where("Pod prod/app"); where != "standard input:13" {
		t.Errorf("the pod is at %q", where)
	}
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(nil, "default", dir); err == nil || !strings.Contains(err.Error(), "no file that ends in") {
		t.Errorf("an empty directory: %v", err)
	}
	write("a/b/one.yml", "\ufeffapiVersion: v1\r\nkind: Pod\r\nmetadata: {name: one}\r\n---\r\n")
	write("two.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "two-"}, "spec": {"nodeName": "n1"}}`)
	write("three.yaml", "# nothing\n---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: |\n    ---\n    b\n")
	write("README.md", "no manifest")
	write(".hidden/x.yaml", "no manifest")
	write("a/.x.yaml", "no manifest")
	s, err := Read(nil, "default", dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := pods(s); !slices.Equal(got, []string{"default/one map[]", "default/two map[]"}) || s.Others["ConfigMap"] != 1 {
		t.Errorf("%q, and %v", got, s.Others)
	}
	for _, o := range s.Objects {
		if p := o.(*corev1.Pod); p.Spec.NodeName != "" {
			t.Errorf("pod %s is on %s, which is not there", p.Name, p.Spec.NodeName)
		}
	}
	if _, err := Read(nil, "default", dir, filepath.Join(dir, "two.json")); err == nil || !strings.Contains(err.Error(), "two.json:1: Pod default/two is there already") {
		t.Errorf("a file that is read twice: %v", err)
	}
	write("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n---\na: b\n c: d\n")
	if _, err := Read(nil, "default", dir); err == nil || !strings.Contains(err.Error(), "broken.yaml:7: it is not YAML") {
		t.Errorf("a broken file: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n- 1\n---x\n")
	f.Add(`{"apiVersion": "v1", "kind": "List", "items": [{"kind": "PodList", "apiVersion": "v1", "items": [null, {}]}]}`)
	f.Add("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {nodeName: x}}}\n...\n%YAML 1.2\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, d := range documents([]byte(text)) {
			if d.first < 1 || d.content < d.first || d.content > lines {
				t.Errorf("a document from line %d, which says something from line %d, of %d", d.first, d.content, lines)
			}
		}
		s, err := Read(strings.NewReader(text), "default", "-")
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}
