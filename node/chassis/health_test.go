//go:build linux

package chassis

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/tunnel"
)

// TestHealthOfAHost: each way in which it cannot work has its reason.
func TestHealthOfAHost(t *testing.T) {
	authority := newAuthority(t)
	begin := func(until time.Time) *host {
		certificate, key := authority.issue("host", tunnel.HostName, until)
		h := newHost(Config{Identity: "a", LeaseDuration: time.Minute}, nodetest.FakeAPI(),
			tunnel.Files(authority.ca(), certificate, key), nil)
		t.Cleanup(h.spawner.close)
		t.Cleanup(func() { h.terms.End() })
		return h
	}
	want := func(h *host, path, words string) {
		t.Helper()
		recorder := httptest.NewRecorder()
		h.probes().Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if body := recorder.Body.String(); (recorder.Code == http.StatusOK) != (words == "ok") ||
			!strings.Contains(body, words) {
			t.Errorf("%s: %d %q, want %q", path, recorder.Code, body, words)
		}
	}
	lives := begin(time.Now().Add(time.Hour))
	want(lives, "/healthz", "ok")
	want(lives, "/readyz", "Lease is not renewed")
	lives.terms = tenure.NewTerms(time.Minute)
	lives.terms.Renewed(time.Now())
	want(lives, "/readyz", "ok")
	lives.looked.Store(time.Now().UnixNano())
	want(lives, "/healthz", "ok")
	lives.looked.Store(time.Now().Add(-11 * time.Minute).UnixNano())
	want(lives, "/healthz", "stands still")

	expired := begin(time.Now().Add(-time.Minute))
	expired.terms = tenure.NewTerms(time.Minute)
	expired.terms.Renewed(time.Now())
	want(expired, "/readyz", "expired")
	want(expired, "/healthz", "ok")

	without := begin(time.Now().Add(time.Hour))
	without.credentials = tunnel.Files(authority.ca(), "/nowhere/crt", "/nowhere/key")
	without.terms = tenure.NewTerms(time.Minute)
	without.terms.Renewed(time.Now())
	want(without, "/readyz", "/nowhere/crt")
}
