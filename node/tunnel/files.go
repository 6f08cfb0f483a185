package tunnel

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// material is credentials as PEM text and as what was parsed from it.
type material struct {
	ca, certificate, key []byte

	pair  *tls.Certificate
	roots *x509.CertPool
}

func (m *material) same(other *material) bool {
	return other != nil && bytes.Equal(m.ca, other.ca) && bytes.Equal(m.certificate, other.certificate) && bytes.Equal(m.key, other.key)
}

func (m *material) parse() error {
	pair, err := tls.X509KeyPair(m.certificate, m.key)
	if err != nil {
		return fmt.Errorf("certificate and key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(m.ca) {
		return errors.New("CA: it has no certificate in PEM form")
	}
	m.pair, m.roots = &pair, roots
	return nil
}

// held is the last good material. What is offered and cannot be used does not replace it.
type held struct {
	source string // for messages

	mu      sync.Mutex
	now     *material
	problem string // as last logged
}

func (h *held) offer(m *material, err error) error {
	if err == nil && m.same(h.now) {
		h.problem = ""
		return nil
	}
	if err == nil {
		err = m.parse()
	}
	if err == nil {
		if h.now != nil {
			slog.Info("certificate renewed", "source", h.source, "certificate", describe(m.pair.Leaf))
		}
		h.now, h.problem = m, ""
		return nil
	}
	err = fmt.Errorf("%s: %w", h.source, err)
	if h.now == nil {
		return err
	}
	if text := err.Error(); text != h.problem {
		h.problem = text
		slog.Error("the new certificate, key or CA is not usable; the old ones stay", "error", err)
	}
	return nil
}

// Files are credentials in PEM files. They are read again for each connection; files that cannot be
// read or do not fit each other, as in the middle of a renewal, leave the former ones in use.
func Files(ca, certificate, key string) Credentials {
	return &files{paths: [3]string{ca, certificate, key}, held: held{source: "credentials " + ca + ", " + certificate + ", " + key}}
}

type files struct {
	paths [3]string
	held
}

func (f *files) refresh() (*material, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var texts [3][]byte
	var failed error
	for i, path := range f.paths {
		text, err := os.ReadFile(path)
		texts[i], failed = text, errors.Join(failed, err)
	}
	if err := f.offer(&material{ca: texts[0], certificate: texts[1], key: texts[2]}, failed); err != nil {
		return nil, err
	}
	return f.now, nil
}

func (f *files) Certificate() (*tls.Certificate, error) {
	m, err := f.refresh()
	if err != nil {
		return nil, err
	}
	return m.pair, nil
}

func (f *files) Roots() (*x509.CertPool, error) {
	m, err := f.refresh()
	if err != nil {
		return nil, err
	}
	return m.roots, nil
}
