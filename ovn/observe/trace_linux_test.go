package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/ovntest/translated"
	"github.com/weftnet/weft/test/apiserver"
)

const (
	allTraces    = "/apis/" + api.GroupVersion + "/" + api.TraceResource
	tracesOfShop = "/apis/" + api.GroupVersion + "/namespaces/shop/" + api.TraceResource
)

// question is a Trace as a client sends it.
func question(source, destination, more string) string {
	return fmt.Sprintf(`{"kind": "Trace", "apiVersion": %q, "spec": {"source": {%s}, "destination": {%s}%s}}`,
		api.GroupVersion, source, destination, more)
}

func podJSON(namespace, name string) string {
	return fmt.Sprintf(`"kind": "Pod", "namespace": %q, "name": %q`, namespace, name)
}

// bindTracers gives alice the right in a namespace, and tess in the whole cluster; shop's nodes are those of the API
// server, too.
func (s *street) bindTracers(c *translated.Cluster) {
	s.t.Helper()
	for _, object := range []struct{ path, text string }{
		{"/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: tracer}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weft-observe-trace},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: tracer}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weft-observe-trace},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tess}]}`},
	} {
		if err := s.Create(object.path, object.text); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, n := range c.Nodes() {
		n.APIVersion, n.Kind = "v1", "Node"
		text, err := json.Marshal(n)
		if err == nil {
			_, err = s.Do(http.MethodPost, "/api/v1/nodes", "application/json", text)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestTracesByARealAPIServer: each is told of what he has a right to, and nothing else.
func TestTracesByARealAPIServer(t *testing.T) {
	s := newStreet(t)
	c := translated.Start(t, translated.Read(t, translated.Shop))
	s.northbound, s.southbound = c.Northbound, c.Southbound
	s.bindTracers(c)
	agent := s.placeProbes()
	s.open("c1", first, some())
	tess, alice := s.As("tess", "system:authenticated"), s.As("alice", "system:authenticated")
	mallory := s.As("mallory", "system:authenticated")
	web, outside := podJSON("shop", "web"), `"kind": "Address", "name": "198.51.100.1"`
	toDB := question(web, podJSON("shop", "db"), `, "port": "3307"`)
	s.Eventually(t, "the API is served", func() error {
		_, err := tess.Do(http.MethodPost, tracesOfShop, "application/json", []byte(toDB))
		return err
	})
	for _, c := range []struct {
		name, path, body string
		who              *apiserver.Server
		want             string // in the answer, or in the error
		not              string
	}{
		{"an operator", tracesOfShop, toDB, tess, `"result":"arrives"`, "ovn-trace"},
		{"an operator, of the outside", tracesOfShop, question(web, outside, `, "port": "443"`), tess, "203.0.113.1", "-"},
		{"an operator, of a node", allTraces, question(`"kind": "Node", "name": "l1"`, web, ""), tess, `"result":"arrives"`, "-"},
		{"an operator, of OVN", tracesOfShop, question(web, podJSON("bank", "safe"), `, "ovn": true`), tess,
			"ls_out_acl_eval", "-"},
		{"a developer of his namespace", tracesOfShop, toDB, alice, `"result":"arrives"`, "192.0.2."},
		{"a developer of another's pod", tracesOfShop, question(web, podJSON("bank", "safe"), ""), alice, ": 403", "vault"},
		{"a developer of a pod that is not there", tracesOfShop, question(web, podJSON("bank", "gone"), ""), alice, ": 403",
			"no pod"},
		{"a developer as another's pod", tracesOfShop, question(podJSON("bank", "safe"), web, ""), alice, ": 400", "vault"},
		{"a developer as another's pod, there", strings.Replace(tracesOfShop, "shop", "bank", 1),
			question(podJSON("bank", "safe"), web, ""), alice, ": 403", "vault"},
		{"a developer of the outside", tracesOfShop, question(web, outside, ""), alice, ": 403", "203.0.113"},
		{"a developer of a node", tracesOfShop, question(web, `"kind": "Node", "name": "l2"`, ""), alice, ": 403", "192.0.2"},
		{"a developer as a node of his namespace", tracesOfShop, question(`"kind": "Node", "namespace": "shop", "name": "l1"`, web,
			""), alice, ": 40", "192.0.2"},
		{"a developer as a node", allTraces, question(`"kind": "Node", "name": "l1"`, web, ""), alice, ": 403", "-"},
		{"a developer of OVN", tracesOfShop, question(web, podJSON("shop", "db"), `, "ovn": true`), alice, ": 403", "ls_in"},
		{"a user without rights", tracesOfShop, toDB, mallory, ": 403", "arrives"},
		{"an option for a name", tracesOfShop, question(podJSON("shop", "--db=tcp:192.0.2.9:1"), web, ""), tess, ": 400",
			"-"},
		{"an expression for a port", tracesOfShop, question(web, podJSON("shop", "db"), `, "port": "80 || 1"`), tess,
			": 400", "-"},
		{"a field that is none", tracesOfShop, question(web, web, `, "lb-dst": "x"`), tess, ": 400", "-"},
		{"a question without end", tracesOfShop, question(web, podJSON("shop", strings.Repeat("a", maxQuestion)), ""), tess,
			": 400", "-"},
		{"no question", tracesOfShop, "", tess, ": 400", "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := c.who.Do(http.MethodPost, c.path, "application/json", []byte(c.body))
			told := string(text)
			if err != nil {
				told += err.Error()
			}
			if !strings.Contains(told, c.want) || strings.Contains(told, c.not) && c.not != "-" {
				t.Errorf("told %s, want %q, and nothing of %q", told, c.want, c.not)
			}
		})
	}
	t.Run("pages", s.showsPages)
	t.Run("probes", func(t *testing.T) { s.sendsProbes(t, agent) })
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if text, err := s.Do(method, tracesOfShop, "application/json", []byte(toDB)); err == nil {
			t.Errorf("%s is answered: %s", method, text)
		}
	}
}
