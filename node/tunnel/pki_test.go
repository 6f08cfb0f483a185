package tunnel

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb/certificates"
)

// authority is a CA of a test.
type authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serial int64

func newAuthority(tb testing.TB, name string) *authority {
	tb.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour), SerialNumber: big.NewInt(1),
	}
	a := &authority{tb: tb, key: newKey(tb)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// issue makes a certificate; change may alter it before it is signed.
func (a *authority) issue(name string, change ...func(*x509.Certificate)) (certificate, key []byte) {
	a.tb.Helper()
	serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial + 1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth},
	}
	for _, f := range change {
		f(template)
	}
	private := newKey(a.tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
func tomorrow(c *x509.Certificate) {
	c.NotBefore = time.Now().Add(24 * time.Hour)
	c.NotAfter = c.NotBefore.Add(time.Hour)
}

// credentialFiles are a folder with ca.crt, tls.crt and tls.key.
type credentialFiles struct {
	tb  testing.TB
	dir string
}

func newFiles(tb testing.TB, trusted *authority, certificate, key []byte) *credentialFiles {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tunnel")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { // not TempDir: Wine 8 fails to remove a folder with what is in it
		for _, name := range []string{"ca.crt", "tls.crt", "tls.key", ""} {
			_ = os.Remove(filepath.Join(dir, name)) // a test may have
		}
	})
	f := &credentialFiles{tb, dir}
	f.write("ca.crt", trusted.pem)
	f.renew(certificate, key)
	return f
}

func (f *credentialFiles) write(name string, text []byte) {
	f.tb.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), text, 0o600); err != nil {
		f.tb.Fatal(err)
	}
}

func (f *credentialFiles) renew(certificate, key []byte) {
	f.tb.Helper()
	f.write("tls.crt", certificate)
	f.write("tls.key", key)
}

func (f *credentialFiles) credentials() Credentials {
	return Files(filepath.Join(f.dir, "ca.crt"), filepath.Join(f.dir, "tls.crt"), filepath.Join(f.dir, "tls.key"))
}

// fixed are credentials that do not change.
func fixed(tb testing.TB, trusted *authority, certificate, key []byte) Credentials {
	tb.Helper()
	set, err := certificates.Texts{
		Certificate: certificates.Text{PEM: certificate}, Key: certificates.Text{PEM: key},
		Authorities: certificates.Text{PEM: trusted.pem},
	}.Parse()
	if err != nil {
		tb.Fatal(err)
	}
	return func() (*certificates.Set, error) { return set, nil }
}
