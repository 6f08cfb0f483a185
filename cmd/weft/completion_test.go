package main

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestShellsComplete the names that a cluster has, where the command takes them.
func TestShellsComplete(t *testing.T) {
	list := func(names ...string) string {
		var items []string
		for _, name := range names {
			items = append(items, `{"metadata":{"name":"`+name+`"}}`)
		}
		return `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[` + strings.Join(items, ",") + `]}`
	}
	answers := map[string]string{
		"/api/v1/namespaces":               list("shop", "bank", "kube-system"),
		"/api/v1/nodes":                    list("w1", "l1"),
		"/api/v1/namespaces/default/pods":  list("cart"),
		"/api/v1/namespaces/shop/pods":     list("web-1", "db-0", "web-0"),
		"/api/v1/namespaces/shop/services": list("web", "db"),
	}
	kubeconfig := serving(t, func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok || !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer)) // the client says what it lacks
	})
	for _, c := range []struct{ typed, want string }{
		{"trace -n shop |", "db-0 node/ svc/ web-0 web-1"},
		{"trace -n shop |web", "web-0 web-1"},
		{"trace |", "cart node/ svc/"},
		{"trace |shop/", "shop/db-0 shop/web-0 shop/web-1"},
		{"trace |node/", "node/l1 node/w1"},
		{"trace cart |svc/shop/d", "svc/shop/db"},
		{"trace -n shop cart |svc/", "svc/db svc/web"},
		{"trace cart cart |", ""},
		{"policy explain -n shop |", "db-0 svc/ web-0 web-1"},
		{"policy explain cart |svc/shop/d", "svc/shop/db"},
		{"policy explain cart |node/", ""},
		{"policy explain -n |", "bank kube-system shop"},
		{"capture -n shop |", "db-0 node/ web-0 web-1"},
		{"flows -n |", "bank kube-system shop"},
		{"flows -n shop --pod |web", "web-0 web-1"},
		{"flows -n shop --service |", "db web"},
		{"flows --from |node/l", "node/l1"},
		{"flows -n shop --to |svc/", "svc/db svc/web"},
		{"topology --node |", "l1 w1"},
		{"status --context |", "night"},
		{"trace -n hidden |", "node/ svc/"},
	} {
		typed, begun, _ := strings.Cut(c.typed, "|")
		var out bytes.Buffer
		root := rootCommand()
		words := strings.Fields(typed)
		flags := []string{"--kubeconfig", kubeconfig}
		if !strings.Contains(typed, "--context") {
			flags = append(flags, "--context", "night")
		}
		root.SetArgs(append(append(append([]string{"__completeNoDesc"}, words[0]), append(flags, words[1:]...)...), begun))
		root.SetOut(&out)
		root.SetErr(new(bytes.Buffer))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.typed, err)
		}
		lines := strings.Fields(out.String())
		got := slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, ":") })
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s is completed by %q, want %q", c.typed, text, c.want)
		}
	}
}
