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
func TestImportsPointOneWay(t *testing.T) {
	const ovn = "github.com/weftnet/weft/ovn/"
	for name, allowed := range map[string]string{
		"acl":        "",
		"capability": "",
		"ipam":       "",
		"policy":     "",
		"settings":   "ipam",
		"objects":    "ipam policy",
		"northbound": "ipam policy objects",
		"part":       "objects",
		"pools":      "objects",
		"services":   "ipam capability objects northbound",
		"flushes":    "objects northbound part",
		"domains":    "settings objects northbound part",
		"policies":   "ipam policy settings objects northbound part domains",
	} {
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
				other, below := strings.CutPrefix(path, ovn)
				if below && !slices.Contains(strings.Fields(allowed), other) || path+"/" == ovn {
					t.Errorf("%s imports %s", file, path)
				}
			}
		}
	}
}
