//go:build cluster

package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

var which = flag.String("tests", "", "alone: only the tests that have the cluster to themselves, one after the other; "+
	"together: only those that run at the same time; empty: all")

// choose has only the tests run that -tests names.
func choose() error {
	if *which == "" {
		return nil
	}
	alone, together, err := tests()
	if err != nil {
		return err
	}
	names, ok := map[string][]string{"alone": alone, "together": together}[*which]
	if !ok {
		return fmt.Errorf("-tests is %q: give alone or together", *which)
	}
	return flag.Set("test.run", "^("+strings.Join(names, "|")+")$")
}

// long leaves a test to `make cluster-test` where tests are short, as those of `make test` are: it takes minutes, or is
// about a subject of which another test is short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long, and tests are short")
	}
}

// tests are the names of the package's tests, in their order: together are those whose first word is t.Parallel.
func tests() (alone, together []string, err error) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range file.Decls {
			switch f, ok := d.(*ast.FuncDecl); {
			case !ok || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain":
			case beginsParallel(f):
				together = append(together, f.Name.Name)
			default:
				alone = append(alone, f.Name.Name)
			}
		}
	}
	return alone, together, nil
}

func beginsParallel(f *ast.FuncDecl) bool {
	if f.Recv != nil || len(f.Body.List) == 0 {
		return false
	}
	statement, ok := f.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := statement.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Parallel"
}
