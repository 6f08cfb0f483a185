package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/version"
)

// printed is what a command of weft writes to its output.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestScriptsReadTheVersion by `weft --version`, whose one line stays as it is.
func TestScriptsReadTheVersion(t *testing.T) {
	if got := printed(t, "--version"); got != "weft version unknown\n" {
		t.Errorf("weft --version prints %q", got)
	}
}

func TestVersionTellsAll(t *testing.T) {
	if got := printed(t, "version"); !strings.Contains(got, version.OVN) || !strings.Contains(got, "go1.") {
		t.Errorf("weft version prints %q", got)
	}
	var info version.Info
	if err := json.Unmarshal([]byte(printed(t, "version", "-o", "json")), &info); err != nil || info != version.Current() {
		t.Errorf("%v: %+v", err, info)
	}
}
