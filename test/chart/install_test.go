package chart

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/weftnet/weft/models/api/rights"
	"github.com/weftnet/weft/test/apiserver"
)

// TestHelmInstalls has Helm install the chart, change it and take it off again, on a real API server. No kubelet is
// there to run its pods.
func TestHelmInstalls(t *testing.T) {
	s := apiserver.Start(t)
	exists := func(path string) error {
		_, err := s.Do(http.MethodGet, path, "", nil)
		return err
	}
	s.Eventually(t, "kube-system is there", func() error { return exists("/api/v1/namespaces/kube-system") })
	if err := s.Create("/api/v1/namespaces/default/pods", "{apiVersion: v1, kind: Pod, metadata: {name: web}, "+
		"spec: {automountServiceAccountToken: false, containers: [{name: c, image: i}]}}"); err != nil {
		t.Fatal(err)
	}
	// The playbooks' rights are there already.
	role, _, _ := strings.Cut(rights.Controller, "---\n")
	if err := s.Create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role); err != nil {
		t.Fatal(err)
	}
	helm := helmOf(t, s)

	install := action.NewInstall(helm)
	install.ReleaseName, install.Namespace = "weft", namespace
	if _, err := install.RunWithContext(t.Context(), load(t), valuesOf(t, least)); err == nil ||
		!strings.Contains(err.Error(), "ClusterRole \"weft-controller\"") {
		t.Errorf("Helm takes what it has not made, without being told: %v", err)
	}
	install.TakeOwnership = true
	if _, err := install.RunWithContext(t.Context(), load(t), valuesOf(t, least)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/apis/apps/v1/namespaces/kube-system/deployments/weft-controller",
		"/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets/weft-controller",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/egressips.weft.net",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/weft-annotations",
	} {
		if err := exists(path); err != nil {
			t.Error(err)
		}
	}
	accountsMay(t, s)

	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace = namespace
	// The authority of a door is not looked at while its Service has no endpoint.
	if _, err := upgrade.RunWithContext(t.Context(), "weft", load(t), valuesOf(t, least, doors)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/apis/apps/v1/namespaces/kube-system/deployments/weft-observe",
		"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.observe.weft.net",
	} {
		if err := exists(path); err != nil {
			t.Error(err)
		}
	}

	uninstall := action.NewUninstall(helm)
	if _, err := uninstall.Run("weft"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/apis/apps/v1/namespaces/kube-system/deployments/weft-controller",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/weft-controller",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/weft-annotations",
		"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.observe.weft.net",
	} {
		s.Eventually(t, path+" is gone", func() error {
			if exists(path) == nil {
				return fmt.Errorf("%s is there", path)
			}
			return nil
		})
	}
	// With the kinds all their objects would go.
	if err := exists("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/egressips.weft.net"); err != nil {
		t.Error(err)
	}
}

// accountsMay is what the pods' account may, beside and against the policy that keeps Weft's annotations from others.
func accountsMay(t *testing.T, s *apiserver.Server) {
	t.Helper()
	const pod, merge = "/api/v1/namespaces/default/pods/web", "application/merge-patch+json"
	annotation := []byte(`{"metadata": {"annotations": {"weft.net/pod-network": "{}"}}}`)
	account := func(name string) *apiserver.Server {
		return s.As("system:serviceaccount:kube-system:"+name, "system:serviceaccounts", "system:authenticated")
	}
	s.Eventually(t, "the controllers' account annotates pods", func() error {
		_, err := account("weft-controller").Do(http.MethodPatch, pod, merge, annotation)
		return err
	})
	if err := s.Create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{apiVersion: rbac.authorization.k8s.io/v1,
		kind: ClusterRoleBinding, metadata: {name: others}, subjects: [{kind: ServiceAccount, name: others, namespace: kube-system}],
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}`); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the policy refuses another account", func() error {
		_, err := account("others").Do(http.MethodPatch, pod+"?dryRun=All", merge,
			[]byte(`{"metadata": {"annotations": {"weft.net/pod-network": "stolen"}}}`))
		if err == nil || !strings.Contains(err.Error(), "is written by weft alone") {
			return fmt.Errorf("the answer is %v", err)
		}
		return nil
	})
}

// helmOf is Helm with the rights of the server's administrator.
func helmOf(t *testing.T, s *apiserver.Server) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &s.Kubeconfig
	space := namespace
	flags.Namespace = &space
	helm := &action.Configuration{}
	if err := helm.Init(flags, namespace, "secrets", t.Logf); err != nil {
		t.Fatal(err)
	}
	return helm
}
