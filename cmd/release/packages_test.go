package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPinsAreRead(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	snapshot, pins, err := parsePins("# a comment\nsnapshot 20260304T120000Z\n" + sum +
		"  pool/main/o/ovs/ovs_3.5.0-1+b1_arm64.deb\n")
	if err != nil || snapshot != "20260304T120000Z" || len(pins) != 1 {
		t.Fatalf("%s %v: %v", snapshot, pins, err)
	}
	p := pins[0]
	if p.sum != sum || p.name() != "ovs" || p.version() != "3.5.0-1+b1" || p.architecture() != "arm64" ||
		p.url() != "pkg:deb/debian/ovs@3.5.0-1%2Bb1?arch=arm64" {
		t.Errorf("%+v is %s of %s for %s, %s", p, p.name(), p.version(), p.architecture(), p.url())
	}
	for text, want := range map[string]string{
		"snapshot 20260304T120000Z\n":                                                   "no snapshot or no package",
		sum + "  pool/main/o/ovs/ovs_3.5.0-1_arm64.deb\n":                               "no snapshot or no package",
		"snapshot yesterday\n":                                                          "let cmd/release/packages.sh write",
		"snapshot 20260304T120000Z\n" + sum + "  /etc/passwd\n":                         "neither SHA256",
		"snapshot 20260304T120000Z\n" + sum + "  pool/main/o/ovs/ovs_3.5.0-1_all.deb\n": "neither SHA256",
	} {
		if _, _, err := parsePins(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, without %q", text, err, want)
		}
	}
}

// TestPinsOfTheRepository: a release has the same packages for each architecture.
func TestPinsOfTheRepository(t *testing.T) {
	text, err := os.ReadFile("../../" + packagesFile)
	if err != nil {
		t.Fatal(err)
	}
	_, pins, err := parsePins(string(text))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, p := range pins {
		names[p.architecture()] = append(names[p.architecture()], p.name())
	}
	if fmt.Sprint(names["amd64"]) != fmt.Sprint(names["arm64"]) || len(names) != 2 {
		t.Errorf("the packages are %v", names)
	}
}

// TestPackagesAreThoseOfTheirChecksums: of several mirrors the first counts that has the very package, and it is asked
// once.
func TestPackagesAreThoseOfTheirChecksums(t *testing.T) {
	const path = "pool/main/o/ovs/ovs_3.5.0-1_amd64.deb"
	asked := 0
	serve := func(content string) string {
		mux := http.NewServeMux()
		if content != "" {
			mux.HandleFunc("/"+path, func(w http.ResponseWriter, _ *http.Request) { asked++; fmt.Fprint(w, content) })
		}
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return server.URL
	}
	p := pin{fmt.Sprintf("%x", sha256.Sum256([]byte("package"))), path}
	empty, wrong, right := serve(""), serve("another"), serve("package")

	a := debianArchive{[]string{empty, wrong}, nil, t.TempDir()}
	_, err := a.fetch(t.Context(), p)
	for _, want := range []string{path, "404 Not Found", "its SHA-256 is", "DEBIAN_MIRROR=URL"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
	asked = 0
	a.mirrors = append(a.mirrors, right)
	for range 2 {
		file, err := a.fetch(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != "package" {
			t.Errorf("%s has %q: %v", file, content, err)
		}
	}
	if asked != 2 { // the wrong mirror, and the right one
		t.Errorf("mirrors were asked %d times", asked)
	}
	write(t, filepath.Join(a.cache, p.sum+".deb"), "spoilt")
	if file, err := a.fetch(t.Context(), p); err != nil || p.check([]byte(read(t, file))) != nil {
		t.Errorf("a spoilt copy is taken: %v", err)
	}
}

// TestSecurityUpdatesHaveMirrorsOfTheirOwn: each archive is asked for its own packages alone.
func TestSecurityUpdatesHaveMirrorsOfTheirOwn(t *testing.T) {
	serve := func(prefix string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, prefix) {
				t.Errorf("the mirror of %s is asked for %s", prefix, r.URL.Path)
			}
			fmt.Fprint(w, r.URL.Path)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	a := debianArchive{[]string{serve("/pool/main/")}, []string{serve("/pool/updates/main/")}, t.TempDir()}
	for _, path := range []string{"pool/main/o/ovs_3.5.0-1_amd64.deb", "pool/updates/main/o/ovs_3.5.0-2_amd64.deb"} {
		if _, err := a.fetch(t.Context(), pin{fmt.Sprintf("%x", sha256.Sum256([]byte("/"+path))), path}); err != nil {
			t.Error(err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestDebsAreUnpacked(t *testing.T) {
	root, file := t.TempDir(), filepath.Join(t.TempDir(), "x.deb")
	for _, folder := range []string{"DEBIAN", "usr/lib"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "DEBIAN/control"), "Package: ovs\nVersion: 3.5.0-1\nArchitecture: amd64\nMaintainer: M\n"+
		"Description: d\n")
	write(t, filepath.Join(root, "usr/lib/libx.so.1.0"), "library")
	if err := os.Symlink("libx.so.1.0", filepath.Join(root, "usr/lib/libx.so.1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "usr/lib/libx.so.1.0"), filepath.Join(root, "usr/lib/libx.so.2")); err != nil {
		t.Fatal(err)
	}
	ran(t, "dpkg-deb", "--root-owner-group", "--build", root, file)
	d, err := readDeb(t.Context(), pin{path: "pool/o/ovs_3.5.0-1_amd64.deb"}, file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(d.control), "Package: ovs\n") {
		t.Errorf("the control file is %q", d.control)
	}
	for _, name := range []string{"usr/lib/libx.so.1.0", "usr/lib/libx.so.1", "usr/lib/libx.so.2", "lib/libx.so.1"} {
		if _, content := (unpacked{d}).read(name); string(content) != "library" {
			t.Errorf("%s has %q", name, content)
		}
	}
}
