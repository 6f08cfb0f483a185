//go:build ansible

package ansible

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// certify has authorities made on the control node, or refused.
func certify(t *testing.T, dir string, args ...string) (out string, err error) {
	t.Helper()
	inventory := filepath.Join(dir, "hosts.ini")
	if err := os.WriteFile(inventory, []byte("[weft_linux_nodes]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ansible-playbook", append([]string{"--inventory", inventory, "ansible/playbooks/certificates.yml",
		"-e", "weft_pki_dir=" + dir + "/pki",
		"-e", `{"weft_pod_cidrs": ["10.244.0.0/16"], "weft_service_cidrs": ["10.96.0.0/16"]}`}, args...)...)
	cmd.Dir = repository()
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// TestAnAuthorityForEach: an operator's single authority for all would make each node a server.
func TestAnAuthorityForEach(t *testing.T) {
	dir := t.TempDir()
	if out, err := certify(t, dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	one := dir + "/pki/central/ca"
	out, err := certify(t, dir, "-e", `{"weft_pki_authorities": {"chassis": {"certificate": "`+one+`.crt", "key": "`+one+
		`.key"}}}`)
	if err == nil || !strings.Contains(out, "are not three authorities") {
		t.Errorf("one authority for two was not refused: %v\n%s", err, out)
	}
}

// TestNamesOfCertificates: a host or a node that has the name of one of the authority's files would be given that.
func TestNamesOfCertificates(t *testing.T) {
	for _, test := range []struct{ name, inventory, want string }{
		{"all is well", "[weft_central]\nc1 ansible_host=192.0.2.1\n[weft_linux_nodes]\nl1 ansible_host=192.0.2.2\n", ""},
		{"a host that is a node, too", "[weft_central]\nc1 ansible_host=192.0.2.1\n[weft_linux_nodes]\nc1\n", ""},
		{"a node", "[weft_central]\nc1 ansible_host=192.0.2.1\n[weft_linux_nodes]\nca ansible_host=192.0.2.2\n",
			"ca would have the key chassis/ca.key of weft_pki_dir, which is the authority's own"},
		{"a central host", "[weft_central]\nnext ansible_host=192.0.2.1\n[weft_linux_nodes]\nl1 ansible_host=192.0.2.2\n",
			"next would have the key central/next.key of weft_pki_dir, which is the authority's own"},
		{"a host like another one's controller", "[weft_central]\nc1 ansible_host=192.0.2.1\nc2 " +
			"ansible_host=192.0.2.2\ncontroller-c1 ansible_host=192.0.2.3\n[weft_linux_nodes]\nl1 ansible_host=192.0.2.4\n",
			"controller-c1 would have the key central/controller-c1.key of weft_pki_dir, which is another one's"},
	} {
		t.Run(test.name, func(t *testing.T) {
			judged := judge(t, test.inventory+
				"[all:vars]\nansible_connection=local\nweft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n")
			if test.want == "" && strings.Contains(judged, "would have the key") || !strings.Contains(judged, test.want) {
				t.Errorf("want %q: %s", test.want, judged)
			}
		})
	}
}
