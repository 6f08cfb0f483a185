package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/apiserver"
)

// asProgram has the test's program be weft itself.
const asProgram = "WEFT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	m.Run()
}

// runWeft runs weft until the test ends, which it has to do without an error.
func runWeft(t *testing.T, args ...string) {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=yes")
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := errors.Join(c.Process.Signal(syscall.SIGTERM), c.Wait())
		if err != nil || t.Failed() {
			t.Errorf("weft %s: %v; it said:\n%s", args, err, &said)
		}
	})
}

// TestAdminNetworkPolicies: on a cluster that has AdminNetworkPolicy instead of ClusterNetworkPolicy, these are
// in force, their status says so, and they are explained. The controller, the API server and the Northbound are
// real; the kinds come while the controller runs.
func TestAdminNetworkPolicies(t *testing.T) {
	s := apiserver.Start(t)
	northbound := ovsdbtest.Server(t, ovsdbtest.Northbound(t))
	runWeft(t, "controller", "--kubeconfig", s.Kubeconfig, "--ovn-northbound", northbound.Endpoint, "--metrics-address",
		"", "--pod-cidrs", "10.1.0.0/16", "--service-cidrs", "10.96.0.0/16")
	for _, o := range []struct{ path, object string }{
		{"/api/v1/namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: prod, labels: {stage: prod}}}`},
		{"/api/v1/nodes", `{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.1.0.0/24]}}`},
		{"/api/v1/namespaces/prod/pods",
			`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}`},
		{"/api/v1/namespaces/prod/pods",
			`{apiVersion: v1, kind: Pod, metadata: {name: db}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}`},
	} {
		if err := s.Create(o.path, o.object); err != nil {
			t.Fatal(err)
		}
	}
	const (
		api      = "/apis/policy.networking.k8s.io/v1alpha1/"
		admin    = api + "adminnetworkpolicies"
		baseline = api + "baselineadminnetworkpolicies"
	)
	s.Install(t, "v0.1.7", "adminnetworkpolicies", admin)
	s.Install(t, "v0.1.7", "baselineadminnetworkpolicies", baseline)
	for _, o := range []struct{ path, object string }{
		{admin, `{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: guard}, spec: {priority: 7, subject: {namespaces: {matchLabels: {stage: prod}}},
  egress: [{name: no-telnet, action: Deny, to: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP, port: 23}}]}]}}`},
		{baseline, `{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}, spec: {subject: {namespaces: {}},
  ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{portRange: {protocol: UDP, start: 100, end: 200}}]}]}}`},
	} {
		if err := s.Create(o.path, o.object); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{admin + "/guard", baseline + "/default"} {
		s.Eventually(t, path+" is in force", func() error { return ready(s, path) })
	}
	rows := ovsdbtest.Run(t, "ovn-nbctl", "--db="+northbound.Endpoint, "--columns=tier,action,name", "--format=csv",
		"--no-headings", "find", "ACL", "external_ids:weft.net/owner!=Policies/common", "action=drop")
	for _, want := range []string{`1,drop,"""ANP/guard egress[0]"""`, `3,drop,"""BANP/default ingress[0]"""`} {
		if !strings.Contains(rows, want) {
			t.Errorf("no row %s in:\n%s", want, rows)
		}
	}
	code, printed := runPolicy(t, "", "explain", "--kubeconfig", s.Kubeconfig, "--namespace", "prod", "--ovn-northbound",
		northbound.Endpoint, "web", "db:23")
	if want := `Deny by AdminNetworkPolicy guard, spec.egress[0] ("no-telnet")`; code != exitRefused ||
		!strings.Contains(printed, want) {
		t.Errorf("exit code %d, no %q in:\n%s", code, want, printed)
	}
}

// ready says that an object's condition Ready is true.
func ready(s *apiserver.Server, path string) error {
	text, err := s.Do("GET", path, "", nil)
	if err != nil {
		return err
	}
	var object struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	for _, c := range object.Status.Conditions {
		if c.Type == "Ready" && c.Status == metav1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %+v", object.Status.Conditions)
}
