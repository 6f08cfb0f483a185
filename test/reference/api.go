package reference

import (
	"fmt"
	"go/ast"
	"io/fs"
	"reflect"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/api/crds"
)

// definition is what the reference reads of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct{ OpenAPIV3Schema schema }
		}
	}
}

// schema is what the reference reads of the schema of a field.
type schema struct {
	Type, Format, Description string
	Default                   any
	Enum                      []string
	Required                  []string
	Properties                map[string]schema
	Items                     *schema
}

// API is the page of the fields of Weft's own kinds.
func API(s *Source) (*Page, error) {
	page := NewPage("Kinds and their fields", `
The kinds of the group `+"`weft.net`"+` are CustomResourceDefinitions, in `+"`models/api/crds`"+`. Their schemas
also have bounds and rules, with messages that the API server gives. `+"`kubectl explain`"+` shows the
same texts. The kinds of the group `+"`observe.weft.net`"+` are answers of
[weft observe](../reference.md#the-door-for-users). They are not stored. A Trace is a request, too:
the user sends the spec. A Capture is only a request: the answer to it is packets, as pcapng.

A duration is a text such as `+"`30s`"+` or `+"`1m30s`"+`.

A field of the group `+"`weft.net`"+` with a star must be there. Fields that Kubernetes documents are left
out, such as those of metadata, of a label selector and of a condition.`)
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := addDefinition(page, file); err != nil {
			return nil, err
		}
	}
	return page, addAnswers(page, s)
}

func addDefinition(page *Page, file string) error {
	text, err := crds.Files.ReadFile(file)
	if err != nil {
		return err
	}
	var d definition
	if err := yaml.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, version := range d.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		for _, common := range []string{"apiVersion", "kind", "metadata"} {
			delete(root.Properties, common)
		}
		rows, err := root.fields("")
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		page.Section(fmt.Sprintf("%s, %s/%s", d.Spec.Names.Kind, d.Spec.Group, version.Name), root.Description)
		page.Table(fieldsHead, rows)
	}
	return nil
}

var fieldsHead = []string{"field", "type", "default", "meaning"}

// fields are the rows of an object's fields, and of those in them.
func (s schema) fields(path string) (rows [][]string, err error) {
	for _, name := range sortedKeys(s.Properties) {
		field, at := s.Properties[name], path+name
		if field.Description == "" {
			return nil, fmt.Errorf("%s has no description", at)
		}
		mark := ""
		for _, required := range s.Required {
			if required == name {
				mark = "\\*"
			}
		}
		value := ""
		if field.Default != nil {
			value = Code(fmt.Sprint(field.Default))
		}
		rows = append(rows, []string{Code(at) + mark, field.kind(), value, field.Description})
		inner, prefix := field, at+"."
		if field.Items != nil {
			inner, prefix = *field.Items, at+"[]."
		}
		if inner.standard() {
			continue
		}
		below, err := inner.fields(prefix)
		if err != nil {
			return nil, err
		}
		rows = append(rows, below...)
	}
	return rows, nil
}

// standard says whether an object is of a type that Kubernetes documents.
func (s schema) standard() bool {
	_, selector := s.Properties["matchLabels"]
	_, condition := s.Properties["lastTransitionTime"]
	return selector || condition
}

func (s schema) kind() string {
	switch {
	case s.Items != nil && s.Items.standard():
		return "list of conditions"
	case s.Items != nil:
		return "list of " + s.Items.kind()
	case s.standard():
		return "label selector"
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, ", ")
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// answersFolder has the types of the answers of `weft observe`.
const answersFolder = "models/api/observe/v1alpha1"

// addAnswers adds a section for each type of an answer, which comments describe.
func addAnswers(page *Page, s *Source) error {
	for _, p := range all[*ast.GenDecl](s) {
		group := p.node.(*ast.GenDecl)
		if p.in.folder != answersFolder {
			continue
		}
		for _, spec := range group.Specs {
			declared, _ := spec.(*ast.TypeSpec)
			if declared == nil {
				continue
			}
			rows, err := p.at(declared.Type).answerFields()
			if err != nil {
				return err
			}
			_, meaning, found := strings.Cut(commentText(group.Doc), declared.Name.Name+" ")
			if !found {
				return p.errorf("the comment of %s does not begin with its name", declared.Name.Name)
			}
			page.Section(declared.Name.Name+", observe.weft.net/v1alpha1", "It "+verbFirst(meaning))
			page.Table([]string{"field", "type", "meaning"}, rows)
		}
	}
	return nil
}

// verbFirst is a comment's text after the name of a type, of which there is one.
func verbFirst(meaning string) string {
	if rest, plural := strings.CutPrefix(meaning, "are "); plural {
		return "has " + rest
	}
	return meaning
}

// answerFields are the rows of a struct's fields.
func (p place) answerFields() (rows [][]string, err error) {
	structure, _ := p.node.(*ast.StructType)
	if structure == nil {
		return nil, p.errorf("the reference describes only structs here")
	}
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 { // TypeMeta and the like
			continue
		}
		at := p.at(field)
		if field.Tag == nil || len(field.Names) != 1 || field.Doc == nil {
			return nil, at.errorf("the field needs a line, a comment and a name in JSON of its own")
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			return nil, at.errorf("%v", err)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		_, meaning, found := strings.Cut(commentText(field.Doc), field.Names[0].Name+" is ")
		if !found {
			return nil, at.errorf("the comment does not begin with %q", field.Names[0].Name+" is ")
		}
		rows = append(rows, []string{Code(name), goKind(field.Type), Sentence(meaning)})
	}
	return rows, nil
}

func commentText(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// goKind is how users call a type of Go.
func goKind(of ast.Expr) string {
	switch t := of.(type) {
	case *ast.ArrayType:
		return "list of " + goKind(t.Elt)
	case *ast.Ident:
		if strings.HasPrefix(t.Name, "int") || strings.HasPrefix(t.Name, "uint") {
			return "integer"
		}
		if t.Name == "any" {
			return "values"
		}
		return t.Name
	case *ast.StarExpr:
		return goKind(t.X)
	case *ast.MapType:
		return "map of " + goKind(t.Value)
	case *ast.SelectorExpr:
		switch t.Sel.Name {
		case "Time", "MicroTime":
			return "time"
		case "Duration":
			return "duration"
		}
		return t.Sel.Name
	}
	return "object"
}
