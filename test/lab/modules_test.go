package lab

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestModulesShareVersions holds the modules whose programs make the lab to the versions of Weft's own, so that
// what both are made of is compiled once. `go get MODULE@VERSION` in the folder named mends it. The module of the
// policies' oracles is left out, since its judges need a later Kubernetes.
func TestModulesShareVersions(t *testing.T) {
	root := "../.."
	own := versionsOf(t, filepath.Join(root, "go.mod"))
	for _, folder := range []string{"test/lab/kube", "test/lab/coredns", "test/lab/cniplugins", "test/lab/policies",
		"test/lab/sctp",
		"test/oracle/services"} {
		for module, version := range versionsOf(t, filepath.Join(root, folder, "go.mod")) {
			if want, shared := own[module]; shared && version != want {
				t.Errorf("%s/go.mod: %s %s; go.mod of Weft has %s", folder, module, version, want)
			}
		}
	}
}

// versionsOf is a go.mod's modules and their versions, replacements included.
func versionsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range file.Replace {
		if r.New.Version != "" {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}
