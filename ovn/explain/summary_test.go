package explain

import (
	"fmt"
	"strings"
	"testing"
)

// TestSummary tells what is in force, and of named ports whether they are anybody's.
func TestSummary(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: dns, labels: {app: dns}}, spec: {containers: [{name: c, " +
		"image: i, ports: [{name: dns, containerPort: 53, protocol: UDP}, {name: http, containerPort: 80}]}]}}\n---\n"
	cluster := func(name, spec string) string {
		return fmt.Sprintf("{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: "+
			"%s}, spec: {tier: Admin, priority: 5, subject: {namespaces: {}}, %s}}", name, spec)
	}
	named := func(ports string) string {
		return pod + "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web}, spec: {podSelector: " +
			"{}, ingress: [{ports: [" + ports + "]}]}}"
	}
	const deny = "{action: Deny, from: [{namespaces: {}}]}"
	many := strings.TrimSuffix(strings.Repeat(deny+", ", 20), ", ")
	for _, c := range []struct{ name, objects, want string }{
		{"a name of that protocol", named("{port: dns, protocol: UDP}"), "Accept \"dns\"/udp from anyone\n"},
		{"a name of the default protocol", named("{port: http}"), "Accept \"http\"/tcp from anyone\n"},
		{"a name of another protocol", named("{port: dns}"), "Accept \"dns\"/tcp (which no pod here has) from anyone\n"},
		{"a name of any protocol", pod + cluster("a", "ingress: [{action: Deny, from: [{namespaces: {}}], protocols: "+
			"[{destinationNamedPort: dns}]}]"), "Deny \"dns\"/any protocol from"},
		{"a name that nobody has", pod + cluster("a", "ingress: [{action: Deny, from: [{namespaces: {}}], protocols: "+
			"[{destinationNamedPort: sql}]}]"), "Deny \"sql\"/any protocol (which no pod here has) from"},
		{"no room", cluster("a", "ingress: ["+many+"]") + "\n---\n" + cluster("b", "ingress: ["+many+"]"),
			"none here\n  is not in force: others of its priority leave it no room\n"},
		{"an empty list of networks", cluster("a", "egress: [{action: Deny, to: [{networks: []}]}]"),
			"spec.egress[0] Deny everything to anyone\n"},
		{"an empty list of names", cluster("a", "egress: [{action: Accept, to: [{domainNames: []}]}]"),
			"spec.egress[0] Accept nothing\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, err := New(read(t, c.objects), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := cluster.Summary(); !strings.Contains(got, c.want) || c.name == "no room" &&
				!strings.HasSuffix(got, c.want) {
				t.Errorf("no %q in:\n%s", c.want, got)
			}
		})
	}
}
