package ovntrace

import (
	"bytes"
	"regexp"
	"strings"
)

// Lists of which only a part is in a [scope]: the members of an address set, and the datapaths of a group. Each begins
// so if it has several elements. Nothing else of the Southbound for which this would matter has columns of these names.
const (
	members   = `"addresses":["set",[`
	datapaths = `"datapaths":["set",[`
)

// trimmer writes such a list without the elements that are out of the scope. What has come of an element waits for its
// end.
type trimmer struct {
	scope   *scope
	list    string // the beginning of the list, "" outside of lists
	element []byte
	depth   int  // of brackets in the element
	quoted  bool // the next byte is in a string
	escaped bool // the next byte of the string means itself
	any     bool // of the list's elements, some were kept
}

// takes reads the next byte of the list.
func (t *trimmer) takes(b byte, out *bytes.Buffer) {
	switch {
	case t.quoted:
		t.quoted = t.escaped || b != '"'
		t.escaped = !t.escaped && b == '\\'
	case t.depth == 0 && (b == ',' || b == ']'):
		t.end(out)
		if b == ']' {
			out.WriteByte(b)
			t.list, t.any = "", false
		}
		return
	case b == '"':
		t.quoted = true
	case b == '[':
		t.depth++
	case b == ']':
		t.depth--
	}
	t.element = append(t.element, b)
}

// end writes the element if it is in the scope.
func (t *trimmer) end(out *bytes.Buffer) {
	element := bytes.TrimSpace(t.element)
	t.element = t.element[:0]
	if len(element) == 0 || !t.keeps(string(element)) {
		return
	}
	if t.any {
		out.WriteByte(',')
	}
	t.any = true
	out.Write(element)
}

// reference is an element that names a row.
var reference = regexp.MustCompile(`^\["uuid","([0-9a-f-]{36})"\]$`)

func (t *trimmer) keeps(element string) bool {
	if t.list == members {
		return t.scope.keepsMember(strings.Trim(element, `"`))
	}
	m := reference.FindStringSubmatch(element)
	return m == nil || t.scope.datapaths[m[1]]
}
