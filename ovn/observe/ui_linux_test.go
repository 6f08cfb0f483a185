package observe

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ui"
)

// browserOf asks the page of a user, in a namespace or in all, as a browser does that has opened it.
func (s *street) browserOf(user, namespace string) func(method, path, body string) (code int, text string) {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	cluster, err := ui.NewCluster(config, ui.About{Namespace: namespace})
	if err != nil {
		s.t.Fatal(err)
	}
	address := netip.MustParseAddrPort("127.0.0.1:8600")
	page := ui.NewPage(cluster, address)
	_, secret, _ := strings.Cut(page.URL(), "#key=")
	ask := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = address.String()
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	_, text := ask(http.MethodPost, "/session", "")
	var session struct{ Token string }
	if err := json.Unmarshal([]byte(text), &session); err != nil {
		s.t.Fatal(err)
	}
	secret = session.Token
	return ask
}

// showsPages: a page shows what its user may see, by a real API server and a real door.
func (s *street) showsPages(t *testing.T) {
	// No controller aggregates rules into the role view here.
	s.bind("shop", "alice", api.NetworkTopologyRole, "system:aggregate-to-view")
	pages := map[string]func(method, path, body string) (int, string){
		"of shop": s.browserOf("alice", "shop"), "of bank": s.browserOf("alice", "bank"), "of all": s.browserOf("alice", ""),
	}
	s.Eventually(t, "alice's new rights count", func() error {
		_, err := s.As("alice", "system:authenticated").Do(http.MethodGet, "/api/v1/namespaces/shop/services", "", nil)
		return err
	})
	trace := func(namespace string) string {
		return `{"source": {` + podJSON(namespace, "web") + `}, "destination": {` + podJSON("shop", "db") + `}, "port": "3307"}`
	}
	for _, c := range []struct {
		page, method, path, body string
		code                     int
		want                     string
	}{
		{"of shop", http.MethodGet, "/questions/topology", "", 200, `"name":"web"`},
		{"of shop", http.MethodGet, "/questions/services", "", 200, `"kind":"ServiceList"`},
		{"of shop", http.MethodGet, "/questions/endpoints", "", 200, `"kind":"EndpointSliceList"`},
		{"of shop", http.MethodGet, "/questions/hits", "", 200, `"kind":"PolicyHitsList"`},
		{"of shop", http.MethodGet, "/questions/flows", "", 403, "--namespace=shop --clusterrole=weft-observe-flows"},
		{"of bank", http.MethodGet, "/questions/hits", "", 403, "--namespace=bank --clusterrole=weft-observe-view"},
		{"of shop", http.MethodPost, "/traces", trace("shop"), 201, `"result":"arrives"`},
		{"of shop", http.MethodPost, "/traces", trace("bank"), 403, "weft-observe-trace"},
		{"of shop", http.MethodGet, "/questions/status", "", 403, "--clusterrole=weft-observe-status"},
		{"of shop", http.MethodGet, "/reachability", "", 403, "rights to list Namespaces"},
		{"of bank", http.MethodGet, "/questions/topology", "", 403, "--namespace=bank --clusterrole=weft-observe-topology"},
		{"of all", http.MethodGet, "/questions/topology", "", 403, "weft ui -n NAMESPACE"},
		{"of all", http.MethodGet, "/questions/services", "", 403, "--clusterrole=view"},
	} {
		code, text := pages[c.page](c.method, c.path, c.body)
		foreign := strings.Contains(text, "vault") || strings.Contains(text, "safe")
		if code != c.code || !strings.Contains(text, c.want) || foreign {
			t.Errorf("alice's page %s, %s %s: %d, %s; want %d and %q, and nothing of bank", c.page, c.method, c.path, code,
				text, c.code, c.want)
		}
	}
}
