package reference

import (
	"cmp"
	"go/ast"
	"slices"
)

const hostfile = Module + "models/hostfile"

// Files is the page of the files that programs write on hosts.
func Files(s *Source) (*Page, error) {
	rows, err := files(s)
	if err != nil {
		return nil, err
	}
	if err := checkModes(s); err != nil {
		return nil, err
	}
	page := NewPage("Files", `
These are the files that Weft's programs write on hosts, without temporary files. A name in braces
is a [key](keys.md), or a flag of `+"`weft-cni`"+`, whose value is the folder or the path. Files with the
configuration, the certificates and the private keys of the programs are not in the list: the
[playbooks' roles](../../ansible/README.md) write them. On Windows the mode has no effect. There
only Administrators and LocalSystem may enter `+"`state-dir`"+`.`)
	page.Table([]string{"file", "mode", "written by", "what is in it", "if it is lost"}, rows)
	return page, nil
}

func files(s *Source) (rows [][]string, err error) {
	for _, p := range s.literals(hostfile, "File") {
		fields, err := p.fields()
		if err != nil {
			return nil, err
		}
		row := make([]string, 0, 5)
		for _, name := range []string{"Path", "Mode", "Content", "Loss"} {
			if fields[name] == nil {
				return nil, p.errorf("a file needs the field %s", name)
			}
			read := place.text
			if name == "Mode" {
				read = place.number
			}
			text, err := read(p.at(fields[name]))
			if err != nil {
				return nil, err
			}
			row = append(row, text)
		}
		program := "weft node"
		switch {
		case p.in.folder == "node/chassis":
			program = "weft chassis"
		case p.in.folder == "cmd/weft-cni":
			program = "weft-cni"
		case row[0] == "{file}": // weft node has no such key
			program = "weft sysdump"
		case row[0] == "{write}":
			program = "weft capture"
		}
		rows = append(rows, []string{Code(row[0]), Code(row[1]), Code(program), row[2], row[3]})
	}
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return rows, nil
}

// writers are the calls that give a file its mode, and the place of the mode among the arguments.
var writers = map[string]int{"WriteFile": 2, "OpenFile": 2, "Chmod": -1}

// checkModes finds files that are written with a mode that is no [hostfile.File]'s. 0 is for files of the kernel's,
// which are there.
func checkModes(s *Source) error {
	for _, p := range all[*ast.CallExpr](s) {
		call := p.node.(*ast.CallExpr)
		method, _ := call.Fun.(*ast.SelectorExpr)
		if method == nil || p.in.folder == "node/statefile" {
			continue
		}
		at, writes := writers[method.Sel.Name]
		if at < 0 {
			at = len(call.Args) - 1
		}
		if !writes || at < 0 || at >= len(call.Args) {
			continue
		}
		mode, _ := call.Args[at].(*ast.SelectorExpr)
		zero, _ := call.Args[at].(*ast.BasicLit)
		if (mode == nil || mode.Sel.Name != "Mode") && (zero == nil || zero.Value != "0") {
			return p.errorf("the mode of a file is that of a variable of type hostfile.File")
		}
	}
	return nil
}
