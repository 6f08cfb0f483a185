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
	for folder, definitions := range definitions(t) {
		for _, definition := range definitions {
			if copied := find(files, "weft/"+folder+"/"+filepath.Base(definition)); copied == nil ||
				string(copied.content) != read(t, definition) {
				t.Errorf("the chart does not have %s in %s", definition, folder)
			}
		}
	}
}

// definitions are the files of what Weft is in Kubernetes, by the chart's folder. The repository has links there.
func definitions(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for folder, in := range map[string]string{"crds": "crds", "files/rights": "rights",
		"files/observe": "rights/observe"} {
		files, err := filepath.Glob(filepath.Join("../../models/api", in, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no definitions: %v", in, err)
		}
		found[folder] = files
	}
	return found
}

func TestChartWithoutVersionIsRefused(t *testing.T) {
	for _, about := range []string{"version: 0.0.0\n", "name: weft\n", "version: 1\nversion: 2\nappVersion: 3\n"} {
		err := setChartVersion([]entry{{"Chart.yaml", forAll, []byte(about)}}, sampleMaker().version)
		if err == nil || !strings.Contains(err.Error(), "Chart.yaml does not have") {
			t.Errorf("%q: the error is %v", about, err)
		}
	}
}
