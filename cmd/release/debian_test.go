package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// samplePackage is written to a file.
func samplePackage(t *testing.T) string {
	t.Helper()
	programs := []entry{{"weft", executable, []byte("the program")}, {"weft-cni", executable, []byte("the plugin")}}
	p := debianPackage{"1.2.0~rc.1-1", "amd64", programs, entry{licensesFile, forAll, []byte("MIT")}, noon}
	var first, second bytes.Buffer
	if err := p.write(&first); err != nil {
		t.Fatal(err)
	}
	if err := p.write(&second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two runs give other bytes")
	}
	path := filepath.Join(t.TempDir(), "weft.deb")
	write(t, path, first.String())
	return path
}

func ran(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestDpkgReadsThePackage(t *testing.T) {
	path := samplePackage(t)
	fields := ran(t, "dpkg-deb", "--field", path)
	for _, want := range []string{"Package: weft\n", "Version: 1.2.0~rc.1-1\n", "Architecture: amd64\n",
		"Ansible collection weftnet.weft", "Installed-Size: 12\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("no %q in:\n%s", want, fields)
		}
	}
	listed := ran(t, "dpkg-deb", "--contents", path)
	for _, want := range []string{"./usr/bin/weft\n", "./usr/lib/cni/weft-cni\n"} {
		if !strings.Contains(listed, want) {
			t.Errorf("no %q in:\n%s", want, listed)
		}
	}
}

// TestDpkgInstallsAndRemovesThePackage in a root of its own, which is empty again afterwards.
func TestDpkgInstallsAndRemovesThePackage(t *testing.T) {
	path, root := samplePackage(t), t.TempDir()
	for _, folder := range []string{"updates", "info"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "var/lib/dpkg/status"), "")
	dpkg := func(args ...string) string {
		t.Helper()
		return ran(t, "dpkg", append([]string{"--root=" + root, "--force-not-root", "--force-architecture"}, args...)...)
	}
	dpkg("--install", path)
	if changed := dpkg("--verify", "weft"); changed != "" {
		t.Errorf("dpkg finds other files than it has checksums of:\n%s", changed)
	}
	for name, want := range map[string]string{"usr/bin/weft": "the program", "usr/lib/cni/weft-cni": "the plugin"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(content) != want {
			t.Errorf("%s has %q: %v", name, content, err)
		}
		if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.Mode() != executable {
			t.Errorf("%s has the mode %s", name, info.Mode())
		}
	}
	dpkg("--remove", "weft")
	if _, err := os.Stat(filepath.Join(root, "usr")); !os.IsNotExist(err) {
		t.Errorf("usr is still there: %v", err)
	}
	if status := dpkg("--list"); strings.Contains(status, "weft") {
		t.Errorf("dpkg still knows it:\n%s", status)
	}
}

// TestArMembersBeginAtEvenPlaces, as ar(5) asks for.
func TestArMembersBeginAtEvenPlaces(t *testing.T) {
	var out strings.Builder
	if err := writeAr(&out, noon, []entry{{"odd", forAll, []byte("abc")}, {"even", forAll, []byte("abcd")}}); err != nil {
		t.Fatal(err)
	}
	want := "!<arch>\n" +
		"odd             1772625600  0     0     100644  3         `\nabc\n" +
		"even            1772625600  0     0     100644  4         `\nabcd"
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}
