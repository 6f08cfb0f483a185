package objects

import (
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnservedSaysAll: every line is complete and of a kind that is told, and the documentation's table is this one.
func TestUnservedSaysAll(t *testing.T) {
	if len(UnservedAnnotations) > 32 {
		t.Fatal("wishes has 32 bits")
	}
	var table strings.Builder
	table.WriteString("| annotation | on | Event | what it means | what to do |\n|---|---|---|---|---|\n")
	for _, u := range UnservedAnnotations {
		if u.Kind != podKind && u.Kind != serviceKind || u.Annotation == "" ||
			u.Reason == nil || u.Effect == "" || u.Remedy == "" {
			t.Errorf("%+v is not complete", u)
		}
		name := "`" + u.Annotation + "`"
		if u.Value != "" {
			name = fmt.Sprintf("`%s: %q`", u.Annotation, u.Value)
		}
		fmt.Fprintf(&table, "| %s | %s | `%s` | %s | %s |\n", name, u.Kind, u.Reason, u.Effect, u.Remedy)
	}
	text, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("docs/reference.md has another table than the code's:\n%s", table.String())
	}
}

// TestUnservedWords: an Event has the words of a line that its object asks for, and not of another with its reason.
func TestUnservedWords(t *testing.T) {
	for _, u := range UnservedAnnotations {
		kind := PodKind
		if u.Kind == serviceKind {
			kind = ServiceKind
		}
		told := UnservedProblems(kind, &metav1.ObjectMeta{}, trimUnserved(u.Kind, map[string]string{u.Annotation: "true"}))
		want := fmt.Sprintf("weft does not serve annotation %s: %s; %s", u.Annotation, u.Effect, u.Remedy)
		if len(told) != 1 || told[0].Message != want {
			t.Errorf("%s: %+v, want %q", u.Annotation, told, want)
		}
	}
}
