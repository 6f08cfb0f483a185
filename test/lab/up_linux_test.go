package lab

import (
	"os"
	"path/filepath"
	"testing"
)

// A kubelet that has renewed its credentials links to them by a path of its own system, which leads nowhere in this
// one.
func TestCredentialsThatAKubeletHasRenewedAreItsOwn(t *testing.T) {
	f := files{dir: t.TempDir()}
	for name, text := range map[string]string{"l1.crt": "first", "l1.key": "key"} {
		if err := os.MkdirAll(f.pki(""), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.pki(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(f.hostDisk("l1"), "kubelet/pki/kubelet-client-current.pem")
	if err := writeKubeletCredentials(f, "l1"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(link); err != nil || string(text) != "firstkey" {
		t.Fatalf("the kubelet is given %q, %v", text, err)
	}
	const renewed = "/var/lib/kubelet/pki/kubelet-client-2026-01-02-03-04-05.pem"
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(renewed, link); err != nil {
		t.Fatal(err)
	}
	if err := writeKubeletCredentials(f, "l1"); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Readlink(link); err != nil || now != renewed {
		t.Errorf("its credentials are %q, %v", now, err)
	}
}
