package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/api/crds"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/manifest"
	"github.com/weftnet/weft/ovn/northbound"
	ovnsettings "github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/apiserver"
)

// explainedCluster is what a kubelet and the controller have made of it: nodes with subnets, pods with addresses.
var explainedCluster = []struct{ path, status, object string }{
	{"/api/v1/nodes", "", `{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {weft.net/node-network: '{"id":1,"podCIDRs":["10.1.0.0/24"],"clusterCIDRs":["10.1.0.0/16"],"serviceCIDRs":["10.96.0.0/16"]}'}}}`},
	{"/api/v1/namespaces", "", `{apiVersion: v1, kind: Namespace, metadata: {name: prod, labels: {stage: prod}}}`},
	{"/api/v1/namespaces/prod/pods", "web",
		`{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}`},
	{"/api/v1/namespaces/prod/pods", "db",
		`{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}`},
	{"/api/v1/namespaces/prod/services", "",
		`{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {clusterIP: 10.96.0.7, ports: [{port: 80, targetPort: 5432}]}}`},
	{"/apis/discovery.k8s.io/v1/namespaces/prod/endpointslices", "",
		`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}, addressType: IPv4, ports: [{name: "", port: 5432}], endpoints: [{addresses: [10.1.0.4]}]}`},
	{"/apis/networking.k8s.io/v1/namespaces/prod/networkpolicies", "",
		`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: db}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]}}`},
}

const clusterPolicies = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies"

var explainedAddresses = map[string]string{"web": "10.1.0.3", "db": "10.1.0.4"}

// createExplained puts them on an API server.
func createExplained(t *testing.T, s *apiserver.Server) {
	t.Helper()
	for _, o := range explainedCluster {
		if err := s.Create(o.path, o.object); err != nil {
			t.Fatal(err)
		}
		if o.status == "" {
			continue
		}
		addr := explainedAddresses[o.status]
		patch := `{"status": {"phase": "Running", "podIP": "` + addr + `", "podIPs": [{"ip": "` + addr + `"}]}}`
		if _, err := s.Do("PATCH", o.path+"/"+o.status+"/status", "application/merge-patch+json", []byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPolicyExplainOnACluster asks a real API server, at first one without CustomResourceDefinitions, and a real
// Northbound.
func TestPolicyExplainOnACluster(t *testing.T) {
	s := apiserver.Start(t)
	createExplained(t, s)
	explain := func(wantCode int, args string, wants ...string) {
		t.Helper()
		code, printed := runPolicy(t, "", append([]string{"explain", "--kubeconfig", s.Kubeconfig, "--namespace", "prod"},
			strings.Fields(args)...)...)
		if code != wantCode {
			t.Errorf("%s: exit code %d", args, code)
		}
		for _, want := range wants {
			if !strings.Contains(printed, want) {
				t.Errorf("%s: there is no %q in:\n%s", args, want, printed)
			}
		}
	}
	explain(0, "web db:5432", "prod/web -> prod/db:5432/tcp: allowed\n\n10.1.0.3 -> 10.1.0.4:5432: allowed\n",
		"Accept by NetworkPolicy prod/db, spec.ingress[0]\n")
	explain(exitRefused, "web db:80", "Deny: isolated by NetworkPolicy prod/db, no rule of which allows it")
	explain(exitRefused, "10.1.0.99 db:5432", "10.1.0.99 is no pod's address")
	explain(0, "web svc/prod/db:80", "10.1.0.3 -> 10.1.0.4:5432: allowed")
	explain(0, "web svc/db", "prod/web -> svc/prod/db:80/tcp: allowed")
	explain(exitUnasked, "web svc/db:http", "has no port http; ask for one of its ports: 80/tcp")
	explain(exitUnasked, "web svc/prod/web:80", "no Service prod/web")
	explain(exitUnasked, "webb db:80", "no pod prod/webb")
	explain(0, "web 10.96.0.7:80", "10.96.0.7:80 is a ClusterIP of Service prod/db: this is about each endpoint that "+
		"the client may get\n\n10.1.0.3 -> 10.1.0.4:5432: allowed")
	explain(exitRefused, "10.1.0.99 10.96.0.7:80", "10.1.0.99 -> 10.1.0.4:5432: refused")
	explain(exitUnasked, "web 10.96.0.7:5432", "has no port 5432/tcp; ask for one of its ports: 80/tcp")
	explain(exitUnasked, "web 10.96.0.99:80", "no Service has it")

	// The rows of a Northbound that has not heard of the latest policies.
	northbound := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	var documents []string
	for _, o := range explainedCluster {
		document := o.object
		if o.status != "" {
			document = strings.TrimSuffix(document, "}") + `, status: {podIPs: [{ip: ` + explainedAddresses[o.status] + `}]}}`
		}
		if !strings.Contains(document, "kind: NetworkPolicy") {
			documents = append(documents, document)
		}
	}
	fill(t, northbound.Endpoint, strings.Join(documents, "\n---\n"))
	with := " --ovn-northbound " + northbound.Endpoint
	explain(0, "web db:80"+with, "no rule of NetworkPolicy prod/db matches", "nothing refuses it: allowed by default",
		"note: the Northbound differs from the objects. By the objects, the connection would be refused:",
		"Deny: isolated by NetworkPolicy prod/db")
	fill(t, northbound.Endpoint, strings.Join(append(documents, explainedCluster[len(explainedCluster)-1].object),
		"\n---\n"))
	explain(exitRefused, "web db:80"+with, "Deny: isolated by NetworkPolicy prod/db, no rule of which allows it\n")
	ovsdbtest.Run(t, "ovn-nbctl", "--db="+northbound.Endpoint, "--name=ours", "--type=switch", "acl-add", "n1", "to-lport",
		"2000", "tcp", "drop")
	explain(exitRefused, "web db:5432"+with, "before all     drop: ACL ours, which is not a policy's",
		"the connection would be allowed:")

	s.Install(t, "v0.2.0", "clusternetworkpolicies", clusterPolicies)
	for _, o := range []string{
		`{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {stage: prod}}}, egress: [{name: quarantine, action: Deny, to: [{namespaces: {}}]}]}}`,
		`{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: same}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}}}}`,
	} {
		if err := s.Create(clusterPolicies, o); err != nil {
			t.Fatal(err)
		}
	}
	explain(exitRefused, "web db:5432", `Admin          Deny by ClusterNetworkPolicy guard, spec.egress[0] ("quarantine")`,
		"ingress of prod/db: allowed", "warning: ClusterNetworkPolicy same: SamePriority")

	if err := s.Create("/apis/networking.k8s.io/v1/namespaces/prod/networkpolicies", `{apiVersion: networking.k8s.io/v1, `+
		`kind: NetworkPolicy, metadata: {name: typo}, spec: {podSelector: {matchLabels: {app: bd}}}}`); err != nil {
		t.Fatal(err)
	}
	explain(exitRefused, "web db:5432", "warning: NetworkPolicy prod/typo has no effect: its subject [prod: pods app=bd] "+
		"selects no pod")
}

// TestPolicyExplainRights asks with the rights that the documents give, except for kinds that the API server does not
// have, and of domains with what nodes' agents tell of them.
func TestPolicyExplainRights(t *testing.T) {
	s := apiserver.Start(t)
	createExplained(t, s)
	s.Install(t, "v0.2.0", "clusternetworkpolicies", clusterPolicies)
	const resolved = "/apis/weft.net/v1alpha1/resolvednames"
	definition, err := crds.Files.ReadFile("weft.net_resolvednames.yaml")
	if err != nil {
		t.Fatal(err)
	}
	create := func(path, object string) {
		t.Helper()
		if err := s.Create(path, object); err != nil {
			t.Fatal(err)
		}
	}
	create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(definition))
	s.Eventually(t, "ResolvedNames are served", func() error {
		_, err := s.Do("GET", resolved, "", nil)
		return err
	})
	create(resolved, `{apiVersion: weft.net/v1alpha1, kind: ResolvedNames, metadata: {name: n1}, names: [{name: www.example.com, addresses: [
		{address: 198.51.100.7, until: "2100-01-01T00:00:00Z"}, {address: 198.51.100.8, until: "2020-01-01T00:00:00Z"}]}]}`)
	create(clusterPolicies, `{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: names}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}},
		egress: [{action: Accept, to: [{domainNames: ["*.example.com"]}]}, {action: Deny, to: [{networks: [198.51.100.0/24]}]}]}}`)
	create("/apis/rbac.authorization.k8s.io/v1/clusterroles", documentedRole(t))
	create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reader},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: weft-policy-explain}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]}`)

	text, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	as := func(user string) string {
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		own := strings.Replace(string(text), "    token:", "    as: "+user+"\n    token:", 1)
		if own == string(text) {
			t.Fatalf("there is no place for the user's name in\n%s", text)
		}
		if err := os.WriteFile(kubeconfig, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		return kubeconfig
	}
	if code, printed := runPolicy(t, "", "explain", "--kubeconfig", as("stranger"), "prod/web", "prod/db:80"); code !=
		exitUnasked || !strings.Contains(printed, "is forbidden") || !strings.Contains(printed,
		"create clusterrolebinding NAME --clusterrole=weft-policy-explain --user=USER") {
		t.Errorf("a user without the right: exit code %d:\n%s", code, printed)
	}
	kubeconfig := as("reader")
	for _, q := range []struct {
		to   string
		code int
		want string
	}{
		{"prod/db:5432", 0, "Accept by NetworkPolicy prod/db, spec.ingress[0]\n"},
		{"svc/prod/db:80", 0, "10.1.0.3 -> 10.1.0.4:5432: allowed"},
		{"10.96.0.7:80", 0, "10.96.0.7:80 is a ClusterIP of Service prod/db"},
		{"198.51.100.7:443", 0, "Accept by ClusterNetworkPolicy names, spec.egress[0]\n"},
		{"198.51.100.8:443", exitRefused, "Deny by ClusterNetworkPolicy names, spec.egress[1]\n"},
	} {
		s.Eventually(t, "the reader may ask for "+q.to, func() error {
			code, printed := runPolicy(t, "", "explain", "--kubeconfig", kubeconfig, "prod/web", q.to)
			if strings.Contains(printed, "is forbidden") && !strings.Contains(printed, "adminnetworkpolicies") {
				return errors.New(printed) // the API server has not heard of the role yet
			}
			if code != q.code || !strings.Contains(printed, q.want) {
				t.Errorf("exit code %d, not %d, or there is no %q in:\n%s", code, q.code, q.want, printed)
			}
			return nil
		})
	}
}

// documentedRole is the document's, without the kinds that the API server lacks.
func documentedRole(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	const others = ", adminnetworkpolicies, baselineadminnetworkpolicies"
	for block := range strings.SplitSeq(string(text), "```") {
		if role, ok := strings.CutPrefix(block, "yaml\n"); ok && strings.Contains(role, "name: weft-policy-explain") &&
			strings.Contains(role, others) {
			return strings.Replace(role, others, "", 1)
		}
	}
	t.Fatal("the document has no such role")
	return ""
}

// fill gives a Northbound the rows that manifests ask for.
func fill(t *testing.T, endpoint, text string) {
	t.Helper()
	set, err := manifest.Read(strings.NewReader(text), "prod", "-")
	if err != nil {
		t.Fatal(err)
	}
	config := ovnsettings.DefaultConfig()
	config.Northbound, config.PodCIDRs, config.ServiceCIDRs = []string{endpoint}, []string{"10.1.0.0/16"},
		[]string{"10.96.0.0/16"}
	config.JoinCIDRs = []string{"100.64.0.0/16"}
	offline, err := ovn.Translate(config, set.Objects)
	if err != nil {
		t.Fatal(err)
	}
	engine := ovsdb.NewEngine(ovsdbtest.Connect(t, ovsdbtest.Northbound(t), endpoint, northbound.Tables...))
	if err := engine.Replace(t.Context(), offline.Changes); err != nil {
		t.Fatal(err)
	}
}
