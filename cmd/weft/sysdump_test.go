package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

// nearlyEmpty is an API server that has lists without objects, and a door that answers some questions.
func nearlyEmpty(door map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		path, ofDoor := strings.CutPrefix(r.URL.Path, "/apis/observe.weft.net/v1alpha1/")
		text, answers := door[path]
		switch {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"gitVersion": "v1.35.4"}`)
		case ofDoor && !answers:
			http.NotFound(w, r)
		case ofDoor:
			fmt.Fprint(w, text)
		default:
			fmt.Fprint(w, `{"metadata": {}, "items": []}`)
		}
	}
}

// TestSysdumpIsAFile of its own, and the exit code says whether something is missing in it.
func TestSysdumpIsAFile(t *testing.T) {
	door := map[string]string{"networkstatuses": "{}", "networkversions": "{}", "networktopologies": "{}",
		"networkdumps/agents": `{"node": "l1", "metrics": "a 1"}`, "networkdumps/northbound": "{}",
		"networkdumps/southbound": "{}"}
	kubeconfig := serving(t, nearlyEmpty(door))
	file := filepath.Join(nodetest.Folder(t), "case.tar.gz")
	run := func(args ...string) (int, string, string) {
		return runCommand(t, append([]string{"sysdump", "--kubeconfig", kubeconfig, "--context", "night"}, args...)...)
	}
	code, out, errs := run("--file", file)
	if code != 0 || out != "" || !strings.Contains(errs, "  metrics/l1\n") ||
		!strings.Contains(errs, "The archive is "+file) {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if code, _, errs := run("--file", file); code != 3 || !strings.Contains(errs, "name one that is not there yet") {
		t.Errorf("exit code %d, %q: a file is overwritten", code, errs)
	}
	delete(door, "networkdumps/southbound")
	if code, out, errs := run("--file", "-"); code != 1 || !strings.HasPrefix(out, "\x1f\x8b") ||
		!strings.Contains(errs, "missing  ovn/southbound.jsonl: ") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	kubeconfig = serving(t, refuse(http.StatusUnauthorized, "Unauthorized", "who are you"))
	none := filepath.Join(filepath.Dir(file), "none")
	if code, _, errs := run("--file", none); code != 3 || !strings.Contains(errs, "ask the API server") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("there is a file without an archive: %v", err)
	}
}
