package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
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

// TestFormsOfHits: each form has the same, and those for programs have what the API server answers.
func TestFormsOfHits(t *testing.T) {
	rule := api.PolicyHits{TypeMeta: metav1.TypeMeta{Kind: api.PolicyHitsKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Policy: "NetworkPolicy shop/db",
		Rule: "spec.ingress[0]", Action: "Accept", Packets: 12, Bytes: 800,
		Nodes: []api.NodeHits{{Node: "l1", Packets: 5, Bytes: 300}, {Node: "w1", Packets: 7, Bytes: 500}}}
	kubeconfig := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.PolicyHitsList{NodesAsked: 2, Items: []api.PolicyHits{rule},
			TypeMeta: metav1.TypeMeta{Kind: api.PolicyHitsKind + "List", APIVersion: api.GroupVersion}})
	})
	const perNode = "POLICY                 RULE             ACTION  NODE  PACKETS  BYTES\n" +
		"NetworkPolicy shop/db  spec.ingress[0]  Accept  l1    5        300\n" +
		"NetworkPolicy shop/db  spec.ingress[0]  Accept  w1    7        500\n"
	const asJSON = `{
  "kind": "PolicyHitsList",
  "apiVersion": "observe.weft.net/v1alpha1",
  "metadata": {},
  "items": [
    {
      "kind": "PolicyHits",
      "apiVersion": "observe.weft.net/v1alpha1",
      "metadata": {
        "name": "db",
        "namespace": "shop"
      },
      "policy": "NetworkPolicy shop/db",
`
	const asYAML = `---
apiVersion: observe.weft.net/v1alpha1
items:
- action: Accept
  apiVersion: observe.weft.net/v1alpha1
  bytes: 800
  kind: PolicyHits
  metadata:
    name: db
    namespace: shop
  nodes:
  - bytes: 300
    node: l1
    packets: 5
`
	for args, want := range map[string]string{
		"": "POLICY                 RULE             ACTION  PACKETS  BYTES\n" +
			"NetworkPolicy shop/db  spec.ingress[0]  Accept  12       800\n",
		"--per-node": perNode, "-o wide": perNode, "-o json": asJSON, "-o yaml": asYAML,
	} {
		code, out, errs := runCommand(t, append([]string{"policy", "hits", "--kubeconfig", kubeconfig, "--context", "night"},
			strings.Fields(args)...)...)
		if code != 0 || errs != "" || !strings.HasPrefix(out, want) {
			t.Errorf("%q: exit code %d, %q:\n%s", args, code, errs, out)
		}
	}
}
