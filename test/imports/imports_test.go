package imports

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWrongImportsAreFound(t *testing.T) {
	folder := t.TempDir()
	for file, imports := range map[string][]string{
		"low/low.go":        {"strings", "example.org/other/high"},
		"middle/middle.go":  {"example.org/us/low"},
		"middle/up.go":      {"example.org/us/high", "example.org/us"},
		"middle/up_test.go": {"example.org/us/high"},
		"high/high.go":      {"example.org/us/low", "example.org/us/middle", "example.org/us/middle/inner"},
	} {
		text := "package x\n\nimport (\n"
		for _, path := range imports {
			text += "\t_ \"" + path + "\"\n"
		}
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+")\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := wrong(folder, "example.org/us", map[string]string{"low": "", "middle": "low", "high": "low middle"})
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range found {
		found[i] = strings.TrimPrefix(line, folder+string(filepath.Separator))
	}
	want := []string{
		"high/high.go imports example.org/us/middle/inner", "middle/up.go imports example.org/us",
		"middle/up.go imports example.org/us/high",
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if _, err := wrong(folder, "example.org/us", map[string]string{"none": ""}); err == nil {
		t.Error("a package without files is allowed")
	}
}
