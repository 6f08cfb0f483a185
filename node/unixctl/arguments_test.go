package unixctl

import (
	"strings"
	"testing"
)

func TestOption(t *testing.T) {
	for line, want := range map[string]string{
		"unix:/db.sock --certificate=a.crt": "a.crt", "--certificate a.crt unix:/db.sock": "a.crt", "-c a.crt": "a.crt",
		"-ca.crt": "a.crt",
		"--certificate=a.crt --certificate=b.crt": "b.crt", "--certificates=a.crt": "", "--certificate": "", "-C ca.crt": "",
		"": "",
	} {
		if got := Option(strings.Fields(line), "--certificate", "-c"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
