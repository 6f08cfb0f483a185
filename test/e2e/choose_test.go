//go:build cluster

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var (
	which = flag.String("tests", "", "alone: only the tests that have the cluster to themselves, one after the other; "+
		"together: only those that run at the same time; empty: all")
	turns = flag.String("turns", "", "a folder that several processes share, each with a cluster of its own: each of the "+
		"tests that -tests names runs in the process that comes to it first")
)

// runner runs tests, as *testing.M does.
type runner interface{ Run() int }

// chosen runs the tests that -tests and -turns name.
func chosen(m runner) (runner, error) {
	if *which == "" {
		if *turns != "" {
			return nil, errors.New("-turns is given without -tests: give -tests alone")
		}
		return m, nil
	}
	alone, together, err := tests()
	if err != nil {
		return nil, err
	}
	names, ok := map[string][]string{"alone": alone, "together": together}[*which]
	switch {
	case !ok:
		return nil, fmt.Errorf("-tests is %q: give alone or together", *which)
	case *turns != "":
		return inTurns{m, names, *turns}, os.MkdirAll(*turns, 0o755)
	}
	return m, only(names...)
}

// inTurns runs those of the tests that no other process with the same folder has taken. The process that takes a test
// creates a file of its name there.
type inTurns struct {
	runner
	names  []string
	folder string
}

// left is whether there is a test that nobody has taken yet.
func (t inTurns) left() bool {
	taken := func(name string) bool {
		_, err := os.Stat(filepath.Join(t.folder, name))
		return err == nil
	}
	return slices.ContainsFunc(t.names, func(name string) bool { return !taken(name) })
}

func (t inTurns) Run() int {
	code := 0
	for _, name := range t.names {
		file, err := os.OpenFile(filepath.Join(t.folder, name), os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = errors.Join(file.Close(), only(name))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "take %s from -turns: %v\n", name, err)
			return 2
		}
		code = max(code, t.runner.Run())
	}
	return code
}

// only has the next run of the tests run these.
func only(names ...string) error { return flag.Set("test.run", "^("+strings.Join(names, "|")+")$") }

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
