package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestWhoMayNotSeeHitsIsToldSo in the API server's own words.
func TestWhoMayNotSeeHitsIsToldSo(t *testing.T) {
	const says = `policyhits.observe.weft.net is forbidden: User "nobody" cannot list resource "policyhits" in the namespace "shop"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": %q}`, says)
	}))
	defer server.Close()
	if _, _, err := askHits(t.Context(), &rest.Config{Host: server.URL}, "shop"); err == nil ||
		!strings.Contains(err.Error(), says) {
		t.Errorf("he is told %v", err)
	}
}
