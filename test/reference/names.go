package reference

import (
	"cmp"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// name is an annotation, a label or another name of Weft's in objects and rows.
type name struct {
	text, kind, of, meaning string
	value                   string // the type that its JSON is of, "" of another value
	in                      *sourcePackage
}

var (
	ownName = regexp.MustCompile(`^weft\.net/[^ ]*[^/ ]$`)
	// described is the comment of a name's constant: IDENT is the KIND of OBJECT: MEANING.
	described = regexp.MustCompile(`^\w+ is the (annotation|label|class|schema|key in external_ids) of (.+?): (.+)$`)
	// another is a name of the code in a comment, which says nothing to users.
	another = regexp.MustCompile(` \(\[([^\]]*)\]\)`)
)

// Names is the page of all names in the domain weft.net. Each is a constant, whose comment describes it.
func Names(s *Source) (*Page, error) {
	found, err := names(s)
	if err != nil {
		return nil, err
	}
	page := NewPage("Annotations, labels and other names", `
These are all names that begin with `+"`weft.net/`"+`, in objects of Kubernetes, in rows of OVSDB and in
output. Two things are not among them: the `+"`apiVersion`"+` of [Weft's kinds](api.md), and the labels
`+"`weft.net/weft-node`, `weft.net/weft-controller` and `weft.net/manifest`"+` of the playbooks, for
[pods of Weft](../operations.md#pods-instead-of-units).

If the ValidatingAdmissionPolicy `+"`weft-annotations`"+` is [installed](../reference.md#rights), only
Weft and the group `+"`system:masters`"+` may write the annotations of Nodes and Pods below. Then no node
may write the labels of Nodes below. There is another list of [annotations that Weft does not
serve](../reference.md#annotations-that-weft-does-not-serve).`)
	for _, section := range []struct{ title, kind string }{{"Annotations", "annotation"}, {"Labels", "label"},
		{"Classes of Services", "class"}, {"Keys in external_ids of rows", "key in external_ids"},
		{"Schemas of output", "schema"}} {
		var rows [][]string
		for _, n := range found {
			if n.kind == section.kind {
				rows = append(rows, []string{Code(n.text), n.of, Sentence(n.meaning)})
			}
		}
		page.Section(section.title, "")
		page.Table([]string{"name", "of", "meaning"}, rows)
		if section.kind == "annotation" {
			if err := addValues(page, s, found); err != nil {
				return nil, err
			}
		}
	}
	return page, nil
}

// names are those of all constants, by what they are of.
func names(s *Source) (found []name, err error) {
	for _, folder := range sortedKeys(s.packages) {
		p := s.packages[folder]
		for _, ident := range sortedKeys(p.constants) {
			c := p.constants[ident]
			at := place{s, p, c.file, c.value}
			text, err := at.text()
			if err != nil || !ownName.MatchString(text) {
				continue // a number, or another text
			}
			m := described.FindStringSubmatch(c.doc)
			if m == nil {
				return nil, at.errorf("the comment of %s describes no %s; write it like: %s is the annotation of a Pod: …", ident,
					text, ident)
			}
			n := name{text, m[1], articleless(m[2]), another.ReplaceAllString(m[3], ""), "", p}
			if value := another.FindStringSubmatch(m[3]); value != nil {
				n.value = value[1]
			}
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b name) int { return cmp.Compare(a.text, b.text) })
	return found, nameless(s, found)
}

// nameless finds names that are written where they are used, beside the constants.
func nameless(s *Source, found []name) error {
	for _, p := range all[*ast.BasicLit](s) {
		text, err := p.text()
		if err != nil || !ownName.MatchString(text) {
			continue
		}
		if !slices.ContainsFunc(found, func(n name) bool { return n.text == text }) {
			return p.errorf("%s is no constant, which would have a comment", text)
		}
	}
	return nil
}

// articleless is an object without its article.
func articleless(object string) string {
	for _, article := range []string{"an ", "a ", "the "} {
		object = strings.TrimPrefix(object, article)
	}
	return object
}
