package ovsdriver

import (
	"slices"
	"strings"
	"testing"
)

func TestInstalled(t *testing.T) {
	for _, c := range []struct {
		name, there string // services
		want        string
		ok          bool
		problem     string
	}{
		{"", "", "upstream", false, ""},
		{"", "OVSExt", "upstream", true, ""},
		{"", "DBO_OVSE", "dbosoft", true, ""},
		{"", "OVSExt DBO_OVSE", "upstream", true, "ovs-driver"},
		{"antrea", "OVSExt DBO_OVSE", "antrea", true, ""},
		{"dbosoft", "OVSExt DBO_OVSE", "dbosoft", true, ""},
		{"dbosoft", "OVSExt", "dbosoft", false, ""},
	} {
		kind, ok, err := Installed(c.name, func(k Kind) bool { return slices.Contains(strings.Fields(c.there), k.Service) })
		if kind.Name != c.want || ok != c.ok || (err == nil) != (c.problem == "") || err != nil &&
			!strings.Contains(err.Error(), c.problem) {
			t.Errorf("%q with %q: %s, %v, %v", c.name, c.there, kind.Name, ok, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, k := range Kinds {
		if err := Validate(k.Name); err != nil {
			t.Error(err)
		}
		if k.Extension != strings.ToUpper(k.Extension) || len(k.Extension) != 36 || k.Title == "" || k.Component == "" ||
			k.Service == "" || !strings.HasSuffix(k.INF, ".inf") || !strings.HasSuffix(k.SYS, ".sys") {
			t.Errorf("%+v", k)
		}
	}
	if Validate("") != nil || Validate("other") == nil || !strings.Contains(Validate("other").Error(), "dbosoft") {
		t.Error("a name that is none's is taken, or the others are not told")
	}
}
