package reference

import (
	"fmt"
	"go/ast"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// addValues adds a section for each annotation whose value is JSON: the fields of its type, which comments describe.
func addValues(page *Page, s *Source, found []name) error {
	for _, n := range found {
		if n.kind != "annotation" || n.value == "" {
			continue
		}
		rows, err := n.in.fields(s, n.value, "")
		if err != nil {
			return fmt.Errorf("%s: %w", n.text, err)
		}
		page.Section("The value of "+Code(n.text), "The value is JSON. A field with a star is always there.")
		page.Table([]string{"field", "type", "meaning"}, rows)
	}
	return nil
}

// fieldMeaning is the comment of a field: NAME is MEANING, or NAME is there if CONDITION.
var fieldMeaning = regexp.MustCompile(`^\w+ (is there if|is|are) (.+)$`)

// fields are the rows of a struct's fields, and of those in them.
func (p *sourcePackage) fields(s *Source, of, path string) (rows [][]string, err error) {
	file, declared := p.declared(of)
	structure, _ := declared.(*ast.StructType)
	if structure == nil {
		return nil, fmt.Errorf("%s is no struct of %s", of, p.folder)
	}
	for _, field := range structure.Fields.List {
		at := place{s, p, file, field}
		if field.Tag == nil || len(field.Names) != 1 || field.Doc == nil {
			return nil, at.errorf("the field needs a line, a comment and a name in JSON of its own")
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return nil, at.errorf("%v", err)
		}
		m := fieldMeaning.FindStringSubmatch(another.ReplaceAllString(commentText(field.Doc), ""))
		if m == nil {
			return nil, at.errorf("the comment does not begin like %q", field.Names[0].Name+" is …")
		}
		meaning := m[2]
		if m[1] == "is there if" {
			meaning = "there if " + meaning
		}
		name, optional, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		mark := "\\*"
		if optional == "omitempty" || optional == "omitzero" {
			mark = ""
		}
		kind, inner := p.jsonKind(field.Type)
		rows = append(rows, []string{Code(path+name) + mark, kind, Sentence(meaning)})
		if inner != "" {
			below, err := p.fields(s, inner, path+name+".")
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
		}
	}
	return rows, nil
}

// jsonKind is how users call a type, and the struct whose fields it has in JSON, if it has any.
func (p *sourcePackage) jsonKind(of ast.Expr) (kind, inner string) {
	switch t := of.(type) {
	case *ast.StarExpr:
		return p.jsonKind(t.X)
	case *ast.ArrayType:
		kind, inner = p.jsonKind(t.Elt)
		return "list of " + kind, inner
	case *ast.SelectorExpr:
		switch t.Sel.Name {
		case "Addr":
			return "address", ""
		case "Prefix":
			return "CIDR", ""
		case "Time":
			return "time", ""
		}
	case *ast.Ident:
		_, declared := p.declared(t.Name)
		if declared == nil {
			return goKind(of), ""
		}
		if p.marshalsText(t.Name) {
			return "string", ""
		}
		if _, ok := declared.(*ast.StructType); ok {
			return "object", t.Name
		}
		return p.jsonKind(declared)
	}
	return "object", ""
}

// declared is what a type of the package is, nil of another one.
func (p *sourcePackage) declared(name string) (*ast.File, ast.Expr) {
	for _, file := range p.files {
		for _, d := range file.Decls {
			group, _ := d.(*ast.GenDecl)
			if group == nil {
				continue
			}
			for _, spec := range group.Specs {
				if declared, _ := spec.(*ast.TypeSpec); declared != nil && declared.Name.Name == name {
					return file, declared.Type
				}
			}
		}
	}
	return nil, nil
}

// marshalsText says whether JSON has a type as a string.
func (p *sourcePackage) marshalsText(name string) bool {
	for _, file := range p.files {
		for _, d := range file.Decls {
			f, _ := d.(*ast.FuncDecl)
			if f == nil || f.Recv == nil || f.Name.Name != "MarshalText" {
				continue
			}
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if ident, ok := of.(*ast.Ident); ok && ident.Name == name {
				return true
			}
		}
	}
	return false
}
