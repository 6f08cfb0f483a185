//go:build linux

package chassis

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

	"github.com/weftnet/weft/node/tunnel"
)

// authority is a CA of a test.
type authority struct {
	tb   testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{tb: tb, dir: tb.TempDir()}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), SerialNumber: big.NewInt(1),
	}
	a.cert, a.key = template, a.newKey()
	der := a.sign(template, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.write("ca.crt", "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	return key
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return der
}

func (a *authority) write(name, kind string, der []byte) {
	a.tb.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
		0o600); err != nil {
		a.tb.Fatal(err)
	}
}

// issue writes NAME.crt and NAME.key, good until then.
func (a *authority) issue(file, name string, until time.Time) (certificate, key string) {
	a.tb.Helper()
	private := a.newKey()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.tb.Fatal(err)
	}
	der := a.sign(&x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth},
	}, private)
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.write(file+".crt", "CERTIFICATE", der)
	a.write(file+".key", "EC PRIVATE KEY", keyDER)
	return filepath.Join(a.dir, file+".crt"), filepath.Join(a.dir, file+".key")
}

func (a *authority) ca() string { return filepath.Join(a.dir, "ca.crt") }

// agent are the credentials of a node's agent.
func (a *authority) agent(node string) tunnel.Credentials {
	certificate, key := a.issue(node, tunnel.AgentName(node), time.Now().Add(time.Hour))
	return tunnel.Files(a.ca(), certificate, key)
}

// useHost points a configuration to a chassis host's files.
func (a *authority) useHost(c *Config, until time.Time) {
	c.CA = a.ca()
	c.Certificate, c.PrivateKey = a.issue("chassis", tunnel.HostName, until)
}
