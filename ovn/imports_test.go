package ovn

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each package of the translation imports those below it alone, and none of them the package that wires the parts.
// Those that use the translation, as programs or as commands, are above it.
func TestImportsPointOneWay(t *testing.T) {
	const ovn = "github.com/weftnet/weft/ovn/"
	above := []string{"explain", "hits", "manifest", "observe", "southbound"}
	below := map[string]string{
		"acl":        "",
		"capability": "",
		"ipam":       "",
		"policy":     "",
		"watch":      "objects part",
		"writeback":  "objects part",
		"settings":   "ipam",
		"objects":    "ipam policy",
		"northbound": "ipam policy objects",
		"part":       "objects",
		"pools":      "ipam settings objects northbound part topology",
		"services":   "ipam capability objects northbound",
		"topology":   "ipam capability settings objects northbound part services",
		"egress":     "ipam capability settings objects northbound part topology",
		"nodes":      "ipam capability settings objects northbound part topology records",
		"ovntest":    "settings objects",
		"records":    "ipam settings objects part",
		"flushes":    "objects northbound part",
		"domains":    "settings objects northbound part",
		"pods":       "ipam capability settings objects northbound part topology policies egress",
		"policies":   "ipam policy settings objects northbound part domains",
	}
	folders, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range folders {
		name := filepath.Dir(file)
		if _, is := below[name]; !is && !slices.Contains(above, name) {
			t.Errorf("%s is neither below the translation nor above it: say which packages it may import", name)
		}
	}
	for name, allowed := range below {
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", name, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				other, ours := strings.CutPrefix(path, ovn)
				if ours && !slices.Contains(strings.Fields(allowed), other) || path+"/" == ovn {
					t.Errorf("%s imports %s", file, path)
				}
			}
		}
	}
}
