package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/version"
)

func TestAnswersToPeople(t *testing.T) {
	for args, c := range map[string]struct {
		code           int
		stdout, stderr string // a part of each
	}{
		"--version":         {0, "made for OVN", ""},
		"--version -o json": {0, `"ovn": "` + version.OVN + `"`, ""},
		"--version -o yaml": {2, "", `"yaml" is neither`},
		"--verbose":         {2, "", "-verbose"},
		"version":           {2, "", "--version"},
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

func TestJSONIsOneObject(t *testing.T) {
	var stdout, stderr strings.Builder
	answer([]string{"--version", "-o", "json"}, &stdout, &stderr)
	var info version.Info
	if err := json.Unmarshal([]byte(stdout.String()), &info); err != nil || info != version.Current() {
		t.Errorf("%v: %+v of %q", err, info, &stdout)
	}
}
