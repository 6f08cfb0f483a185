package rights_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/api/crds"
	"github.com/weftnet/weft/models/api/rights"
	"github.com/weftnet/weft/test/apiserver"
)

// collections are where an object of each kind of the manifests is made.
var collections = map[string]string{
	"ClusterRole":                      "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding":               "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Role":                             "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles",
	"RoleBinding":                      "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"Namespace":                        "/api/v1/namespaces",
	"Service":                          "/api/v1/namespaces/weft-observe/services",
	"APIService":                       "/apis/apiregistration.k8s.io/v1/apiservices",
	"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
	"CustomResourceDefinition":         "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}

const (
	resolved = "/apis/weft.net/v1alpha1/resolvednames"
	leases   = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	nodes    = "/api/v1/nodes"
	pods     = "/api/v1/namespaces/default/pods"
)

// TestEachPartMayDoItsOwn: who Weft's parts are to an API server, and what it refuses them.
func TestEachPartMayDoItsOwn(t *testing.T) {
	s := apiserver.Start(t)
	s.Eventually(t, "kube-system is there", func() error {
		_, err := s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	definition, err := crds.Files.ReadFile("weft.net_resolvednames.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policies []string // that the manifests have
	manifests := []string{rights.Controller, rights.Node, rights.Chassis, rights.Admission, string(definition)}
	for _, manifest := range manifests {
		for text := range strings.SplitSeq(manifest, "---\n") {
			var object struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			path := strings.Replace(collections[object.Kind], "%s", object.Metadata.Namespace, 1)
			if err := s.Create(path, text); err != nil {
				t.Fatal(err)
			}
			if object.Kind == "ValidatingAdmissionPolicy" {
				policies = append(policies, object.Metadata.Name)
			}
		}
	}
	for path, text := range map[string]string{
		// as an administrator has granted it
		nodes: "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {weft.net/gateway-network: storage}}}",
		pods: "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {automountServiceAccountToken: false, " +
			"containers: [{name: c, image: i}]}}",
		leases: "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kube-scheduler}}",
	} {
		if err := s.Create(path, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Create(collections["ClusterRoleBinding"], `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: operators},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: operators}]}`); err != nil {
		t.Fatal(err)
	}
	who := map[string]*apiserver.Server{
		"controller":    s.As("weft:controller", "system:authenticated"),
		"chassis":       s.As("weft:chassis", "system:authenticated"),
		"node":          s.As("system:node:n1", "system:nodes", "system:authenticated"),
		"new node":      s.As("system:node:n2", "system:nodes", "system:authenticated"),
		"tenant":        s.As("alice", "system:authenticated"),
		"administrator": s.As("bob", "operators", "system:authenticated"),
		"scheduler":     s.As("system:kube-scheduler", "system:authenticated"),
	}
	lease := func(name string) string {
		return "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: " + name + "}}"
	}
	binding := func(annotation string) string {
		return "{apiVersion: v1, kind: Binding, metadata: {name: web, annotations: {" + annotation +
			": x}}, target: {kind: Node, name: n1}}"
	}
	names := func(node string) string {
		return "{apiVersion: weft.net/v1alpha1, kind: ResolvedNames, metadata: {name: " + node + "}, names: []}"
	}
	labelled := func(label string) string { return "{metadata: {labels: {" + label + "}}}" }
	registered := func(labels string) string {
		return "{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {" + labels + "}}}"
	}
	annotated := `{metadata: {annotations: {weft.net/pod-network: "{}"}}}`
	// Rights and policies count soon after they are made.
	s.Eventually(t, "each has its rights", func() error {
		_, controller := who["controller"].Do(http.MethodGet, pods, "", nil)
		_, chassis := who["chassis"].Do(http.MethodGet, leases, "", nil)
		_, node := who["node"].Do(http.MethodGet, nodes, "", nil)
		return errors.Join(controller, chassis, node)
	})
	// The API server reads each policy by itself: one that counts says nothing of the others.
	refusals := map[string]func() error{
		"weft-chassis-leases": func() error {
			return refused(who["chassis"].Create(leases+"?dryRun=All", lease("others")), "is not of a chassis host")
		},
		"weft-annotations": func() error {
			return refused(who["new node"].Create(nodes+"?dryRun=All", registered(`weft.net/egress: ""`)),
				"is for administrators")
		},
		"weft-resolved-names": func() error {
			return refused(who["node"].Create(resolved+"?dryRun=All", names("n2")), "is for the agent of that node alone")
		},
	}
	for _, policy := range policies {
		counts := refusals[policy]
		if counts == nil {
			t.Fatalf("policy %s has no refusal here that shows that it counts", policy)
		}
		s.Eventually(t, policy+" counts", counts)
	}
	for _, c := range []struct {
		who, method, path, body string
		words                   string // of the refusal; "" means that it is done
	}{
		{"controller", http.MethodGet, pods, "", ""},
		{"controller", http.MethodPatch, pods + "/web", annotated, ""},
		{"controller", http.MethodPost, leases, lease("weft-controller"), ""},
		{"controller", http.MethodGet, leases + "/weft-controller", "", ""},
		{"controller", http.MethodDelete, leases + "/weft-controller", "", "forbidden"},
		{"controller", http.MethodPut, leases + "/kube-scheduler", "", "forbidden"},
		{"controller", http.MethodGet, "/api/v1/secrets", "", "forbidden"},
		{"controller", http.MethodDelete, nodes + "/n1", "", "forbidden"},
		{"controller", http.MethodDelete, pods + "/web", "", "forbidden"},

		{"chassis", http.MethodGet, nodes, "", ""},
		{"chassis", http.MethodPost, leases, lease("weft-chassis-win1"), ""},
		{"chassis", http.MethodPost, leases, lease("weft-chassis.host-c1"), ""},
		{"chassis", http.MethodPut, leases + "/weft-chassis-win1", "", ""},
		{"chassis", http.MethodDelete, leases + "/weft-chassis-win1", "", ""},
		{"chassis", http.MethodPost, leases, lease("kube-controller-manager"), "is not of a chassis host"},
		{"chassis", http.MethodPut, leases + "/kube-scheduler", "", "is not of a chassis host"},
		{"chassis", http.MethodDelete, leases + "/kube-scheduler", "", "is not of a chassis host"},
		{"chassis", http.MethodGet, pods, "", "forbidden"},
		{"chassis", http.MethodPatch, nodes + "/n1", annotated, "forbidden"},

		{"node", http.MethodGet, nodes, "", ""},
		{"node", http.MethodGet, "/api/v1/services", "", ""},
		{"node", http.MethodGet, "/api/v1/secrets", "", "forbidden"},
		{"node", http.MethodGet, leases, "", "forbidden"},

		// What administrators say of a node by labels it does not say itself, when it registers, later, or by its status.
		{"new node", http.MethodPost, nodes, registered("weft.net/gateway-network: external"), "is for administrators"},
		{"new node", http.MethodPost, nodes, registered(`weft.net/egress: ""`), "is for administrators"},
		{"new node", http.MethodPost, nodes, registered("kubernetes.io/hostname: n2"), ""},
		{"node", http.MethodPatch, nodes + "/n1", labelled("weft.net/gateway-network: external"), "is for administrators"},
		{"node", http.MethodPatch, nodes + "/n1", labelled("weft.net/gateway-network: null"), "is for administrators"},
		{"node", http.MethodPatch, nodes + "/n1/status", labelled("weft.net/gateway-network: external"),
			"is for administrators"},
		{"node", http.MethodPatch, nodes + "/n1/status", labelled("weft.net/gateway-network: null"), "is for administrators"},
		{"node", http.MethodPatch, nodes + "/n1", labelled("kubernetes.io/hostname: n1"), ""},
		{"node", http.MethodPatch, nodes + "/n1", `{metadata: {annotations: {weft.net/node-facts: "{}"}}}`, ""},
		{"node", http.MethodPatch, nodes + "/n2", labelled("kubernetes.io/hostname: n1"), "is not allowed to modify node"},
		{"node", http.MethodDelete, nodes + "/n1", "", "forbidden"}, // it would come back without a label
		{"administrator", http.MethodPatch, nodes + "/n2", labelled("weft.net/gateway-network: storage"), ""},

		// A node writes what its own pods have asked for, and no other node's.
		{"node", http.MethodPost, resolved, names("n1"), ""},
		{"node", http.MethodPatch, resolved + "/n1", "{names: []}", ""},
		{"node", http.MethodPost, resolved, names("n2"), "is for the agent of that node alone"},
		{"new node", http.MethodPatch, resolved + "/n1", "{names: []}", "is for the agent of that node alone"},
		{"tenant", http.MethodPost, resolved, names("n1"), "forbidden"},

		{"tenant", http.MethodGet, nodes, "", "forbidden"},

		// A binding's annotations become its pod's.
		{"scheduler", http.MethodPost, pods + "/web/binding", binding("weft.net/pod-network"), "is written by weft alone"},
		{"scheduler", http.MethodPost, "/api/v1/namespaces/default/bindings", binding("weft.net/pod-network"),
			"is written by weft alone"},
		{"scheduler", http.MethodPost, pods + "/web/binding", binding("example.net/why"), ""},
	} {
		text, err := yaml.YAMLToJSON([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		kind := "application/json"
		switch c.method {
		case http.MethodPatch:
			kind = "application/merge-patch+json"
		case http.MethodPut: // of what is there
			if text, err = s.Do(http.MethodGet, c.path, "", nil); err != nil {
				t.Fatal(err)
			}
		}
		_, err = who[c.who].Do(c.method, c.path, kind, text)
		if c.words != "" {
			err = refused(err, c.words)
		}
		if err != nil {
			t.Errorf("%s: %v", c.who, err)
		}
	}
}

// refused says what is wrong with a refusal.
func refused(err error, words string) error {
	if err == nil || !strings.Contains(err.Error(), words) {
		return fmt.Errorf("want a refusal with %q, got %v", words, err)
	}
	return nil
}
