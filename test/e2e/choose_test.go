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
)

var which = flag.String("tests", "", "together: only the tests that run at the same time; odd, even: only every "+
	"other one of those that have the cluster to themselves, one after the other; empty: all")

// choose has the package run the tests that -tests names.
func choose() error {
	if *which == "" {
		return nil
	}
	alone, together, err := tests()
	if err != nil {
		return err
	}
	chosen := map[string][]string{"together": together}
	for i, name := range alone {
		parity := []string{"odd", "even"}[i%2]
		chosen[parity] = append(chosen[parity], name)
	}
	names, ok := chosen[*which]
	if !ok {
		return fmt.Errorf("-tests is %q: give odd, even or together", *which)
	}
	return flag.Set("test.run", "^("+strings.Join(names, "|")+")$")
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
