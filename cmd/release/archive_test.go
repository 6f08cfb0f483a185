package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	noon    = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	samples = []entry{{"weft-1/weft", executable, []byte("program")}, {"weft-1/LICENSE", forAll, []byte("text")}}
)

// same fails unless a writer makes the same bytes of the entries in whichever order, and returns them.
func same(t *testing.T, write func(io.Writer, []entry, time.Time) error) []byte {
	t.Helper()
	var forth, back bytes.Buffer
	reversed := slices.Clone(samples)
	slices.Reverse(reversed)
	if err := write(&forth, samples, noon); err != nil {
		t.Fatal(err)
	}
	if err := write(&back, reversed, noon); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(forth.Bytes(), back.Bytes()) {
		t.Error("another order of the files gives other bytes")
	}
	return forth.Bytes()
}

func TestTarHasModesOwnersAndTimes(t *testing.T) {
	cmd := exec.Command("tar", "--list", "--verbose", "--gzip", "--utc", "--full-time")
	cmd.Stdin = bytes.NewReader(same(t, writeTarGz))
	listed, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, listed)
	}
	var lines []string
	for line := range strings.Lines(string(listed)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"drwxr-xr-x root/root 0 2026-03-04 12:00:00 weft-1/",
		"-rw-r--r-- root/root 4 2026-03-04 12:00:00 weft-1/LICENSE",
		"-rwxr-xr-x root/root 7 2026-03-04 12:00:00 weft-1/weft",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("tar lists:\n%s", strings.Join(lines, "\n"))
	}
}

func TestTarIsReadBack(t *testing.T) {
	entries, err := readTarGz(bytes.NewReader(same(t, writeTarGz)))
	if err != nil || len(entries) != 2 || entries[1].name != "weft-1/weft" || string(entries[1].content) != "program" ||
		entries[1].mode != executable {
		t.Errorf("%v: %+v", err, entries)
	}
}

func TestZipHasModesAndTimes(t *testing.T) {
	content := same(t, writeZip)
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]string{}
	for _, f := range archive.File {
		modes[f.Name] = f.Mode().String()
		if !f.Modified.Equal(noon) {
			t.Errorf("%s is of %s", f.Name, f.Modified)
		}
	}
	if len(modes) != 3 || modes["weft-1/"] != "drwxr-xr-x" || modes["weft-1/LICENSE"] != "-rw-r--r--" ||
		modes["weft-1/weft"] != "-rwxr-xr-x" {
		t.Errorf("the modes are %v", modes)
	}
}
