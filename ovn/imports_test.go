package ovn

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/weftnet/weft/test/imports"
)

// Each package of the translation imports those below it alone, and none of them the package that wires the parts.
// Those that use the translation, as programs or as commands, are above it.
func TestImportsPointOneWay(t *testing.T) {
	above := []string{"bounded", "explain", "flows", "hits", "manifest", "observe", "ovntrace", "southbound", "status",
		"trace"}
	below := map[string]string{
		"acl":          "",
		"capability":   "",
		"ipam":         "",
		"policy":       "",
		"election":     "",
		"latency":      "",
		"hosting":      "objects northbound part records egress pools",
		"watch":        "objects part",
		"writeback":    "objects part",
		"settings":     "ipam",
		"objects":      "ipam policy",
		"northbound":   "ipam policy objects",
		"loadbalancer": "ipam capability objects northbound",
		"part":         "objects",
		"pools":        "ipam settings objects northbound part topology",
		"topology":     "ipam capability settings objects northbound part loadbalancer",
		"egress":       "ipam capability settings objects northbound part topology",
		"nodes":        "ipam capability settings objects northbound part topology records",
		"ovntest":      "settings objects part",
		"records":      "ipam settings objects part",
		"flushes":      "objects northbound part",
		"interconnect": "ipam settings objects northbound part records",
		"claims":       "ipam settings objects part topology",
		"namespaces":   "objects part",
		"servicecidrs": "ipam settings objects northbound part topology",
		"domains":      "settings objects northbound part",
		"services":     "ipam settings objects northbound part topology loadbalancer claims flushes pools",
		"pods":         "ipam capability settings objects northbound part topology policies egress",
		"policies":     "ipam policy settings objects northbound part domains",
	}
	folders, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range folders {
		name := filepath.Dir(file)
		if _, is := below[name]; !is && !slices.Contains(above, name) {
			t.Errorf("%s is neither below the translation nor above it: say which packages it may import", name)
		}
	}
	imports.PointOneWay(t, "github.com/weftnet/weft/ovn", below)
}
