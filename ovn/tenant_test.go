package ovn

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// TestTenantsFieldsAreJudged: the table of docs/security.md has a line for each field that rights in one namespace let
// somebody write, and each line names tests that there are.
func TestTenantsFieldsAreJudged(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "## What rights in one namespace reach\n")
	if !found {
		t.Fatal("docs/security.md has no section \"What rights in one namespace reach\"")
	}
	section, _, _ := strings.Cut(after, "\n## ")
	fields := map[string]string{} // the first column by object
	tests := map[string]bool{}
	object := ""
	for line := range strings.Lines(section) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			object = strings.TrimSpace(name)
		}
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			fields[object] += cells[1]
			for _, name := range regexp.MustCompile(`(Test|Fuzz)\w+`).FindAllString(cells[4], -1) {
				tests[name] = true
			}
			if strings.Contains(cells[1], "`") && !strings.Contains(cells[4], "`") {
				t.Errorf("%s,%s: no test is named", object, cells[1])
			}
		}
	}
	for object, types := range map[string][]reflect.Type{
		"Service": {reflect.TypeFor[corev1.ServiceSpec](), reflect.TypeFor[corev1.ServicePort]()},
		"EndpointSlice": {reflect.TypeFor[discoveryv1.EndpointSlice](), reflect.TypeFor[discoveryv1.Endpoint](),
			reflect.TypeFor[discoveryv1.EndpointPort]()},
		"Pod": {reflect.TypeFor[corev1.ContainerPort]()},
		"NetworkPolicy": {reflect.TypeFor[networkingv1.NetworkPolicySpec](),
			reflect.TypeFor[networkingv1.NetworkPolicyPeer](),
			reflect.TypeFor[networkingv1.NetworkPolicyPort]()},
	} {
		for _, of := range types {
			for i := range of.NumField() {
				name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				if name != "" && !regexp.MustCompile("[`.]"+name+"[`.\\[]").MatchString(fields[object]) {
					t.Errorf("%s: no line is about %s of %s", object, name, of.Name())
				}
			}
		}
	}
	for name := range tests {
		if !isTest(t, name) {
			t.Errorf("there is no test %s", name)
		}
	}
}

// isTest says whether the tree has a test of a name.
func isTest(t *testing.T, name string) (found bool) {
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || found || entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git") {
			return errOr(err, fs.SkipDir)
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		found = strings.Contains(string(text), "func "+name+"(")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
