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

var which = flag.String("tests", "", "alone: only the tests that have the cluster to themselves, one after the other; "+
	"together: only those that run at the same time; empty: all")

// choose has the package run the tests that -tests names.
func choose() error {
	if *which == "" {
		return nil
	}
	together, err := parallelTests()
	if err != nil {
		return err
	}
	option, ok := map[string]string{"alone": "test.skip", "together": "test.run"}[*which]
	if !ok {
		return fmt.Errorf("-tests is %q: give alone or together", *which)
	}
	return flag.Set(option, "^("+strings.Join(together, "|")+")$")
}

// parallelTests are the names of the package's tests whose first word is t.Parallel.
func parallelTests() (names []string, err error) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") && beginsParallel(f) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names, nil
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
