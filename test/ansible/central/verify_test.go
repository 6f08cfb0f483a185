//go:build ansible

package central

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// away is a host that nobody reaches.
const away = " ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1\n"

// playbook runs one for an inventory. The hosts are this machine, unless the inventory says other things of one. None
// of their services runs.
func playbook(t *testing.T, name, inventory string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hosts.ini": inventory + "[all:vars]\nansible_connection=local\nansible_become=false\nweft_kubeconfig=/dev/null\n" +
			"weft_kubectl=/bin/false\nweft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n",
		"systemctl": "#!/bin/sh\necho inactive\necho disabled\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ansible-playbook", append([]string{"--inventory", filepath.Join(dir, "hosts.ini"),
		"ansible/playbooks/" + name}, args...)...)
	cmd.Dir = ovsdbtest.Repository()
	cmd.Env = append(os.Environ(), "ANSIBLE_NOCOLOR=1", "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAllIsLookedAt: neither a fault nor a host that is away keeps verify.yml from what comes later. Nothing of Weft
// runs here.
func TestAllIsLookedAt(t *testing.T) {
	out, err := playbook(t, "verify.yml", "[weft_central]\nc1"+away+"c2\n[weft_linux_nodes]\nl1\n")
	if err == nil {
		t.Error("verify.yml finds that all is well")
	}
	for _, want := range []string{
		"something is wrong at c2 (databases, controller, door)", "something is wrong at l1 (Linux node)",
		"WRONG service weft-observe", "WRONG chassis l1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestOperatorsAuthoritiesAreNotRotated: the next run would bring the former authority back, and hosts would have
// certificates of an authority that nobody trusts.
func TestOperatorsAuthoritiesAreNotRotated(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		out, _ := playbook(t, "certificates.yml", "[weft_central]\nc1"+away, append([]string{"--extra-vars",
			"weft_pki_dir=" + filepath.Join(dir, "pki"), "--extra-vars"}, args...)...)
		return out
	}
	out := run("weft_pki_rotate=")
	operators := filepath.Join(dir, "operators")
	if err := os.CopyFS(operators, os.DirFS(filepath.Join(dir, "pki/central"))); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, test := range []struct{ name, vars, want string }{
		{"of the operator", `{"weft_pki_authorities": {"central": {"certificate": "` + operators + `/ca.crt", "key": "` +
			operators + `/ca.key"}}}`, "weft_pki_authorities has central"},
		{"whose key is elsewhere", `{"weft_pki_sign": false}`, "weft_pki_sign is false"},
		{"of the playbooks", `{"weft_pki_authorities": {}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := run("weft_pki_rotate=begin", "--extra-vars", test.vars)
			_, err := os.Stat(filepath.Join(dir, "pki/chassis/next.crt"))
			if refused := test.want != ""; refused != os.IsNotExist(err) || !strings.Contains(out, test.want) {
				t.Errorf("the next authority: %v; want %q in:\n%s", err, test.want, out)
			}
		})
	}
}
