package labtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/test/lab/labtest"
)

// weftlab writes down what it is told, and fails at the verb "fail".
const weftlab = `#!/bin/sh
printf '%s|%s\n' "$*" "$(cat | tr '\n' ' ')" >> told
echo " printed "
echo complaint >&2
test "$3" != fail
`

// newLab is one whose weftlab is the above; told is what it was told, and what stood in its input.
func newLab(t *testing.T) (l labtest.Lab, told func() string) {
	root := t.TempDir()
	for _, dir := range []string{"bin", "test/some"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "bin/weftlab"), []byte(weftlab), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "test/some"))
	return labtest.Lab{Name: "one"}, func() string {
		text, err := os.ReadFile(filepath.Join(root, "told"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
}

func TestVerbsAreOfTheLab(t *testing.T) {
	l, told := newLab(t)
	if out := l.On(t, "l1", "true"); out != "printed" {
		t.Errorf("printed %q", out)
	}
	if got := told(); got != "--name one exec l1 -- true|" {
		t.Errorf("told %q", got)
	}
	_, err := l.Try("fail", "now")
	if err == nil || !strings.Contains(err.Error(), "weftlab fail now") || !strings.Contains(err.Error(), "complaint") {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatAManifestMakesIsRemoved(t *testing.T) {
	l, told := newLab(t)
	t.Run("with a manifest", func(t *testing.T) { l.Apply(t, "kind: Pod", "--wait") })
	const want = "--name one kubectl -- apply -f -|kind: Pod\n" +
		"--name one kubectl -- delete -f - --ignore-not-found --grace-period=1 --wait=false --wait|kind: Pod"
	if got := told(); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

func TestPollEndsWithTheLastError(t *testing.T) {
	tries := 0
	if err := labtest.Poll(time.Minute, func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
	never := errors.New("never")
	if err := labtest.Poll(10*time.Millisecond, func() error { return never }); !errors.Is(err, never) {
		t.Errorf("the error is %v", err)
	}
}
