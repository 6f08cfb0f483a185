package node

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each room of the agent imports those below it alone: neither system reaches behind the contract, and the
// database knows nobody that uses it.
func TestImportsPointOneWay(t *testing.T) {
	const rooms = "github.com/weftnet/weft/node/"
	for room, allowed := range map[string]string{
		"platform":    "extbridge statefile",
		"linux":       "platform domains extbridge",
		"windows":     "platform extbridge hns hostnet ovsdriver",
		"nodeconfig":  "ipsec ovsdriver",
		"openvswitch": "platform nodeconfig extbridge local",
		"local":       "",
		"health":      "",
		"pods":        "hostservice",
		"attach":      "platform nodeconfig openvswitch health pods",
		"encryption":  "nodeconfig openvswitch health ipsec",
		"gateway":     "platform nodeconfig openvswitch health extbridge ctlookup ctprobe openflow local",
	} {
		files, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", room, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				other, isRoom := strings.CutPrefix(path, rooms)
				if isRoom && !slices.Contains(strings.Fields(allowed), other) || path+"/" == rooms {
					t.Errorf("%s imports %s", file, path)
				}
			}
		}
	}
}
