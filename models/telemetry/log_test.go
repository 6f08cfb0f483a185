package telemetry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestObjectsAreNamedAsRowsNameThem(t *testing.T) {
	for want, attr := range map[string]string{"Pod/shop/web": Object("Pod", "shop", "web").String(),
		"Node/l1": Object("Node", "", "l1").String()} {
		if attr != "object="+want {
			t.Errorf("%s, want %s", attr, want)
		}
	}
}

// TestObjectsHaveOneKey goes through the source: no line of a log names an object under a key of its kind.
func TestObjectsHaveOneKey(t *testing.T) {
	levels := []string{"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext",
		"With"}
	kinds := []string{`"kind"`, `"node"`, `"owner"`, `"pod"`, `"policy"`, `"service"`}
	calls := 0
	for _, root := range []string{"cmd", "cni", "models", "node", "ovn", "ovsdb"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			tree, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isLog(call.Fun, levels) {
					return true
				}
				calls++
				for _, argument := range call.Args {
					if text, ok := argument.(*ast.BasicLit); ok && slices.Contains(kinds, text.Value) {
						t.Errorf("%s: the key %s; use telemetry.Object", files.Position(call.Pos()), text.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 50 {
		t.Errorf("only %d lines of logs were found", calls)
	}
}

// isLog says whether a function writes a line of a log: slog.Warn, l.log.Warn.
func isLog(function ast.Expr, levels []string) bool {
	selected, ok := function.(*ast.SelectorExpr)
	if !ok || !slices.Contains(levels, selected.Sel.Name) {
		return false
	}
	switch of := selected.X.(type) {
	case *ast.Ident:
		return of.Name == "slog" || of.Name == "log"
	case *ast.SelectorExpr:
		return of.Sel.Name == "log"
	}
	return false
}
