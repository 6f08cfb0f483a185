package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const address = "127.0.0.1:8600"

// newPage is a page whose API server is answer, in a namespace or in all.
func newPage(t *testing.T, namespace string, answer http.HandlerFunc) *Page {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, BearerToken: "of-the-kubeconfig"}
	cluster, err := NewCluster(config, About{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return NewPage(cluster, netip.MustParseAddrPort(address))
}

// ask has the page answer a request to its own address, with more headers.
func ask(p *Page, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = address
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// session opens the page, and gives the header of its questions.
func session(t *testing.T, p *Page) (authorization string) {
	t.Helper()
	_, key, _ := strings.Cut(p.URL(), "#key=")
	w := ask(p, http.MethodPost, "/session", "", "Authorization", "Bearer "+key)
	var got struct{ Token string }
	if err := json.NewDecoder(w.Body).Decode(&got); err != nil || got.Token == "" {
		t.Fatalf("%d: %v", w.Code, err)
	}
	return "Bearer " + got.Token
}

// TestStrangersGetNothing: whoever reaches the port without the key gets nothing of the cluster, and the API server is
// not asked.
func TestStrangersGetNothing(t *testing.T) {
	asked := 0
	p := newPage(t, "", func(w http.ResponseWriter, _ *http.Request) { asked++; _, _ = io.WriteString(w, "{}") })
	_, key, _ := strings.Cut(p.URL(), "#key=")
	own := strings.TrimPrefix(session(t, p), "Bearer ")
	const trace = `{"source": {"kind": "Pod", "namespace": "shop", "name": "web"}}`
	shows := func(secret string, more ...string) []string {
		return append([]string{"Authorization", "Bearer " + secret}, more...)
	}
	const status = "/questions/status"
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
	}{
		{"another user of the machine", "GET", status, "", nil, 401},
		{"one that guesses", "GET", status, "", shows("x"), 401},
		{"one with an empty token", "GET", "/questions/about", "", shows(""), 401},
		{"one that has seen the key", "POST", "/session", "", shows(key), 401},
		{"one that shows the key", "GET", status, "", shows(key), 401},
		{"the token in the address", "GET", status + "?token=" + own, "", nil, 401},
		{"a name that is bound anew", "GET", status, "", shows(own, "Host", "evil.example:8600"), 421},
		{"the page by such a name", "GET", "/", "", []string{"Host", "evil.example:8600"}, 421},
		{"an address of this machine", "GET", "/", "", []string{"Host", "192.0.2.1:8600"}, 421},
		{"another port", "GET", "/", "", []string{"Host", "127.0.0.1:80"}, 421},
		{"a form of another site", "POST", "/traces", trace, shows(own, "Sec-Fetch-Site", "cross-site"), 403},
		{"an old browser's, of another site", "POST", "/traces", trace, shows(own, "Origin", "https://evil.example"), 403},
		{"another page of this machine", "POST", "/session", "", shows(key, "Origin", "http://127.0.0.1:9999"), 403},
		{"a question that is none", "GET", "/questions/secrets", "", shows(own), 404},
		{"a path of the API server", "GET", "/api/v1/secrets", "", shows(own), 404},
		{"another way to write it", "GET", "/questions/%2e%2e%2fsecrets", "", shows(own), 404},
		{"another verb", "DELETE", "/questions/services", "", shows(own), 405},
		{"a namespace that is a path", "POST", "/traces", `{"source": {"namespace": "../../pods"}}`, shows(own), 400},
		{"a field that is none", "POST", "/traces", `{"kind": "Pod"}`, shows(own), 400},
		{"a question without an end", "POST", "/traces", `{"port": "` + strings.Repeat("1", maxTrace) + `"}`, shows(own), 400},
		{"a file beside the bundle", "GET", "/../page.go", "", nil, 307},
		{"a folder of the bundle", "GET", "/vendor/", "", nil, 404},
		{"a file by an encoded address", "GET", "/%2e%2e/page.go", "", nil, 404},
	} {
		if w := ask(p, c.method, c.path, c.body, c.headers...); w.Code != c.code {
			t.Errorf("%s: %d, want %d: %s", c.name, w.Code, c.code, w.Body)
		}
	}
	if asked > 0 {
		t.Errorf("the API server was asked %d times", asked)
	}
}

// TestQuestionsOfTheUser go to the API server with his credentials, and nothing that the browser sends goes with them.
func TestQuestionsOfTheUser(t *testing.T) {
	var got *http.Request
	var body string
	record := func(w http.ResponseWriter, r *http.Request) {
		got = r
		text, _ := io.ReadAll(r.Body)
		body = string(text)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "a=b")
		_, _ = io.WriteString(w, `{"items": []}`)
	}
	all, shop := newPage(t, "", record), newPage(t, "shop", record)
	own := map[*Page]string{all: session(t, all), shop: session(t, shop)}
	for _, c := range []struct {
		page *Page
		name string
		want string
	}{
		{all, "status", "/apis/observe.weft.net/v1alpha1/networkstatuses"},
		{shop, "status", "/apis/observe.weft.net/v1alpha1/networkstatuses"},
		{all, "topology", "/apis/observe.weft.net/v1alpha1/networktopologies"},
		{shop, "topology", "/apis/observe.weft.net/v1alpha1/namespaces/shop/networktopologies"},
		{all, "flows", "/apis/observe.weft.net/v1alpha1/networkflows?fieldSelector=fromOwnNode%3Dfalse"},
		{shop, "flows", "/apis/observe.weft.net/v1alpha1/namespaces/shop/networkflows?fieldSelector=fromOwnNode%3Dfalse"},
		{shop, "hits", "/apis/observe.weft.net/v1alpha1/namespaces/shop/policyhits"},
		{all, "services", "/api/v1/services"},
		{shop, "services", "/api/v1/namespaces/shop/services"},
		{shop, "endpoints", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"},
	} {
		w := ask(c.page, http.MethodGet, "/questions/"+c.name+"?watch=true", "", "Authorization", own[c.page],
			"Impersonate-User", "admin", "Cookie", "x=y")
		if w.Code != http.StatusOK || got.URL.String() != c.want || got.Method != http.MethodGet {
			t.Errorf("%s: %d, asks %s %s", c.name, w.Code, got.Method, got.URL)
		}
		if got.Header.Get("Authorization") != "Bearer of-the-kubeconfig" || got.Header.Get("Impersonate-User") != "" ||
			got.Header.Get("Cookie") != "" || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: asks with %v and answers with %v", c.name, got.Header, w.Header())
		}
	}
	ask(all, http.MethodPost, "/traces", `{"source": {"kind": "Pod", "namespace": "shop", "name": "web"}, "port": "80"}`,
		"Authorization", own[all])
	if got.Method != http.MethodPost || got.URL.Path != "/apis/observe.weft.net/v1alpha1/namespaces/shop/traces" ||
		!strings.Contains(body, `"kind":"Trace"`) || !strings.Contains(body, `"port":"80"`) {
		t.Errorf("a trace asks %s %s %s", got.Method, got.URL, body)
	}
}

// TestRefusalsOfTheAPIServer have its own words, its status and a remedy.
func TestRefusalsOfTheAPIServer(t *testing.T) {
	for code, want := range map[int]struct{ reason, remedy string }{
		403: {"Forbidden", "create rolebinding NAME --namespace=shop --clusterrole=weft-observe-topology"},
		404: {"NotFound", "install weft observe"},
		503: {"ServiceUnavailable", "kubectl get apiservice v1alpha1.observe.weft.net"},
		500: {"InternalError", ""},
	} {
		p := newPage(t, "shop", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
				"reason": want.reason, "message": "its own words"})
		})
		w := ask(p, http.MethodGet, "/questions/topology", "", "Authorization", session(t, p))
		var got failure
		if err := json.NewDecoder(w.Body).Decode(&got); err != nil || w.Code != code || got.Code != code ||
			got.Message != "its own words" || !strings.Contains(got.Remedy, want.remedy) {
			t.Errorf("%d: answers %d, %+v, %v", code, w.Code, got, err)
		}
	}
}

// TestTheBundleIsWhole: each file has a type and strict headers, loads nothing of others, and has no inline script.
func TestTheBundleIsWhole(t *testing.T) {
	p := newPage(t, "", http.NotFound)
	outside := regexp.MustCompile(`(?:src|href|from|import)\s*[=(]?\s*["'](?:https?:)?//`)
	inline := regexp.MustCompile(`<script(?:>| [^>]*[^>\s]>)[^<]|<style|\sstyle=|\son[a-z]+="`)
	err := fs.WalkDir(bundle, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		w := ask(p, http.MethodGet, strings.TrimPrefix(name, "page"), "")
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") == "" ||
			!strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; ") {
			t.Errorf("%s: %d, %v", name, w.Code, w.Header())
		}
		text := w.Body.String()
		if found := outside.FindString(text); found != "" {
			t.Errorf("%s loads from elsewhere: %s", name, found)
		}
		if found := inline.FindString(text); found != "" && strings.HasSuffix(name, ".html") {
			t.Errorf("%s has %s", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(p, http.MethodGet, "/", "", "Host", "localhost:8600"); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "<title>Weft</title>") {
		t.Errorf("the page: %d", w.Code)
	}
}

// TestLibrariesAreTheirAuthors: each file of others is what its sum says, which is that of the npm package.
func TestLibrariesAreTheirAuthors(t *testing.T) {
	sums, err := fs.ReadFile(bundle, "page/vendor/sha256sums.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for line := range strings.Lines(string(sums)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			continue // where they are from
		}
		listed++
		text, err := fs.ReadFile(bundle, "page/vendor/"+name)
		if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: %v, its sum is %x", name, err, sum)
		}
	}
	if files, err := fs.ReadDir(bundle, "page/vendor"); err != nil || listed != len(files)-1 {
		t.Errorf("%d files have sums, of %d: %v", listed, len(files)-1, err)
	}
}
