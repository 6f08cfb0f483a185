package ovsdblog

import (
	"slices"
	"testing"
)

// Neither database is the one that is looked through: what only the other one has is a difference, too.
func TestDifferences(t *testing.T) {
	tables := func(rows map[string]Row) *Database {
		return &Database{Tables: map[string]map[string]Row{"Logical_Switch": rows, "NB_Global": {"g": {"nb_cfg": {"1": ""}}}}}
	}
	named := func(name string) Row { return Row{"name": {name: ""}} }
	a := tables(map[string]Row{"1": named("n1"), "2": named("n2"), "3": named("n3")})
	for what, c := range map[string]struct {
		other *Database
		want  []string
	}{
		"the same": {tables(map[string]Row{"1": named("n1"), "2": named("n2"), "3": named("n3")}), nil},
		"another value": {tables(map[string]Row{"1": named("n1"), "2": named("m2"), "3": named("n3")}),
			[]string{"Logical_Switch 2 name: map[n2:], then map[m2:]"}},
		"a column more": {tables(map[string]Row{"1": {"name": {"n1": ""}, "acls": {"x": ""}}, "2": named("n2"),
			"3": named("n3")}), []string{"Logical_Switch 1 acls: map[], then map[x:]"}},
		"a row less, and one more": {tables(map[string]Row{"1": named("n1"), "3": named("n3"), "4": named("n4")}),
			[]string{"Logical_Switch 2 is only in the first one: map[name:map[n2:]]",
				"Logical_Switch 4 is only in the second one: map[name:map[n4:]]"}},
	} {
		if got := slices.Collect(Differences(a, c.other, "NB_Global")); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	b := tables(nil)
	b.Tables["Load_Balancer"] = map[string]Row{"5": named("web")}
	b.Tables["NB_Global"]["g"]["nb_cfg"] = Value{"2": ""}
	want := []string{"Load_Balancer 5 is only in the second one: map[name:map[web:]]",
		"NB_Global g nb_cfg: map[1:], then map[2:]"}
	if got := slices.Collect(Differences(b, b)); got != nil {
		t.Errorf("a database differs from itself: %q", got)
	}
	if got := slices.Collect(Differences(tables(nil), b)); !slices.Equal(got, want) {
		t.Errorf("tables: %q, want %q", got, want)
	}
}
