package manifest

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/test/apiserver"
)

// TestRefusedAsByAnAPIServer asks a real one.
func TestRefusedAsByAnAPIServer(t *testing.T) {
	const policies = "/apis/policy.networking.k8s.io/"
	collections := map[string]string{
		"Namespace":                  "/api/v1/namespaces",
		"NetworkPolicy":              "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
		"ClusterNetworkPolicy":       policies + "v1alpha2/clusternetworkpolicies",
		"AdminNetworkPolicy":         policies + "v1alpha1/adminnetworkpolicies",
		"BaselineAdminNetworkPolicy": policies + "v1alpha1/baselineadminnetworkpolicies",
	}
	s := apiserver.Start(t)
	s.Install(t, "v0.2.0", "clusternetworkpolicies", collections["ClusterNetworkPolicy"])
	s.Install(t, "v0.1.7", "adminnetworkpolicies", collections["AdminNetworkPolicy"])
	s.Install(t, "v0.1.7", "baselineadminnetworkpolicies", collections["BaselineAdminNetworkPolicy"])
	for _, c := range refusals() {
		var object struct{ Kind string }
		if err := yaml.Unmarshal([]byte(c.text), &object); err != nil {
			t.Fatal(err)
		}
		err := s.Create(collections[object.Kind]+"?dryRun=All&fieldValidation=Strict", c.text)
		if refused := err != nil && strings.Contains(err.Error(), " is invalid: "); refused != (c.want != "") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
