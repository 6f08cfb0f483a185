package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestKrewFindsWhatItInstalls: the manifest has the archives as they are, and only files that are in them.
// `make release-test` installs it by krew itself.
func TestKrewFindsWhatItInstalls(t *testing.T) {
	m, folder := sampleMaker(), t.TempDir()
	var err error
	if m.url, err = parseDownloads("https://downloads.example.com/weft", m.version); err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		var programs []entry
		for _, name := range p.programs() {
			programs = append(programs, entry{name, executable, []byte(p.String())})
		}
		if err := m.pack(folder, build{p, programs}, []entry{{"LICENSE", forAll, nil}, {licensesFile, forAll, nil}},
			entry{licensesFile, forAll, nil}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.krew(folder); err != nil {
		t.Fatal(err)
	}
	var manifest krewManifest
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(folder, krewFile))), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Spec.Version != "v1.2.0+build.5" || manifest.Metadata["name"] != "weft" ||
		len(manifest.Spec.Platforms) != len(platforms) {
		t.Errorf("the manifest is %+v", manifest)
	}
	for i, p := range manifest.Spec.Platforms {
		name := strings.TrimPrefix(p.URI, "https://downloads.example.com/weft/")
		content := read(t, filepath.Join(folder, name))
		if p.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(content))) {
			t.Errorf("%s has another checksum", name)
		}
		labels := p.Selector.MatchLabels
		if labels["os"] != platforms[i].system || labels["arch"] != platforms[i].architecture {
			t.Errorf("%s is for %v", name, labels)
		}
		names := namesIn(t, name, content)
		for _, file := range p.Files {
			if !slices.Contains(names, file.From) {
				t.Errorf("%s has %v, and no %s", name, names, file.From)
			}
		}
		if !slices.ContainsFunc(p.Files, func(c krewCopy) bool { return filepath.Base(c.From) == p.Bin }) {
			t.Errorf("%s: %s is not copied: %v", name, p.Bin, p.Files)
		}
	}
}

// namesIn are the files in an archive.
func namesIn(t *testing.T, name, content string) (names []string) {
	t.Helper()
	if strings.HasSuffix(name, ".zip") {
		archive, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.File {
			names = append(names, file.Name)
		}
		return names
	}
	files, err := readTarGz(bytes.NewReader([]byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, file.name)
	}
	return names
}

func TestDownloads(t *testing.T) {
	version := sampleMaker().version
	for text, want := range map[string]string{
		"":                                 "https://github.com/weftnet/weft/releases/download/v1.2.0+build.5/a.zip",
		"https://example.com/weft/":        "https://example.com/weft/a.zip",
		"https://example.com:8443/x%20y/z": "https://example.com:8443/x%20y/z/a.zip",
		"http://example.com":               "RELEASE_URL",
		"example.com/weft":                 "RELEASE_URL",
		"https:///weft":                    "RELEASE_URL",
		"https://example.com/?a=b":         "RELEASE_URL",
		"https://example.com/#a":           "RELEASE_URL",
		"https://exa mple.com":             "RELEASE_URL",
	} {
		got, err := parseDownloads(text, version)
		switch {
		case want == "RELEASE_URL" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: the error is %v", text, err)
		case want != "RELEASE_URL" && (err != nil || got.JoinPath("a.zip").String() != want):
			t.Errorf("%q becomes %v: %v, want %s", text, got, err, want)
		}
	}
}
