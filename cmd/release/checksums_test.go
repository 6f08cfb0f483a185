package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sealed is a folder of one file, its checksum and the signature, and the file of those that may sign.
func sealed(t *testing.T) (folder, signers string) {
	t.Helper()
	folder, keys := t.TempDir(), t.TempDir()
	key := filepath.Join(keys, "key")
	ran(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers = filepath.Join(keys, "signers")
	write(t, signers, "releaser "+string(public))
	write(t, filepath.Join(folder, "file"), "content")
	m := maker{signKey: key}
	if err := m.seal(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	return folder, signers
}

// verify does what docs/releases.md tells users to do.
func verify(folder, signers string) error {
	const commands = `sha256sum --check --strict SHA256SUMS &&
		ssh-keygen -Y verify -f "$0" -I releaser -n release@weft.net -s SHA256SUMS.sig < SHA256SUMS`
	cmd := exec.Command("sh", "-c", commands, signers)
	cmd.Dir = folder
	return cmd.Run()
}

func TestSealIsVerified(t *testing.T) {
	if err := verify(sealed(t)); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"file", checksumsFile} {
		folder, signers := sealed(t)
		path := filepath.Join(folder, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, strings.ToUpper(string(content)))
		if err := verify(folder, signers); err == nil {
			t.Errorf("another %s is not noticed", name)
		}
	}
}

func TestWithoutAKeyItSaysSo(t *testing.T) {
	folder := t.TempDir()
	var said strings.Builder
	if err := (maker{stdout: &said}).seal(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "not signed") {
		t.Errorf("it says %q", &said)
	}
	if _, err := os.Stat(filepath.Join(folder, checksumsFile+".sig")); !os.IsNotExist(err) {
		t.Errorf("there is a signature: %v", err)
	}
}

func TestMissingKeyIsNamed(t *testing.T) {
	err := release(t.Context(), []string{"-version", "1.2.0", "-sign-key", "/no/such", t.TempDir()}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "SIGN_KEY") || !strings.Contains(err.Error(), "/no/such") {
		t.Errorf("the error is %v", err)
	}
}
