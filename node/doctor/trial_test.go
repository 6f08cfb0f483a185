package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// named is a check's or a finding's name in the package's code.
	named = regexp.MustCompile(`(?:\{|subject\()"([a-z-]+)"[,)]`)
	// wanted is what a step of the first trial has to find: names, and that they are ok.
	wanted = regexp.MustCompile("((?:`[a-z-]+`(?:, | and )?)+) (?:is|are) ok")
	quoted = regexp.MustCompile("`([a-z-]+)`")
)

// TestTheTrialsChecksAreThere: the doctor has each check that docs/windows.md's first trial wants to be ok.
func TestTheTrialsChecksAreThere(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(string(code), -1) {
			have[m[1]] = true
		}
	}
	text, err := os.ReadFile("../../docs/windows.md")
	if err != nil {
		t.Fatal(err)
	}
	_, trial, _ := strings.Cut(string(text), "### A first trial, step by step\n")
	found := 0
	for _, m := range wanted.FindAllStringSubmatch(trial, -1) {
		for _, name := range quoted.FindAllStringSubmatch(m[1], -1) {
			if found++; !have[name[1]] {
				t.Errorf("the doctor has no check %s", name[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("the trial wants only %d checks", found)
	}
}
