//go:build ansible

package ansible

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// auditor may view the namespace, and nothing else: no right, no credentials and no way that are OVN's.
const auditor = `
apiVersion: v1
kind: Namespace
metadata: {name: audited}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: auditor, namespace: audited}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: auditor, namespace: audited}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: auditor, namespace: audited}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: counted, namespace: audited}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: 8099}]}]}
`

// hitsAreCounted on both nodes, of what passes and of what does not, for who has a kubeconfig alone.
func hitsAreCounted(t *testing.T) {
	t.Helper()
	servers.Apply(t, auditor, waits...)
	kubeconfig := kubeconfigOf(t, "audited", "auditor")
	for _, n := range nodes {
		servers.Apply(t, strings.Replace(agnhost("audited-"+n.name, n.name, "hostNetwork: false"), "{name: audited-",
			"{namespace: audited, name: audited-", 1), waits...)
	}
	for _, n := range nodes {
		servers.Kubectl(t, "wait", "-n", "audited", "--for=condition=Ready", "--timeout=120s", "pod/audited-"+n.name)
	}
	for _, n := range nodes {
		target := servers.Kubectl(t, "get", "pod", "-n", "audited", "audited-"+n.other, "-o", "jsonpath={.status.podIP}")
		for port, rule := range map[string]string{"8099": "spec.ingress[0]", "9": "isolation from ingress"} {
			eventually(t, 90*time.Second, fmt.Sprintf("%s counts what meets %s", n.other, rule), func() error {
				_, _ = servers.Try("kubectl", "--", "exec", "-n", "audited", "audited-"+n.name, "--", "curl", "-sS", "-m", "1",
					"http://"+target+":"+port+"/hostname")
				return counted(kubeconfig, "NetworkPolicy audited/counted", rule, n.other)
			})
		}
	}
	if out, err := policyHits(kubeconfig, "-n", "kube-system"); err == nil || !strings.Contains(out+err.Error(),
		"has no right to list") && !strings.Contains(out+err.Error(), "forbidden") {
		t.Errorf("of another namespace the auditor is told %s, %v", out, err)
	}
}

// counted is nil where a node has met a rule, and every node has answered.
func counted(kubeconfig, policy, rule, node string) error {
	out, err := policyHits(kubeconfig, "-n", "audited", "-o", "json")
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	var list api.PolicyHitsList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	if list.NodesAsked != len(nodes) || list.NodesUnanswered != 0 {
		return fmt.Errorf("%d nodes were asked, %d have not answered", list.NodesAsked, list.NodesUnanswered)
	}
	for _, hit := range list.Items {
		if hit.Policy == policy && hit.Rule == rule && slices.ContainsFunc(hit.Nodes, func(h api.NodeHits) bool {
			return h.Node == node && h.Packets > 0 && h.Bytes > 0
		}) {
			return nil
		}
	}
	return errors.New("there is only " + out)
}

// policyHits runs on the control node, without what the control node has.
func policyHits(kubeconfig string, args ...string) (string, error) {
	return servers.Try(append([]string{"control", "--", "env", "-i", current.program("weft"), "policy", "hits",
		"--kubeconfig", kubeconfig}, args...)...)
}

// kubeconfigOf a ServiceAccount: its token in place of the administrator's credentials.
func kubeconfigOf(t *testing.T, namespace, name string) string {
	t.Helper()
	token := servers.Kubectl(t, "create", "token", "-n", namespace, name)
	var config map[string]any
	if err := json.Unmarshal([]byte(servers.Kubectl(t, "config", "view", "--raw", "--minify", "--flatten", "-o", "json")),
		&config); err != nil {
		t.Fatal(err)
	}
	users, ok := config["users"].([]any)
	if !ok || len(users) != 1 {
		t.Fatalf("the administrator's kubeconfig has the users %v", config["users"])
	}
	users[0].(map[string]any)["user"] = map[string]any{"token": token}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// noDoors is an installation without weft observe: nothing of it is on hosts, and the API server asks nobody.
func noDoors(t *testing.T) {
	t.Helper()
	for _, central := range centrals {
		if left := servers.On(t, central, "sh", "-c", "ls -d /etc/systemd/system/weft-observe* /etc/weft/*observe* "+
			"/etc/weft/pki/*observe* /run/weft-observe /etc/tmpfiles.d/weft-observe* /var/lib/weft/ovn/*readers* 2> "+
			"/dev/null || true"); left != "" {
			t.Errorf("%s has no door, and has %s", central, left)
		}
	}
	if left := servers.Kubectl(t, "get", "apiservice", "v1alpha1.observe.weft.net", "--ignore-not-found",
		"--output=name"); left != "" {
		t.Error("the API server still asks for " + left)
	}
}
