//go:build ansible

package central

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestKubeProxyThatStays is a fault, unless the operator wants it to stay: upgrade.yml would not begin.
func TestKubeProxyThatStays(t *testing.T) {
	for removes, want := range map[string]string{
		"true":  "WRONG kube-proxy: daemonset.apps/kube-proxy. Remedy: Weft serves Services itself: site.yml without --limit",
		"false": "ok    kube-proxy: daemonset.apps/kube-proxy",
	} {
		t.Run(removes, func(t *testing.T) {
			_, out, _ := attempt(t, "verify.yml", []string{"Controllers"}, "[weft_central]\nc1\n",
				`case "$*" in "get daemonset "*) echo daemonset.apps/kube-proxy;; esac`+"\n",
				"--extra-vars", `{"weft_image": "weft", "weft_remove_kube_proxy": `+removes+`}`)
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q:\n%s", want, out)
			}
		})
	}
}

// TestAuthorityIsNotRenewed by certificates.yml, and nobody is told that it is.
func TestAuthorityIsNotRenewed(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	dir := t.TempDir()
	play := filepath.Join(dir, "play.yml")
	for path, text := range map[string]string{
		filepath.Join(dir, "tunnel-ca.crt"): string(certificate),
		filepath.Join(dir, "observe.crt"):   string(certificate),
		play: `
- hosts: localhost
  gather_facts: false
  tasks:
  - ansible.builtin.include_role: {name: weft_common, tasks_from: expiry}
  - ansible.builtin.debug: {var: weft_findings | map(attribute='remedy')}
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ansible-playbook", "--inventory", "localhost,", "--connection", "local", play, "--extra-vars",
		`{"weft_pki_renew_days": 100000, "weft_pki_host_dir": "`+dir+`", "weft_expiring": ["tunnel-ca.crt", "observe.crt"],
		"weft_pod_cidrs": ["10.244.0.0/16"], "weft_service_cidrs": ["10.96.0.0/16"]}`)
	cmd.Dir = ovsdbtest.Repository()
	cmd.Env = append(os.Environ(), "ANSIBLE_NOCOLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{"certificates.yml renews no authority: rotate it", `"certificates.yml renews it"`} {
		if strings.Count(string(out), want) != 1 {
			t.Errorf("it does not say once %q:\n%s", want, out)
		}
	}
}
