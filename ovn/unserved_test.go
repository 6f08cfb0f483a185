package ovn

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatWeftDoesNotServeIsTold once, with the annotation and a remedy, for each line of the table.
func TestWhatWeftDoesNotServeIsTold(t *testing.T) {
	for _, u := range unservedAnnotations {
		t.Run(u.annotation, func(t *testing.T) {
			s := newScene(t, nil)
			s.do(s.node("n1", "10.244.1.0/24"))
			make := func(value string) any {
				meta := metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web", Annotations: map[string]string{u.annotation: value}}
				if u.kind == "Service" {
					return must(trim(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"},
						Ports: []corev1.ServicePort{{Port: 80}}}}))
				}
				return must(trim(&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n1"}}))
			}
			s.do(make(""))
			s.wantReasons()
			value := "10M"
			if u.value != "" {
				s.do(make("false"))
				s.wantReasons()
				value = u.value
			}
			s.do(make(value)) // an annotation may come later
			s.wantMessage(u.kind+" default/web", u.reason, u.annotation, u.effect, u.remedy)
			s.do(make(value))
			s.wantReasons()
			for _, p := range unservedProblems(u.kind, &metav1.ObjectMeta{}, ^wishes(0)) {
				if !p.lasting {
					t.Errorf("a controller that starts tells it again: %s", p.message)
				}
				if strings.HasSuffix(p.message, "…") {
					t.Errorf("a message has no room for its remedy: %s", p.message)
				}
			}
		})
	}
	host := must(trim(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "a"}},
		Spec: corev1.PodSpec{HostNetwork: true}})).(*pod)
	if host.asked != 0 {
		t.Error("a pod on the host network, which has none of weft's, is told of it")
	}
}

// TestUnservedSaysAll: every line is complete and of a kind that is told, and the documentation's table is this one.
func TestUnservedSaysAll(t *testing.T) {
	if len(unservedAnnotations) > 32 {
		t.Fatal("wishes has 32 bits")
	}
	var table strings.Builder
	table.WriteString("| annotation | on | Event | what it means | what to do |\n|---|---|---|---|---|\n")
	for _, u := range unservedAnnotations {
		if u.kind != "Pod" && u.kind != "Service" || u.annotation == "" || u.reason == "" || u.effect == "" || u.remedy == "" {
			t.Errorf("%+v is not complete", u)
		}
		name := "`" + u.annotation + "`"
		if u.value != "" {
			name = fmt.Sprintf("`%s: %q`", u.annotation, u.value)
		}
		fmt.Fprintf(&table, "| %s | %s | `%s` | %s | %s |\n", name, u.kind, u.reason, u.effect, u.remedy)
	}
	text, err := os.ReadFile("../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("docs/reference.md has another table than the code's:\n%s", table.String())
	}
}
