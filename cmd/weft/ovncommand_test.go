package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// TestCommandsOfOVN: what is given is what the door is asked, and what it answers is printed.
func TestCommandsOfOVN(t *testing.T) {
	var asked *http.Request
	var answer api.OVNCommand
	kubeconfig := serving(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	for _, c := range []struct {
		name   string
		args   string
		answer api.OVNCommand
		want   []string // of the query; none if nobody is asked
		code   int
		out    string
		errs   string
	}{
		{"a command", "nbctl FLAGS lsp-list l1", api.OVNCommand{Output: "a\tb\n"}, []string{"lsp-list", "l1"}, 0,
			"a\tb\n", ""},
		{"options", "sbctl FLAGS -- --uuid lflow-list l1", api.OVNCommand{},
			[]string{"--uuid", "lflow-list", "l1"}, 0, "", ""},
		{"one that fails", "nbctl FLAGS list X", api.OVNCommand{ExitCode: 1, Errors: "no\x1b table X\n"},
			[]string{"list", "X"}, 1, "", "no  table X\n"},
		{"one that says too much", "nbctl FLAGS show", api.OVNCommand{Output: "abc", Truncated: true},
			[]string{"show"}, 1, "abc", "the output ends here, after 3 bytes"},
		{"one that writes", "nbctl FLAGS ls-add evil", api.OVNCommand{}, nil, 3, "", `command "ls-add" is none of those`},
		{"no command", "sbctl FLAGS", api.OVNCommand{}, nil, 3, "", "there is no command; give one of"},
	} {
		asked, answer = nil, c.answer
		args := strings.Fields(strings.Replace(c.args, "FLAGS", "--kubeconfig "+kubeconfig+" --context night", 1))
		code, out, errs := runCommand(t, args...)
		if code != c.code || out != c.out || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
			t.Errorf("%s: exit code %d, printed %q, %q; want %d, %q, %q", c.name, code, out, errs, c.code, c.out, c.errs)
		}
		var got []string
		if asked != nil {
			got = asked.URL.Query()[api.OVNCommandArgument]
			if want := "/apis/observe.weft.net/v1alpha1/ovncommands/" + args[0]; asked.URL.Path != want {
				t.Errorf("%s: asked at %s, want %s", c.name, asked.URL.Path, want)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: asked for %q, want %q", c.name, got, c.want)
		}
	}
	kubeconfig = serving(t, refuse(http.StatusForbidden, "Forbidden", "mallory cannot get it"))
	if code, _, errs := runCommand(t, "nbctl", "--kubeconfig", kubeconfig, "--context", "night", "show"); code != 3 ||
		!strings.Contains(errs, "--clusterrole=weft-observe-ovn --user=USER") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}
