package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func authority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func keyPair(t *testing.T, a *Authority, s Subject) tls.Certificate {
	t.Helper()
	pair, err := a.Issue(s)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func pool(a *Authority) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Cert)
	return roots
}

func TestServerAndClientKnowEachOther(t *testing.T) {
	a := authority(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		if subject.CommonName != "system:node:l1" || subject.Organization[0] != "system:nodes" {
			t.Errorf("the client is %s", subject)
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(a),
		Certificates: []tls.Certificate{
			keyPair(t, a, Subject{Name: "server", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})}}
	server.StartTLS()
	defer server.Close()
	get := func(certs ...tls.Certificate) error {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(a), Certificates: certs}}}
		response, err := client.Get(server.URL)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	if err := get(keyPair(t, a, Subject{Name: "system:node:l1", Groups: []string{"system:nodes"}})); err != nil {
		t.Error(err)
	}
	if err := get(keyPair(t, authority(t), Subject{Name: "system:node:l1"})); err == nil {
		t.Error("a client of another authority was let in")
	}
}

// A lab may be called what YAML takes for a boolean, a number, a date or nothing.
func TestKubeconfigHoldsTheCredentials(t *testing.T) {
	a := authority(t)
	pair, err := a.Issue(Subject{Name: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	const server = "https://[fd00:29::1]:6443"
	for _, name := range []string{"weft", "off", "on", "y", "no", "true", "null", "123", "0123", "0x1f", "0o17", "1e3",
		"2026-11-23"} {
		text, err := a.Kubeconfig(name, server, pair)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.Load(text)
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
			continue
		}
		client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
		if err != nil || config.CurrentContext != name {
			t.Errorf("%s: %v in\n%s", name, err, text)
			continue
		}
		tls := client.TLSClientConfig
		if client.Host != server || !bytes.Equal(tls.CAData, a.Cert) || !bytes.Equal(tls.CertData, pair.Cert) ||
			!bytes.Equal(tls.KeyData, pair.Key) {
			t.Errorf("%s is for %s, or with other credentials:\n%s", name, client.Host, text)
		}
	}
}

func TestSigningKeysBelongTogether(t *testing.T) {
	private, public, err := SigningKey()
	if err != nil {
		t.Fatal(err)
	}
	privateBlock, _ := pem.Decode(private)
	publicBlock, _ := pem.Decode(public)
	key, err := x509.ParseECPrivateKey(privateBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.ParsePKIXPublicKey(publicBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !key.PublicKey.Equal(other) {
		t.Error("the public key is another key's")
	}
}

func TestAnAuthorityFromItsFilesIssuesForAnyTime(t *testing.T) {
	a, dir := authority(t), t.TempDir()
	if err := a.Write(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	read, err := ReadAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, c := range map[string]struct {
		subject Subject
		valid   bool
	}{
		"now":     {Subject{Name: "w1"}, true},
		"expired": {Subject{Name: "w1", NotAfter: now.Add(-time.Minute)}, false},
		"not yet": {Subject{Name: "w1", NotBefore: now.Add(time.Hour)}, false},
	} {
		cert := keyPair(t, read, c.subject)
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool(a), CurrentTime: now}); (err == nil) != c.valid {
			t.Errorf("%s: verified with %v", name, err)
		}
	}
	if _, err := ReadAuthority(t.TempDir(), "ca"); err == nil {
		t.Error("an authority was read where there is none")
	}
}
