package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
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
	want := []string{"prod/app map[]", "prod/app-cronjob map[of:CronJob]", "prod/app-daemonset map[of:DaemonSet]",
		"prod/app-deployment map[of:Deployment]",
		"prod/app-job map[of:Job]", "prod/app-replicaset map[of:ReplicaSet]",
		"prod/app-replicationcontroller map[of:ReplicationController]", "prod/app-statefulset map[of:StatefulSet]"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if where := s.Where("Pod prod/app", ""); where != "standard input:15" {
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
	write("three.yaml", "# nothing\n---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: |\n    "+
		"---\n    b\n")
	write("README.md", "no manifest")
	write(".hidden/x.yaml", "no manifest")
	write("a/.x.yaml", "no manifest")
	s, err := Read(nil, "default", dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := pods(s); !slices.Equal(got, []string{"default/one map[]", "default/two map[]"}) ||
		s.Others["ConfigMap"] != 1 {
		t.Errorf("%q, and %v", got, s.Others)
	}
	for _, o := range s.Objects {
		if p := o.(*corev1.Pod); p.Spec.NodeName != "" {
			t.Errorf("pod %s is on %s, which is not there", p.Name, p.Spec.NodeName)
		}
	}
	write("two.yaml", "\napiVersion: v1\nkind: Pod\nmetadata: {name: two}\n")
	if _, err := Read(nil, "default", dir); err == nil || !strings.Contains(err.Error(),
		"two.yaml:2: Pod default/two is there already, at "+filepath.Join(dir, "two.json")+":1") {
		t.Errorf("an object that a directory has twice: %v", err)
	}
	write("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n---\na: b\n c: d\n")
	if err := os.Remove(filepath.Join(dir, "two.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(nil, "default", dir); err == nil || !strings.Contains(err.Error(), "broken.yaml:7: it is not YAML") {
		t.Errorf("a broken file: %v", err)
	}
}

// TestALaterPathWins: what runs is read first, and then what it is to become.
func TestALaterPathWins(t *testing.T) {
	const runs = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": "guard", "creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": {"tier": "Admin", "subject": {"namespaces": {}}}},
{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}}]}`
	file := filepath.Join(t.TempDir(), "new.yaml")
	text := "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: guard}\nspec: " +
		"{tier: Admin, priority: 7, subject: {namespaces: {}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Read(strings.NewReader(runs), "default", "-", file)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{file +
		":1: ClusterNetworkPolicy guard takes the place of the one at standard input:2"}; !slices.Equal(s.Notes, want) {
		t.Errorf("%q", s.Notes)
	}
	guard, ok := s.Objects[0].(*v1alpha2.ClusterNetworkPolicy)
	if !ok || len(s.Objects) != 2 || len(s.Problems) > 0 || guard.Spec.Priority != 7 ||
		guard.CreationTimestamp.Year() != 2026 {
		t.Errorf("%+v, %v", s.Objects, s.Problems)
	}
}

// TestNothingIsDropped: all that a file has is read, or an error.
func TestNothingIsDropped(t *testing.T) {
	const a, b = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}`,
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}`
	const flow = "{apiVersion: v1, kind: Pod, metadata: {name: a}}"
	for _, c := range []struct{ name, text, want string }{
		{"a stream of JSON", a + b, "a at 1, b at 1"},
		{"a stream of JSON in lines", "\n" + a + "\n\n" + b + "\n", "a at 2, b at 4"},
		{"YAML that goes on in its line", flow + flow, "standard input:1: it is not YAML: a document has ended before"},
		{"JSON, and YAML after it", a + "\n# and\n---\n" + flow[:len(flow)-3] + "c}}", "a at 1, c at 4"},
		{"YAML in quotes", "\"apiVersion\": v1\n\"kind\": Pod\nmetadata: {name: a}\n", "a at 1"},
		{"a document's end", "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n...\n" + b, "a at 1, b at 5"},
		{"directives", "%YAML 1.1\n---\n" + a + "\n...\n%YAML 1.1\n--- # and\n" + b, "a at 3, b at 7"},
		{"YAML that goes on", flow + "\n\n" + flow, "standard input:3: it is not YAML: a document has ended before"},
		{"JSON that goes on", a + "\n]", "standard input:2: it is not YAML"},
		{"nothing", "", "standard input: has no object of Kubernetes"},
		{"a comment", "# none\n---\n", "standard input: has no object of Kubernetes"},
		{"no items", `{"apiVersion": "v1", "kind": "List", "items": []}`, ""},
		{"nothing that matters", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Read(strings.NewReader(c.text), "default", "-")
			if err != nil {
				if c.want == "" || !strings.HasPrefix(err.Error(), c.want) {
					t.Error(err)
				}
				return
			}
			var got []string
			for _, o := range s.Objects {
				p := o.(*corev1.Pod)
				got = append(got, p.Name+" at "+strings.TrimPrefix(s.Where("Pod default/"+p.Name, ""), "standard input:"))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%q", text)
			}
		})
	}
}

// TestKinds: a kind is one that policies depend on, another that there is, or a mistake.
func TestKinds(t *testing.T) {
	for _, c := range []struct{ version, kind, want string }{
		{"v1", "ConfigMap", ""},
		{"apps/v1", "ControllerRevision", ""},
		{"networking.k8s.io/v1", "Ingress", ""},
		{"gateway.networking.k8s.io/v1", "HTTPRoute", ""},
		{"serving.knative.dev/v1", "Service", ""},
		{"autoscaling/v2", "HorizontalPodAutoscaler", ""},
		{"apps/v1", "Deployement", "2: kind: apps/v1 has no kind \"Deployement\" that is known here; policies depend on " +
			"its DaemonSet, Deployment, ReplicaSet, StatefulSet"},
		{"v1", "pod", "2: kind: v1 has no kind \"pod\""},
		{"v1", "Deployment", "1: apiVersion: v1 has no kind Deployment; write apps/v1"},
		{"extensions/v1beta1", "Deployment", "1: apiVersion: extensions/v1beta1 Deployment is not read; write apps/v1"},
		{"example.com/v1", "AllowList", ""},
		{"policy/v1", "NetworkPolicy", "1: apiVersion: policy/v1 has no kind NetworkPolicy; write networking.k8s.io/v1"},
		{"app/v1", "Deploy", "1: apiVersion: no kind \"Deploy\" of app/v1 is known here"},
		{"policy.networking.k8s.io/v1alpha2", "NetworkPolicies", "2: kind: policy.networking.k8s.io/v1alpha2 has no kind " +
			"\"NetworkPolicies\""},
	} {
		s, err := Read(strings.NewReader("apiVersion: "+c.version+"\nkind: "+c.kind+"\nmetadata: {name: a}\n"), "default",
			"-")
		switch {
		case c.want == "":
			if err != nil || s.Others[c.kind] != 1 {
				t.Errorf("%s %s: %v", c.version, c.kind, err)
			}
		case err == nil || !strings.HasPrefix(err.Error(), "standard input:"+c.want):
			t.Errorf("%s %s: %v", c.version, c.kind, err)
		}
	}
}

// TestFieldsHaveLines: an error tells where the field stands, what it is, and what it has to be.
func TestFieldsHaveLines(t *testing.T) {
	const text = `apiVersion: v1
kind: List
items:
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: unknown}
  spec:
    podSelector: {}
    ingres: []
    ingress:
    - ports:
      - prot: 80
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata:
    name: misfits
    labels:
      app.kubernetes.io/version: 5
  spec:
    podSelector: true
    ingress: {}
    egress:
    - ports:
      - port: true
        endPort: "90"
      - endPort: 99999999999
- apiVersion: v1
  kind: Pod
  metadata: [a, b]
- apiVersion: v1
  kind: Pod
  metadata:
    name: quantity
    creationTimestamp: now
  spec:
    hostNetwork: "yes"
    containers:
    - name: [c]
      resources: {limits: {cpu: few}}
`
	want := []string{
		`standard input:9: items[0]: NetworkPolicy unknown: spec.ingres: there is no such field; correct or remove it`,
		`standard input:12: items[0]: NetworkPolicy unknown: spec.ingress[0].ports[0].prot: there is no such field; correct or remove it`,
		`standard input:18: items[1]: NetworkPolicy misfits: metadata.labels.app.kubernetes.io/version: is 5, and has to be a text; put it in quotes`,
		`standard input:25: items[1]: NetworkPolicy misfits: spec.egress[0].ports[0].endPort: is "90", and has to be a whole number of 32 bits`,
		`standard input:24: items[1]: NetworkPolicy misfits: spec.egress[0].ports[0].port: is true, and has to be a number or a name`,
		`standard input:26: items[1]: NetworkPolicy misfits: spec.egress[0].ports[1].endPort: is 99999999999, and has to be a whole number of 32 bits`,
		`standard input:21: items[1]: NetworkPolicy misfits: spec.ingress: is an object, and has to be a list`,
		`standard input:20: items[1]: NetworkPolicy misfits: spec.podSelector: is true, and has to be an object`,
		`standard input:29: items[2]: Pod: metadata: is a list, and has to be an object`,
		`standard input:34: items[3]: Pod quantity: metadata.creationTimestamp: is "now", and has to be a time`,
		`standard input:38: items[3]: Pod quantity: spec.containers[0].name: is a list, and has to be a text`,
		`standard input:39: items[3]: Pod quantity: spec.containers[0].resources.limits.cpu: is "few", and has to be a quantity`,
		`standard input:36: items[3]: Pod quantity: spec.hostNetwork: is "yes", and has to be true or false`,
	}
	_, err := Read(strings.NewReader(text), "default", "-")
	if err == nil {
		t.Fatal("there is no error")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n- 1\n---x\n")
	f.Add(`{"apiVersion": "v1", "kind": "List", "items": [{"kind": "PodList", "apiVersion": "v1", "items": [null, {}]}]}`)
	f.Add("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {nodeName: " +
		"x}}}\n...\n%YAML 1.2\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, d := range documents("-", 1, []byte(text)) {
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
