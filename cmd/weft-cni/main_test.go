package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/version"
)

func TestAnswersToPeople(t *testing.T) {
	for args, c := range map[string]struct {
		code           int
		stdout, stderr string // a part of each
	}{
		"--version":                        {0, "made for OVN", ""},
		"--version -o json":                {0, `"ovn": "` + version.OVN + `"`, ""},
		"--version -o yaml":                {2, "", `"yaml" is neither`},
		"--verbose":                        {2, "", "-verbose"},
		"version":                          {2, "", "--version"},
		"--install /nonexistent --version": {2, "", "or have it copied by --install FOLDER"},
		"--install /nonexistent":           {1, "", "name a folder of the host that the pod may write"},
	} {
		var stdout, stderr strings.Builder
		code := answer(strings.Fields(args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("weft-cni %s: code %d, printed %q and %q", args, code, &stdout, &stderr)
		}
		if c.code != 0 && stdout.Len() > 0 {
			t.Errorf("weft-cni %s prints %q besides its error", args, &stdout)
		}
	}
}

// TestInstall: the former program is replaced, and not written: a runtime may run it meanwhile.
func TestInstall(t *testing.T) {
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(folder, "weft-cni")
	former, running := []byte("former"), filepath.Join(folder, "running")
	if err := errors.Join(os.WriteFile(installed, former, 0o755), os.Link(installed, running)); err != nil {
		t.Fatal(err)
	}
	if code := answer([]string{"--install", folder}, io.Discard, t.Output()); code != 0 {
		t.Fatalf("the exit code is %d", code)
	}
	want, errWant := os.ReadFile(self)
	got, errGot := os.ReadFile(installed)
	about, errAbout := os.Stat(installed)
	if err := errors.Join(errWant, errGot, errAbout); err != nil || !bytes.Equal(got, want) ||
		about.Mode() != pluginFile.Mode {
		t.Errorf("%d bytes are installed, not %d, with %v: %v", len(got), len(want), about, err)
	}
	if still, err := os.ReadFile(running); err != nil || !bytes.Equal(still, former) {
		t.Errorf("the former program is %q: %v", still, err)
	}
	if left, err := filepath.Glob(filepath.Join(folder, ".*")); err != nil || len(left) > 0 {
		t.Errorf("it has left %v: %v", left, err)
	}
}

func TestJSONIsOneObject(t *testing.T) {
	var stdout, stderr strings.Builder
	answer([]string{"--version", "-o", "json"}, &stdout, &stderr)
	var info version.Info
	if err := json.Unmarshal([]byte(stdout.String()), &info); err != nil || info != version.Current() {
		t.Errorf("%v: %+v of %q", err, info, &stdout)
	}
}
