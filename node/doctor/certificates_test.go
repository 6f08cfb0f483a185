package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"testing"
	"time"
)

type fakeFiles map[string][]byte

func (f fakeFiles) ReadFile(name string) ([]byte, error) {
	if name == "forbidden" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	if text, ok := f[name]; ok {
		return text, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T, from, to time.Time) *authority {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a := &authority{}
	der, key := sign(t, template, nil)
	a.key, a.pem = key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	var err error
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a certificate of a new key; signed by itself without an authority.
func sign(t *testing.T, template *x509.Certificate, by *authority) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func TestCertificates(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	ours, others := newAuthority(t, now.Add(-day), now.Add(1000*day)), newAuthority(t, now.Add(-day), now.Add(1000*day))
	old := newAuthority(t, now.Add(-1000*day), now.Add(-day))
	make := func(by *authority, name string, from, to time.Time) (certificate, key []byte) {
		der, private := sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
			DNSNames: []string{name}, NotBefore: from, NotAfter: to}, by)
		bytes, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes})
	}
	const name = "w1.node.weft.net"
	_, otherKey := make(ours, name, now, now.Add(day))
	for _, c := range []struct {
		what   string
		by     *authority
		name   string
		from   time.Duration
		to     time.Duration
		change func(fakeFiles, *pair)
		states string
		words  string
	}{
		{"good", ours, name, -day, 90 * day, nil, "ok", "2026-08-30"},
		{"expires soon", ours, name, -day, 3 * day, nil, "warning", "in 3 days"},
		{"expired", ours, name, -10 * day, -day, nil, "failed", "expired on 2026-05-31"},
		{"of the future", ours, name, day, 90 * day, nil, "failed", "clock"},
		{"of another authority", others, name, -day, 90 * day, nil, "failed", "sign"},
		{"of another authority than its servers'", others, name, -day, 90 * day, func(_ fakeFiles, p *pair) {
			p.OfPeers = true
		}, "ok", ""},
		{"of an expired authority", old, name, -day, 90 * day, func(f fakeFiles, _ *pair) { f["ca"] = old.pem }, "failed",
			"expired"},
		{"other name", ours, "w2.node.weft.net", -day, 90 * day, nil, "failed",
			"[w2.node.weft.net] and not for w1.node.weft.net"},
		{"other key", ours, name, -day, 90 * day, func(f fakeFiles, _ *pair) { f["key"] = otherKey }, "failed",
			"one another"},
		{"no authority", ours, name, -day, 90 * day, func(f fakeFiles, _ *pair) { f["ca"] = []byte("x") }, "failed",
			"holds no certificate"},
		{"no file", ours, name, -day, 90 * day, func(f fakeFiles, _ *pair) { delete(f, "key") }, "failed", "key"},
		{"no rights", ours, name, -day, 90 * day, func(_ fakeFiles, p *pair) { p.Key = "forbidden" }, "unknown",
			"administrator"},
		{"not set", ours, name, -day, 90 * day, func(_ fakeFiles, p *pair) { p.Key = "" }, "unknown", "not set"},
		{"any name will do", ours, "x", -day, 90 * day, func(_ fakeFiles, p *pair) { p.Name = "" }, "ok", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			certificate, key := make(c.by, c.name, now.Add(c.from), now.Add(c.to))
			files := fakeFiles{"ca": ours.pem, "certificate": certificate, "key": key}
			p := pair{Of: "the agent's", CA: "ca", Certificate: "certificate", Key: "key", Name: name}
			if c.change != nil {
				c.change(files, &p)
			}
			expect(t, checkPair(files, p, now), c.states, c.words)
		})
	}
}
