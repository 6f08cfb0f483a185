package reference

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path of Weft's own packages.
const Module = "github.com/weftnet/weft/"

// programs are the folders whose packages make Weft's programs.
var programs = []string{"cmd/weft", "cmd/weft-cni", "cni", "connectivity", "models", "node", "ovn", "ovsdb", "ui"}

// Source is the code of Weft's programs, for all systems: facts are read in it that no value of a running program has,
// such as the help of a metric that only Windows nodes have.
type Source struct {
	positions *token.FileSet
	packages  map[string]*sourcePackage // by folder, from the root
}

type sourcePackage struct {
	folder    string
	files     []*ast.File
	constants map[string]constant
}

// constant is the expression of a named constant, which may name others of its file's imports, and its comment.
type constant struct {
	file  *ast.File
	value ast.Expr
	doc   string
}

// ReadSource parses the code below a root. Tests, and packages for tests, are no part of it.
func ReadSource(root string) (*Source, error) {
	s := &Source{positions: token.NewFileSet(), packages: map[string]*sourcePackage{}}
	for _, program := range programs {
		err := filepath.WalkDir(filepath.Join(root, program), func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasSuffix(d.Name(), "test") || d.Name() == "testdata"):
				return fs.SkipDir
			case !d.IsDir() && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
				return s.parse(root, file)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return s, nil
}

func (s *Source) parse(root, file string) error {
	parsed, err := parser.ParseFile(s.positions, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	below, err := filepath.Rel(root, filepath.Dir(file))
	if err != nil {
		return err
	}
	folder := filepath.ToSlash(below)
	p := s.packages[folder]
	if p == nil {
		p = &sourcePackage{folder: folder, constants: map[string]constant{}}
		s.packages[folder] = p
	}
	p.files = append(p.files, parsed)
	for _, d := range parsed.Decls {
		group, _ := d.(*ast.GenDecl)
		if group == nil || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			names := spec.(*ast.ValueSpec)
			doc := names.Doc
			if doc == nil && !group.Lparen.IsValid() {
				doc = group.Doc
			}
			for i, value := range names.Values {
				p.constants[names.Names[i].Name] = constant{parsed, value, strings.Join(strings.Fields(doc.Text()), " ")}
			}
		}
	}
	return nil
}

// place is a node of the syntax, with what its names mean.
type place struct {
	source *Source
	in     *sourcePackage
	file   *ast.File
	node   ast.Node
}

func (p place) at(node ast.Node) place { return place{p.source, p.in, p.file, node} }

// errorf names the place in the code.
func (p place) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %s", p.source.positions.Position(p.node.Pos()), fmt.Sprintf(format, args...))
}

// all are the places of a kind of node, in the order of folders and files.
func all[N ast.Node](s *Source) (found []place) {
	for _, folder := range sortedKeys(s.packages) {
		for _, file := range s.packages[folder].files {
			ast.Inspect(file, func(n ast.Node) bool {
				if _, ok := n.(N); ok {
					found = append(found, place{s, s.packages[folder], file, n})
				}
				return true
			})
		}
	}
	return found
}

// literals are the places of composite literals of a type of another package.
func (s *Source) literals(importPath, name string) (found []place) {
	for _, p := range all[*ast.CompositeLit](s) {
		if at, typeName := p.at(p.node.(*ast.CompositeLit).Type).qualified(); at == importPath && typeName == name {
			found = append(found, p)
		}
	}
	return found
}

// qualified is the name of another package, as pkg.Name.
func (p place) qualified() (importPath, name string) {
	selector, _ := p.node.(*ast.SelectorExpr)
	if selector == nil {
		return "", ""
	}
	local, _ := selector.X.(*ast.Ident)
	if local == nil {
		return "", ""
	}
	for _, spec := range p.file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err == nil && (spec.Name == nil && path.Base(importPath) == local.Name ||
			spec.Name != nil && spec.Name.Name == local.Name) {
			return importPath, selector.Sel.Name
		}
	}
	return "", ""
}

// fields are a composite literal's, by name.
func (p place) fields() (map[string]ast.Expr, error) {
	literal, _ := p.node.(*ast.CompositeLit)
	if literal == nil {
		return nil, p.errorf("the reference can read only a literal here")
	}
	fields := map[string]ast.Expr{}
	for _, element := range literal.Elts {
		pair, _ := element.(*ast.KeyValueExpr)
		if pair == nil {
			return nil, p.errorf("name the fields, since the reference reads them")
		}
		fields[pair.Key.(*ast.Ident).Name] = pair.Value
	}
	return fields, nil
}

// text is the value of a constant expression: literals, constants of any package, and their sums.
func (p place) text() (string, error) {
	switch e := p.node.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return strconv.Unquote(e.Value)
		}
	case *ast.ParenExpr:
		return p.at(e.X).text()
	case *ast.BinaryExpr:
		left, err := p.at(e.X).text()
		if err != nil {
			return "", err
		}
		right, err := p.at(e.Y).text()
		return left + right, err
	case *ast.Ident:
		if c, ok := p.in.constants[e.Name]; ok {
			return place{p.source, p.in, c.file, c.value}.text()
		}
	case *ast.SelectorExpr:
		importPath, name := p.qualified()
		if other := p.source.packages[strings.TrimPrefix(importPath, Module)]; other != nil {
			if c, ok := other.constants[name]; ok {
				return place{p.source, other, c.file, c.value}.text()
			}
		}
	}
	return "", p.errorf("the reference can read only constant texts here")
}

// number is a constant number, as it is written.
func (p place) number() (string, error) {
	if literal, _ := p.node.(*ast.BasicLit); literal != nil && literal.Kind == token.INT {
		return strings.TrimPrefix(literal.Value, "0o"), nil
	}
	importPath, name := p.qualified()
	if other := p.source.packages[strings.TrimPrefix(importPath, Module)]; other != nil {
		if c, ok := other.constants[name]; ok {
			return place{p.source, other, c.file, c.value}.number()
		}
	}
	return "", p.errorf("the reference can read only a constant number here")
}

// texts are the values of a literal list.
func (p place) texts() (found []string, err error) {
	list, _ := p.node.(*ast.CompositeLit)
	if list == nil {
		return nil, p.errorf("the reference can read only a literal list here")
	}
	for _, element := range list.Elts {
		text, err := p.at(element).text()
		if err != nil {
			return nil, err
		}
		found = append(found, text)
	}
	return found, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
