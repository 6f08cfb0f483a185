package certificates_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/certificates"
	"github.com/weftnet/weft/test/lab/pki"
)

// scene is a folder with ca.crt, own.crt and own.key.
type scene struct {
	*testing.T
	ca    *pki.Authority
	files certificates.Files
}

func newScene(t *testing.T) *scene {
	ca, err := pki.NewAuthority("test CA")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &scene{t, ca, certificates.Files{Certificate: filepath.Join(dir, "own.crt"), Key: filepath.Join(dir, "own.key"),
		Authorities: filepath.Join(dir, "ca.crt")}}
	s.write(s.files.Authorities, ca.Cert)
	own := s.issue("first")
	s.write(s.files.Certificate, own.Cert)
	s.write(s.files.Key, own.Key)
	return s
}

func (s *scene) issue(name string) pki.Pair {
	s.Helper()
	pair, err := s.ca.Issue(pki.Subject{Name: name})
	if err != nil {
		s.Fatal(err)
	}
	return pair
}

func (s *scene) write(file string, text []byte) {
	s.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.Fatal(err)
	}
}

// wants checks whose certificate is read.
func (s *scene) wants(name string, read func() (*certificates.Set, error)) {
	s.Helper()
	set, err := read()
	if err != nil {
		s.Fatal(err)
	}
	if got := set.Own.Leaf.Subject.CommonName; got != name {
		s.Errorf("the certificate is that of %s, want %s", got, name)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(s *scene)
		words []string // in the error
	}{
		{"nothing", func(*scene) {}, nil},
		{"no file", func(s *scene) { _ = os.Remove(s.files.Key); _ = os.Remove(s.files.Authorities) },
			[]string{"own.key", "ca.crt", "readable by the daemon"}},
		{"another's key", func(s *scene) { s.write(s.files.Key, s.issue("other").Key) }, []string{"own.crt", "own.key",
			"does not match", "made for"}},
		{"half a certificate", func(s *scene) { s.write(s.files.Certificate, s.ca.Cert[:40]) },
			[]string{"own.crt", "as PEM"}},
		{"no authority", func(s *scene) { s.write(s.files.Authorities, s.issue("other").Key) },
			[]string{"ca.crt", "no certificate", "whoever signs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.spoil(s)
			for _, read := range []func() (*certificates.Set, error){
				s.files.Read, func() (*certificates.Set, error) { return new(certificates.Kept).Read(s.files) },
			} {
				if c.words == nil {
					s.wants("first", read)
					continue
				}
				_, err := read()
				if err == nil {
					t.Fatal("no error")
				}
				for _, word := range c.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("no %q in: %v", word, err)
					}
				}
			}
		})
	}
}

// TestTheLastGoodSetIsKept while a renewal is under way, and the log says once what is wrong.
func TestTheLastGoodSetIsKept(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	s := newScene(t)
	kept := new(certificates.Kept)
	read := func() (*certificates.Set, error) { return kept.Read(s.files) }
	s.wants("first", read)
	second := s.issue("second")
	s.write(s.files.Certificate, second.Cert)
	for range 3 {
		s.wants("first", read)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "own.crt") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	s.write(s.files.Key, second.Key)
	s.wants("second", read)
	if !strings.Contains(log.String(), "renewed") {
		t.Errorf("the renewal is not logged:\n%s", log.String())
	}
	if err := os.Remove(s.files.Authorities); err != nil {
		t.Fatal(err)
	}
	s.wants("second", read)
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}
