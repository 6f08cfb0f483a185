package models_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models"
	"github.com/weftnet/weft/models/schemas"
)

func TestGeneratedCodeIsCurrent(t *testing.T) {
	for pkg, schema := range map[string]string{"nb": "ovn-nb", "sb": "ovn-sb", "vswitch": "vswitch"} {
		t.Run(pkg, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("go", "tool", "modelgen", "-extended", "-p", pkg, "-o", dir, "schemas/"+schema+".ovsschema")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("generate: %v: %s", err, out)
			}
			want, have := files(t, dir), files(t, pkg)
			if !slices.Equal(want, have) {
				t.Fatalf("the package has the files %v, generated would be %v; run make generate", have, want)
			}
			for _, name := range want {
				if string(read(t, filepath.Join(dir, name))) != string(read(t, filepath.Join(pkg, name))) {
					t.Errorf("%s/%s is not what its schema gives; run make generate", pkg, name)
				}
			}
		})
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t *testing.T, text []byte) ovsdb.DatabaseSchema {
	t.Helper()
	var schema ovsdb.DatabaseSchema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestRequirementsAreInTheSchemas(t *testing.T) {
	byName := map[string]ovsdb.DatabaseSchema{}
	for _, text := range [][]byte{schemas.Northbound, schemas.Southbound, schemas.OpenVSwitch} {
		schema := parse(t, text)
		byName[schema.Name] = schema
	}
	for _, r := range models.Requirements {
		table := byName[r.Database].Table(r.Table)
		if table == nil || r.Column != "" && table.Column(r.Column) == nil {
			t.Errorf("%s.%s.%s is required and not in the schema that the models come from", r.Database, r.Table, r.Column)
		}
	}
}

func TestCheck(t *testing.T) {
	const schema = `{"name":"OVN_Northbound","version":"6.1.0","tables":{"ACL":{"columns":{"name":{"type":"string"}}}}}`
	for name, c := range map[string]struct {
		needed   map[string][]string
		features []string
		problem  string
	}{
		"all there":       {needed: map[string][]string{"ACL": {"name"}}},
		"optional column": {needed: map[string][]string{"ACL": {"name", "tier"}}, features: []string{"ACL tiers"}},
		"optional table": {needed: map[string][]string{"Chassis_Template_Var": {"chassis"}},
			features: []string{"NodePort templates"}},
		"mandatory column": {needed: map[string][]string{"NAT": {"gateway_port"}},
			problem: "database OVN_Northbound has no table NAT; OVN 25.03 has it"},
		"known first": {needed: map[string][]string{"Static_MAC_Binding": {"ip"}},
			problem: "no table Static_MAC_Binding; OVN 22.06 is the first to have it"},
		"column never heard": {needed: map[string][]string{"ACL": {"meter"}},
			problem: "table ACL of database OVN_Northbound has no column meter; OVN 25.03 has it"},
	} {
		t.Run(name, func(t *testing.T) {
			missing, err := models.Check(parse(t, []byte(schema)), c.needed, models.Requirements)
			if got := models.Features(missing); !slices.Equal(got, c.features) {
				t.Errorf("features %v are off instead of %v", got, c.features)
			}
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("the error is %v instead of %q", err, c.problem)
			}
		})
	}
}
