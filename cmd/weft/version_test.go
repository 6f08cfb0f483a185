package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/version"
	"github.com/weftnet/weft/node/nodetest"
)

// printed is what a command of weft writes to its output.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestScriptsReadTheVersion by `weft --version`, whose one line stays as it is.
func TestScriptsReadTheVersion(t *testing.T) {
	if got := printed(t, "--version"); got != "weft version unknown\n" {
		t.Errorf("weft --version prints %q", got)
	}
}

func TestVersionTellsAll(t *testing.T) {
	if got := printed(t, "version", "--client"); !strings.Contains(got, version.OVN) || !strings.Contains(got, "go1.") {
		t.Errorf("weft version prints %q", got)
	}
	var info version.Info
	text := printed(t, "version", "--client", "-o", "json")
	if err := json.Unmarshal([]byte(text), &info); err != nil || info != version.Current() {
		t.Errorf("%v: %+v", err, info)
	}
}

// TestVersionsOfACluster are below the program's own.
func TestVersionsOfACluster(t *testing.T) {
	cluster := api.NetworkVersion{OVN: "25.03.0", Controller: api.PartVersion{Name: "c1", Version: "1.2.0"},
		Doors:        []api.PartVersion{{Name: "c1", Version: "1.2.0"}, {Name: "c2\a", Version: "1.1.0"}},
		ChassisHosts: []api.PartVersion{{Name: "c2"}},
		Nodes: []api.NodeVersion{{Name: "l1", System: "linux", Agent: "1.2.0", OpenVSwitch: "3.5.0"},
			{Name: "new"}, {Name: "w1", System: "windows", Agent: "1.1.0", OpenVSwitch: "3.6.0"}},
		Unread: []api.Unread{{Source: "the doors' Leases", Reason: "forbidden"}}}
	kubeconfig := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/observe.weft.net/v1alpha1/networkversions" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.NetworkVersionList{Items: []api.NetworkVersion{cluster}})
	})
	args := []string{"--kubeconfig", kubeconfig, "--context", "night"}
	code, out, errs := runCommand(t, append([]string{"version"}, args...)...)
	own := printed(t, "version", "--client")
	if code != 0 || errs != "" || !strings.HasPrefix(out, own) {
		t.Errorf("exit code %d, %q, printed %q", code, errs, out)
	}
	golden(t, "version-cluster", strings.TrimPrefix(out, own))
	code, out, errs = runCommand(t, append([]string{"version", "-o", "json"}, args...)...)
	var all versions
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || errs != "" || all.Schema != version.Schema ||
		all.Cluster == nil || fmt.Sprint(*all.Cluster) != fmt.Sprint(cluster) {
		t.Errorf("exit code %d, %v, %q: %+v", code, err, errs, all)
	}
}

// TestVersionWithoutACluster: the program's own version is told, and an error if there is a cluster that does not
// answer.
func TestVersionWithoutACluster(t *testing.T) {
	own := printed(t, "version", "--client")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no kubeconfig", nil, 0, ""},
		{"no door", []string{"--kubeconfig", serving(t, http.NotFound), "--context", "night"}, 3, "install weft observe"},
		{"no right", []string{"--kubeconfig", serving(t, refuse(http.StatusForbidden, "Forbidden", "mallory cannot list it")),
			"--context", "night"}, 3, "--clusterrole=weft-observe-version --user=USER"},
		{"no such context", []string{"--kubeconfig", serving(t, http.NotFound), "--context", "day"}, 3, "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", filepath.Join(nodetest.Folder(t), "none"))
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			code, out, errs := runCommand(t, append([]string{"version"}, c.args...)...)
			if code != c.code || out != own || !strings.Contains(errs, c.want) || c.want == "" && errs != "" {
				t.Errorf("exit code %d, printed %q, %q; want %d, %q", code, out, errs, c.code, c.want)
			}
		})
	}
}
