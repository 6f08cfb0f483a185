package hyperv

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// camel is a word as the driver writes its functions and files, and as Go writes names.
	camel = regexp.MustCompile(`\b_?[A-Za-z]*[a-z]{2}[A-Z]\w*(?:\.[ch]\b)?`)
	// test is a test's name, or a fuzz test's.
	test = regexp.MustCompile(`^(?:Test|Fuzz)[A-Z]`)
	// quoted is what stands in code's letters in a document: a name, or a file of Open vSwitch's.
	quoted = regexp.MustCompile("`([\\w/.-]+)`")
	// driverFile is a file of the driver's source. Those of ovs-vswitchd have a path.
	driverFile = regexp.MustCompile(`^[A-Z][\w-]*\.[ch]$`)
	sourceFile = regexp.MustCompile(`\.[ch]$`)
)

// documented is what docs/hyperv.md names.
type documented struct {
	functions map[string]bool // in rows, after a file; whether the file is the driver's
	tests     map[string]bool
}

func readDocument(t *testing.T) documented {
	t.Helper()
	text, err := os.ReadFile("../../docs/hyperv.md")
	if err != nil {
		t.Fatal(err)
	}
	d := documented{map[string]bool{}, map[string]bool{}}
	for line := range strings.Lines(string(text)) {
		row, file := strings.HasPrefix(line, "|"), ""
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			switch name := m[1]; {
			case test.MatchString(name):
				d.tests[name] = true
			case sourceFile.MatchString(name):
				file = name
			case row && file != "" && !strings.Contains(name, "."):
				d.functions[name] = driverFile.MatchString(file)
			}
		}
	}
	return d
}

// source is what the package's code names.
type source struct {
	names map[string]bool   // Go's own
	words map[string]string // of comments outside of tests, as the driver writes functions; the file with the comment
	tests map[string]bool
}

func readSource(t *testing.T) source {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	s := source{map[string]bool{}, map[string]string{}, map[string]bool{}}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				s.names[id.Name] = true
			}
			return true
		})
		if !strings.HasSuffix(name, "_test.go") {
			for _, comment := range file.Comments {
				for _, word := range camel.FindAllString(comment.Text(), -1) {
					s.words[word] = name
				}
			}
			continue
		}
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && test.MatchString(f.Name.Name) {
				s.tests[f.Name.Name] = true
			}
		}
	}
	return s
}

// TestSourcesAreInTheDocument: the tables of docs/hyperv.md and the code's comments name the same functions of the
// driver, and each test that the document names is there.
func TestSourcesAreInTheDocument(t *testing.T) {
	document, code := readDocument(t), readSource(t)
	cited := 0
	for word, file := range code.words {
		if code.names[word] || sourceFile.MatchString(word) {
			continue
		}
		if cited++; !document.functions[word] {
			t.Errorf("%s follows %s, which no row of docs/hyperv.md names after a file of the driver's", file, word)
		}
	}
	if cited < 100 {
		t.Errorf("only %d functions were found in the code's comments", cited)
	}
	for name, driver := range document.functions {
		if _, ok := code.words[name]; driver && !ok {
			t.Errorf("docs/hyperv.md names %s of the driver, which no comment of the code does", name)
		}
	}
	for name := range document.tests {
		if !code.tests[name] {
			t.Errorf("docs/hyperv.md names %s, which is no test of this package", name)
		}
	}
}
