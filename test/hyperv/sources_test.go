package hyperv

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// cited is a function of the driver's as comments name it: by the driver's own prefix, or after its file.
	cited = regexp.MustCompile(`\b(Ovs[A-Z]\w+)|[A-Z][\w-]+\.[ch], ([A-Za-z]*[a-z][A-Z]\w*)`)
	// named is a word in code's letters of a document.
	named = regexp.MustCompile("`([A-Za-z_]\\w*)`")
)

// TestSourcesAreInTheDocument: docs/hyperv.md names each function that the emulator follows, and each test that it
// names is there.
func TestSourcesAreInTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/hyperv.md")
	if err != nil {
		t.Fatal(err)
	}
	document := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		document[m[1]] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	tests, functions := "", 0
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			tests += string(code)
			continue
		}
		for _, m := range cited.FindAllStringSubmatch(string(code), -1) {
			name := m[1] + m[2]
			if functions++; !document[name] {
				t.Errorf("%s follows %s, which docs/hyperv.md does not name", file, name)
			}
		}
	}
	if functions < 100 {
		t.Errorf("only %d functions were found in the code's comments", functions)
	}
	for name := range document {
		if strings.HasPrefix(name, "Test") && !strings.Contains(tests, "func "+name+"(") {
			t.Errorf("docs/hyperv.md names %s, which is no test of this package", name)
		}
	}
}
