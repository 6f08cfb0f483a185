package crds_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/api/crds"
	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/test/apiserver"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// apiServer is a real one that knows the CustomResourceDefinitions.
type apiServer struct{ *apiserver.Server }

func (s *apiServer) install(t *testing.T) {
	t.Helper()
	names, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("the manifests are %v: %v", names, err)
	}
	var all []string
	for _, name := range names {
		text, err := crds.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Create(definitions, string(text)); err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Spec struct{ Names struct{ Plural string } }
		}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		all = append(all, definition.Spec.Names.Plural)
	}
	for _, resource := range all {
		s.Eventually(t, resource+" are served", func() error {
			_, err := s.Do(http.MethodGet, resources(resource), "", nil)
			return err
		})
		s.Eventually(t, resource+".weft.net is a structural schema", func() error {
			text, err := s.Do(http.MethodGet, definitions+"/"+resource+".weft.net", "", nil)
			if err != nil {
				return err
			}
			var definition struct {
				Status struct{ Conditions []metav1.Condition }
			}
			if err := json.Unmarshal(text, &definition); err != nil {
				return err
			}
			for _, c := range definition.Status.Conditions {
				if c.Type == "NonStructuralSchema" && c.Status == metav1.ConditionTrue {
					t.Fatalf("%s: %s", resource, c.Message)
				}
			}
			if !slices.ContainsFunc(definition.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == "Established"
			}) {
				return fmt.Errorf("not established yet: %s", text)
			}
			return nil
		})
	}
}

func resources(resource string) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/" + resource
}

// TestAPIServerChecksObjects: what an API server refuses, and the words that it refuses it with.
func TestAPIServerChecksObjects(t *testing.T) {
	s := &apiServer{apiserver.Start(t)}
	s.install(t)
	egress := func(spec string) string { return "{kind: EgressIP, spec: " + spec + "}" }
	pool := func(spec string) string { return "{kind: AddressPool, spec: " + spec + "}" }
	ranges := func(list string) string { return pool("{ranges: [" + list + "]}") }
	resolved := func(list string) string { return "{kind: ResolvedNames, names: [" + list + "]}" }
	told := func(pods string) string { return "{kind: PodNetworks, " + pods + "}" }
	const two = "holds two addresses of one family"
	for i, c := range []struct {
		name, object string
		words        string // of the refusal; "" means that it is taken
	}{
		{"one address", egress(`{addresses: [203.0.113.20], namespaceSelector: {}}`), ""},
		{"two families, and all fields", egress(`{addresses: ["2001:db8::20", 203.0.113.20], namespaceSelector: {matchLabels: {team: a}},
			podSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}, nodeSelector: {matchExpressions: [{key: weft.net/egress, operator: Exists}]}, network: external}`), ""},
		{"no address", egress(`{addresses: [], namespaceSelector: {}}`), "should have at least 1 items"},
		{"addresses left out", egress(`{namespaceSelector: {}}`), "spec.addresses: Required value"},
		{"no namespaceSelector: nobody selects all pods by mistake", egress(`{addresses: [203.0.113.20]}`),
			"spec.namespaceSelector: Required value"},
		{"two IPv4 addresses", egress(`{addresses: [203.0.113.20, 203.0.113.21], namespaceSelector: {}}`), two},
		{"two IPv6 addresses", egress(`{addresses: ["2001:db8::20", "2001:db8::21"], namespaceSelector: {}}`), two},
		{"three addresses", egress(`{addresses: [203.0.113.20, 203.0.113.21, "2001:db8::21"], namespaceSelector: {}}`),
			"must have at most 2 items"},
		{"no address at all", egress(`{addresses: [web], namespaceSelector: {}}`), "is not an IP address; write it like"},
		{"a prefix", egress(`{addresses: [203.0.113.20/24], namespaceSelector: {}}`), "is not an IP address"},
		{"leading zeros", egress(`{addresses: [203.0.113.020], namespaceSelector: {}}`), "is not an IP address"},
		{"IPv4 dressed as IPv6", egress(`{addresses: ["::ffff:203.0.113.20"], namespaceSelector: {}}`),
			"is not an IP address"},
		{"a zone", egress(`{addresses: ["fe80::1%eth0"], namespaceSelector: {}}`), "is not an IP address"},
		{"loopback", egress(`{addresses: [127.0.0.1], namespaceSelector: {}}`),
			"is unspecified, loopback, link-local or multicast"},
		{"unspecified", egress(`{addresses: ["::"], namespaceSelector: {}}`), "is unspecified, loopback"},
		{"multicast", egress(`{addresses: [224.0.0.5], namespaceSelector: {}}`), "is unspecified, loopback"},
		{"link-local", egress(`{addresses: [169.254.1.1], namespaceSelector: {}}`), "is unspecified, loopback"},
		{"an operator that nobody knows",
			egress(`{addresses: [203.0.113.20], namespaceSelector: {matchExpressions: [{key: a, operator: Like}]}}`),
			"Unsupported value"},
		{"In without values", egress(
			`{addresses: [203.0.113.20], namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`),
			"In and NotIn want values"},
		{"Exists with values", egress(
			`{addresses: [203.0.113.20], namespaceSelector: {}, podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`), "Exists and DoesNotExist want none"},
		{"a network of other letters", egress(`{addresses: [203.0.113.20], namespaceSelector: {}, network: "a,b:c"}`),
			"spec.network in body should match"},

		{"a prefix", ranges(`203.0.113.64/27`), ""},
		{"an IPv6 prefix", ranges(`"2001:db8:1::/112"`), ""},
		{"first and last", ranges(`203.0.113.64-203.0.113.80`), ""},
		{"one address", ranges(`203.0.113.64-203.0.113.64`), ""},
		{"IPv6 first and last", ranges(`"2001:db8::10-2001:db8::20"`), ""},
		{"no range", ranges(``), "should have at least 1 items"},
		{"the same range twice", ranges(`203.0.113.64/27, 203.0.113.64/27`), "Duplicate value"},
		{"an address", ranges(`203.0.113.64`), "is neither a prefix nor first and last address"},
		{"three addresses", ranges(`203.0.113.64-203.0.113.65-203.0.113.66`),
			"is neither a prefix nor first and last address"},
		{"nothing after the hyphen", ranges(`203.0.113.64-`), "is neither a prefix nor first and last address"},
		{"bits beyond the prefix", ranges(`203.0.113.65/27`), "has bits set beyond its prefix length"},
		{"two families", ranges(`"203.0.113.64-2001:db8::1"`), "begins and ends in different address families"},
		{"the wrong way round", ranges(`203.0.113.80-203.0.113.64`), "ends before it begins"},
		{"multicast", ranges(`239.0.0.0/24`), "is unspecified, loopback, link-local or multicast"},
		{"loopback", ranges(`127.0.0.1-127.0.0.9`), "is unspecified, loopback, link-local or multicast"},
		{"everything", ranges(`0.0.0.0/0`), "or larger than /8"},

		{"names with addresses",
			resolved(`{name: www.example.com, addresses: [{address: "2001:db8::1", until: "2026-01-01T00:00:00Z"}]}`), ""},
		{"no names", resolved(``), ""},
		{"an address without a time", resolved(`{name: www.example.com, addresses: [{address: "2001:db8::1"}]}`),
			"until: Required value"},
		{"lines of pods", told(`pods: ["shop/web 0b0a54a1 10.244.1.3/24 fd00::3/64"]`), ""},
		{"a node without pods", told(`pods: []`), ""},
		{"no list of lines", told(`pods: null`), "Required value"},
		{"a line that is none", told(`pods: [{name: web}]`), "must be of type string"},
		{"a time of another form",
			resolved(`{name: www.example.com, addresses: [{address: "2001:db8::1", until: tomorrow}]}`), "date-time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resource := "egressips"
			switch {
			case strings.Contains(c.object, "AddressPool"):
				resource = "addresspools"
			case strings.Contains(c.object, "ResolvedNames"):
				resource = "resolvednames"
			case strings.Contains(c.object, "PodNetworks"):
				resource = "namespaces/default/podnetworks"
			}
			object := fmt.Sprintf("{apiVersion: %s, metadata: {name: case-%d}, %s", v1alpha1.GroupVersion, i,
				strings.TrimPrefix(c.object, "{"))
			err := s.Create(resources(resource), object)
			if c.words == "" && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			if c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(),
				"no such overload")) {
				t.Errorf("the answer is %v, want %q", err, c.words)
			}
		})
	}
	t.Run("status", s.keepsStatus)
}

// keepsStatus: the types and the schema know the same fields, and the status is written by itself.
func (s *apiServer) keepsStatus(t *testing.T) {
	object := v1alpha1.EgressIP{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EgressIP"},
		ObjectMeta: metav1.ObjectMeta{Name: "status"}, Spec: v1alpha1.EgressIPSpec{Addresses: []string{"203.0.113.30"},
			Network:     "external",
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(http.MethodPost, resources("egressips")+"?fieldValidation=Strict", "application/json",
		text); err != nil {
		t.Fatal(err)
	}
	patch := `{"status":{"observedGeneration":1,"node":"l1","pods":3,"conditions":[{"type":"Ready","status":"True","reason":"Carried","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	answer, err := s.Do(http.MethodPatch, resources("egressips")+"/status/status?fieldValidation=Strict",
		"application/merge-patch+json", []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	var after v1alpha1.EgressIP
	if err := json.Unmarshal(answer, &after); err != nil {
		t.Fatal(err)
	}
	if after.Status.Node != "l1" || after.Status.Pods != 3 || len(after.Status.Conditions) != 1 || after.Generation != 1 {
		t.Errorf("the object is %+v", after)
	}
	pool := v1alpha1.AddressPool{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(),
		Kind: "AddressPool"},
		ObjectMeta: metav1.ObjectMeta{Name: "status"}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"203.0.113.0/28"},
			ServiceSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{},
			NodeSelector: &metav1.LabelSelector{}}}
	if text, err = json.Marshal(pool); err != nil {
		t.Fatal(err)
	}
	if answer, err = s.Do(http.MethodPost, resources("addresspools")+"?fieldValidation=Strict", "application/json",
		text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &pool); err != nil || pool.Spec.AutoAssign == nil || !*pool.Spec.AutoAssign {
		t.Errorf("autoAssign is %v by default: %v", pool.Spec.AutoAssign, err)
	}
	if _, err := s.Do(http.MethodPatch, resources("addresspools")+"/status/status?fieldValidation=Strict",
		"application/merge-patch+json",
		[]byte(strings.Replace(strings.Replace(patch, `"node":"l1",`, "", 1), `"pods":3`, `"used":1,"free":9007199254740991`,
			1))); err != nil {
		t.Error(err)
	}
}
