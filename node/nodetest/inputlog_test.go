//go:build linux

package nodetest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestInputsOfPartsAreJoined: each part has a file of its own, and the program's has what all of them have noted.
func TestInputsOfPartsAreJoined(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, "log")
	l := inputLogOf([]string{"-test.short=true", "-test.testlogfile=" + path, "-test.v"})
	for i, text := range []string{"# test log\ngetenv CI\nchdir /tmp\nopen a\n", "# test log\nstat b\n"} {
		want := []string{"-test.short=true", "-test.v", "-test.testlogfile=" + l.ofPart(i)}
		if got := l.argumentsOf(i); !slices.Equal(got, want) {
			t.Errorf("part %d has the arguments %q, want %q", i, got, want)
		}
		if err := os.WriteFile(l.ofPart(i), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.join(2); err != nil {
		t.Fatal(err)
	}
	want := "# test log\nchdir " + dir + "\ngetenv CI\nchdir /tmp\nopen a\nchdir " + dir + "\nstat b\n"
	if text, err := os.ReadFile(path); string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := filepath.Glob(path + ".*"); len(left) > 0 || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
	if err := l.join(1); err == nil {
		t.Error("a part without a file is joined")
	}
}

// Without the flag nothing is written.
func TestNobodyAsksForInputs(t *testing.T) {
	l := inputLogOf([]string{"-test.v"})
	if err := l.join(3); err != nil || !slices.Equal(l.argumentsOf(1), []string{"-test.v"}) {
		t.Errorf("%q, %v", l.argumentsOf(1), err)
	}
}
