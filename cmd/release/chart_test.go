package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// packed are the files of the repository's chart, as a release has it.
func packed(t *testing.T) []entry {
	t.Helper()
	m := sampleMaker()
	m.source.folder = "../.."
	var archives [][]byte
	for range 2 {
		folder := t.TempDir()
		if err := m.chart(folder); err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(filepath.Join(folder, "weft-1.2.0+build.5.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two runs give other bytes")
	}
	files, err := readTarGz(bytes.NewReader(archives[0]))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestChartHasTheVersionAndTheDefinitions(t *testing.T) {
	files := packed(t)
	about := find(files, "weft/Chart.yaml")
	if about == nil {
		t.Fatal("there is no weft/Chart.yaml")
	}
	var versions struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal(about.content, &versions); err != nil || versions.Name != "weft" ||
		versions.Version != "1.2.0+build.5" || versions.AppVersion != "1.2.0+build.5" {
		t.Errorf("Chart.yaml has %+v: %v", versions, err)
	}
	// The repository has links in their places.
	for name, in := range map[string]string{"crds": "models/api/crds", "files/rights": "models/api/rights",
		"files/observe": "models/api/rights/observe"} {
		definitions, err := filepath.Glob(filepath.Join("../..", in, "*.yaml"))
		if err != nil || len(definitions) == 0 {
			t.Fatalf("%s has no definitions: %v", in, err)
		}
		for _, definition := range definitions {
			content, err := os.ReadFile(definition)
			if err != nil {
				t.Fatal(err)
			}
			if copied := find(files, "weft/"+name+"/"+filepath.Base(definition)); copied == nil ||
				!bytes.Equal(copied.content, content) {
				t.Errorf("the chart does not have %s in %s", definition, name)
			}
		}
	}
}

func TestChartWithoutVersionIsRefused(t *testing.T) {
	for _, about := range []string{"version: 0.0.0\n", "name: weft\n", "version: 1\nversion: 2\nappVersion: 3\n"} {
		err := setChartVersion([]entry{{"Chart.yaml", forAll, []byte(about)}}, sampleMaker().version)
		if err == nil || !strings.Contains(err.Error(), "Chart.yaml does not have") {
			t.Errorf("%q: the error is %v", about, err)
		}
	}
}
