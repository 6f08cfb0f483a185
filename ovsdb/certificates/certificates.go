// Package certificates reads what one end of TLS connections shows and trusts. Certificates are renewed under
// running daemons: whoever reads them anew for each connection has the new ones without a restart.
package certificates

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

// Set is what one end shows, and whose certificates it takes.
type Set struct {
	// Own has its chain, key and Leaf.
	Own         *tls.Certificate
	Authorities *x509.CertPool
}

// Signed says whether the authorities have signed what the other end shows, its own certificate first. Names count for
// nothing: OVN's certificates carry none.
func (s *Set) Signed(shown []*x509.Certificate) error {
	intermediates := x509.NewCertPool()
	for _, c := range shown[1:] {
		intermediates.AddCert(c)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{Roots: s.Authorities, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// Texts are a Set in PEM form.
type Texts struct{ Certificate, Key, Authorities Text }

// Text is PEM and, for messages, where it is from: a file's name, say.
type Text struct {
	From string
	PEM  []byte
}

// Parse fails when certificate and key do not belong together, or when there is no authority.
func (t Texts) Parse() (*Set, error) {
	own, err := tls.X509KeyPair(t.Certificate.PEM, t.Key.PEM)
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w; give a certificate and the key that it was made for, "+
			"both as PEM", t.Certificate.From, t.Key.From, err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(t.Authorities.PEM) {
		return nil, fmt.Errorf("authorities %s: there is no certificate in it; give that of whoever signs the other "+
			"end's, as PEM", t.Authorities.From)
	}
	return &Set{&own, authorities}, nil
}

func (t Texts) same(other Texts) bool {
	return bytes.Equal(t.Certificate.PEM, other.Certificate.PEM) && bytes.Equal(t.Key.PEM, other.Key.PEM) &&
		bytes.Equal(t.Authorities.PEM, other.Authorities.PEM)
}

// Files are the names of PEM files.
type Files struct{ Certificate, Key, Authorities string }

// Read reads them as they are now.
func (f Files) Read() (*Set, error) {
	texts, err := f.texts()
	if err != nil {
		return nil, err
	}
	return texts.Parse()
}

func (f Files) texts() (Texts, error) {
	var failed error
	read := func(name string) Text {
		pem, err := os.ReadFile(name)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%w; put a PEM file there, readable by the daemon", err))
		}
		return Text{name, pem}
	}
	return Texts{read(f.Certificate), read(f.Key), read(f.Authorities)}, failed
}

// Kept is the last Set that was good. What comes after it and is of no use, as files in the middle of a
// renewal, does not take its place; the log says why.
type Kept struct {
	mu      sync.Mutex
	texts   Texts
	set     *Set
	problem string // as last logged
}

// Read is what is in the files now, or else what is kept. An error means that nothing is.
func (k *Kept) Read(files Files) (*Set, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offer(files.texts())
}

// Offer keeps the texts, if they are good and err is nil. It returns what is kept; an error means that nothing
// is.
func (k *Kept) Offer(texts Texts, err error) (*Set, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offer(texts, err)
}

func (k *Kept) offer(texts Texts, err error) (*Set, error) {
	if err == nil && k.set != nil && texts.same(k.texts) {
		k.problem = ""
		return k.set, nil
	}
	var set *Set
	if err == nil {
		set, err = texts.Parse()
	}
	switch {
	case err == nil:
		if k.set != nil {
			slog.Info("certificate renewed", "certificate", texts.Certificate.From, "until", set.Own.Leaf.NotAfter)
		}
		k.texts, k.set, k.problem = texts, set, ""
	case k.set == nil:
		return nil, err
	case err.Error() != k.problem:
		k.problem = err.Error()
		slog.Error("what is new of certificate, key and authorities is of no use; the old ones stay", "error", err)
	}
	return k.set, nil
}
