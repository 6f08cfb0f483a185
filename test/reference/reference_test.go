package reference

import (
	"flag"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference anew")

// TestReference: each page, and each table that is made of the code, has what the code says.
func TestReference(t *testing.T) {
	source, err := ReadSource(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for file, page := range map[string]func(*Source) (*Page, error){
		"api.md": API, "conditions.md": Conditions, "events.md": Events, "files.md": Files,
		"metrics.md": Metrics, "names.md": Names,
	} {
		t.Run(file, func(t *testing.T) {
			made, err := page(source)
			if err != nil {
				t.Fatal(err)
			}
			made.Check(t, file, *update)
		})
	}
	made, err := Warnings(source)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "models/reasons/warnings.go", made, *update)
}
