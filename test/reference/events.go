package reference

import (
	"cmp"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

const reasons = Module + "models/reasons"

// reason is one of an Event or of a condition, as the code declares it.
type reason struct {
	name, on, meaning, remedy, see, folder string
	flag                                   bool // Normal of an Event, Ready of a condition
}

// reasonsOf are all of a type, by name and object.
func reasonsOf(s *Source, typeName, flag string) (found []reason, err error) {
	for _, p := range s.literals(reasons, typeName) {
		fields, err := p.fields()
		if err != nil {
			return nil, err
		}
		r := reason{folder: p.in.folder}
		for _, f := range []struct {
			name   string
			text   *string
			always bool
		}{{"Name", &r.name, true}, {"On", &r.on, true}, {"Meaning", &r.meaning, true}, {"Remedy", &r.remedy, false},
			{"See", &r.see, false}} {
			value := fields[f.name]
			if value == nil && !f.always {
				continue
			}
			if value == nil {
				return nil, p.errorf("a reason needs the field %s", f.name)
			}
			if *f.text, err = p.at(value).text(); err != nil {
				return nil, err
			}
		}
		_, r.flag = fields[flag]
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b reason) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.on, b.on), cmp.Compare(a.folder, b.folder))
	})
	return found, nil
}

// Events is the page of the reasons of all Events.
func Events(s *Source) (*Page, error) {
	found, err := reasonsOf(s, "Event", "Normal")
	if err != nil {
		return nil, err
	}
	if err := checkRecorders(s); err != nil {
		return nil, err
	}
	page := NewPage("Events", `
These are the reasons of all Events that Weft writes. `+"`kubectl describe`"+` shows the Events of an
object. `+"`kubectl get events -A --field-selector reason=NAME`"+` shows all Events with one reason. The
message of a Warning names the field, the value and the remedy. Events whose row says "No action is
needed" report that something has changed.`)
	var rows [][]string
	for _, r := range found {
		remedy := r.remedy
		if r.flag {
			remedy = "No action is needed."
		}
		if r.see != "" {
			remedy = strings.TrimSpace(fmt.Sprintf("%s [More](../%s).", remedy, r.see))
		}
		rows = append(rows, []string{Code(r.name), r.on, Code(writer(r.folder)), r.meaning, remedy})
	}
	page.Table([]string{"reason", "on", "written by", "meaning", "what to do"}, rows)
	return page, nil
}

// writer is the program that has a folder's code.
func writer(folder string) string {
	switch {
	case folder == "node/chassis":
		return "weft chassis"
	case folder == "node" || strings.HasPrefix(folder, "node/"):
		return "weft node"
	}
	return "weft controller"
}

// recorders are the methods that write an Event, and the place of its reason among the arguments.
var recorders = map[string]int{"Event": 2, "Eventf": 2, "AnnotatedEventf": 3}

// checkRecorders finds Events that are written by a mere text and not by a reason.
func checkRecorders(s *Source) error {
	written := 0
	for _, p := range all[*ast.CallExpr](s) {
		call := p.node.(*ast.CallExpr)
		method, _ := call.Fun.(*ast.SelectorExpr)
		if method == nil {
			continue
		}
		at, records := recorders[method.Sel.Name]
		if !records || len(call.Args) <= at {
			continue
		}
		written++
		if of, _ := call.Args[at].(*ast.SelectorExpr); of == nil || of.Sel.Name != "Name" && of.Sel.Name != "Reason" {
			return p.errorf("the reason of an Event is that of a variable of type %s.Event", path.Base(reasons))
		}
	}
	if written == 0 {
		return fmt.Errorf("no code was found that writes Events")
	}
	return nil
}

// Conditions is the page of the conditions Ready and WeftReady.
func Conditions(s *Source) (*Page, error) {
	found, err := reasonsOf(s, "Condition", "Ready")
	if err != nil {
		return nil, err
	}
	page := NewPage("Conditions", `
Weft writes one condition to `+"`status.conditions`"+` of the objects that it serves. Its type is
`+"`Ready`"+`. To a Node the agent writes the condition `+"`WeftReady`"+`. A NetworkPolicy has no status, so the
annotation `+"`weft.net/policy-status`"+` has its reason and message. The message of a condition names the
field, the value and the remedy.`)
	var rows [][]string
	for _, r := range found {
		status := "False"
		if r.flag {
			status = "True"
		}
		remedy := r.remedy
		if remedy == "" {
			remedy = "No action is needed."
		}
		rows = append(rows, []string{Code(r.name), r.on, Code(status), r.meaning, remedy})
	}
	page.Table([]string{"reason", "on", "status", "meaning", "what to do"}, rows)
	return page, nil
}
