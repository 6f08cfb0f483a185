package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed page
var bundle embed.FS

// types are those of the bundle's files. Those that a Windows host has in its registry may be others.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// policy is the Content-Security-Policy: a browser loads the files of the bundle, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page is the page and what it asks, for one user.
type Page struct {
	cluster *Cluster
	address netip.AddrPort
	mux     *http.ServeMux
	guarded http.Handler
	pass    pass
}

// NewPage is a page about a cluster, served at an address of loopback.
func NewPage(cluster *Cluster, address netip.AddrPort) *Page {
	p := &Page{cluster: cluster, address: address, mux: http.NewServeMux(), pass: newPass()}
	p.mux.HandleFunc("GET /{file...}", p.file)
	p.mux.HandleFunc("POST /session", p.session)
	p.mux.HandleFunc("GET /questions/{name}", p.pass.demand(p.list))
	p.mux.HandleFunc("POST /traces", p.pass.demand(p.trace))
	p.mux.HandleFunc("GET /reachability", p.pass.demand(p.reachability))
	p.guarded = http.NewCrossOriginProtection().Handler(p.mux)
	return p
}

// URL is the page's, with its key. It opens the page once.
func (p *Page) URL() string { return "http://" + p.address.String() + "/#key=" + p.pass.key }

// ServeHTTP answers requests that name the page's own address.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Cache-Control":                "no-store",
		"Content-Security-Policy":      policy,
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"X-Content-Type-Options":       "nosniff",
	} {
		w.Header().Set(name, value)
	}
	if r.Host != p.address.String() && r.Host != "localhost:"+strconv.Itoa(int(p.address.Port())) {
		http.Error(w, "this address is not the page's: open http://"+p.address.String(), http.StatusMisdirectedRequest)
		return
	}
	p.guarded.ServeHTTP(w, r)
}

// file answers with a file of the bundle.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	text, err := bundle.ReadFile(path.Join("page", name))
	kind := types[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text) // the browser may be gone
}

// session gives the token for the key.
func (p *Page) session(w http.ResponseWriter, r *http.Request) {
	token, ok := p.pass.redeem(bearer(r))
	if !ok {
		refuse(w, &failure{Code: http.StatusUnauthorized,
			Message: "this address has been opened already, or is of another run",
			Remedy:  "run `weft ui` again; to open the page twice, duplicate its tab"})
		return
	}
	answer(w, http.StatusOK, map[string]string{"token": token})
}

// pass is what a browser shows to be the user's.
type pass struct {
	mu    sync.Mutex
	spent bool
	// key is in the address that is opened, and counts once. token is what the page gets for it.
	key, token string
}

func newPass() pass { return pass{key: rand.Text(), token: rand.Text()} }

// redeem gives the token for the key, once.
func (p *pass) redeem(key string) (token string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spent || subtle.ConstantTimeCompare([]byte(key), []byte(p.key)) == 0 {
		return "", false
	}
	p.spent = true
	return p.token, true
}

// demand refuses requests without the token.
func (p *pass) demand(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(bearer(r)), []byte(p.token)) == 0 {
			refuse(w, &failure{Code: http.StatusUnauthorized, Message: "the request has not the token of this run",
				Remedy: "run `weft ui` again"})
			return
		}
		next(w, r)
	}
}

// bearer is the secret that a request shows (RFC 6750).
func bearer(r *http.Request) string {
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return secret
}
