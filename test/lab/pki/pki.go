// Package pki makes the lab's certificates and kubeconfigs.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Pair is a certificate and its key, both PEM.
type Pair struct{ Cert, Key []byte }

// Subject of a certificate: clients are known by name and groups, servers by DNS names and addresses.
type Subject struct {
	Name      string
	Groups    []string
	DNSNames  []string
	Addresses []netip.Addr
	// NotBefore and NotAfter bound its validity; where they are zero it is valid now, and for long.
	NotBefore, NotAfter time.Time
}

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// A lab lives for hours; clocks of machines that were copied may differ by some.
const (
	validBefore = time.Hour
	validFor    = 365 * 24 * time.Hour
)

// NewAuthority makes a certificate authority.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	a := &Authority{key: key}
	a.Pair, err = sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.Cert)
	a.cert, err = x509.ParseCertificate(block.Bytes)
	return a, err
}

// ReadAuthority reads what [Pair.Write] of an authority has written.
func ReadAuthority(dir, name string) (*Authority, error) {
	a := &Authority{}
	var errs [2]error
	a.Cert, errs[0] = os.ReadFile(filepath.Join(dir, name+".crt"))
	a.Key, errs[1] = os.ReadFile(filepath.Join(dir, name+".key"))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(a.Cert, a.Key)
	if err != nil {
		return nil, fmt.Errorf("authority %s in %s: %w", name, dir, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("authority %s in %s has a key of type %T", name, dir, pair.PrivateKey)
	}
	a.cert, a.key = pair.Leaf, key
	return a, nil
}

// Issue makes a certificate that serves for both ends of a connection.
func (a *Authority) Issue(s Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template := newTemplate(pkix.Name{CommonName: s.Name, Organization: s.Groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	template.DNSNames = s.DNSNames
	if !s.NotBefore.IsZero() {
		template.NotBefore = s.NotBefore
	}
	if !s.NotAfter.IsZero() {
		template.NotAfter = s.NotAfter
	}
	for _, address := range s.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	pair, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate of %s: %w", s.Name, err)
	}
	return pair, nil
}

func newTemplate(name pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil { // crypto/rand does not fail
		panic(err)
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: name, NotBefore: now.Add(-validBefore),
		NotAfter: now.Add(validFor),
		KeyUsage: x509.KeyUsageDigitalSignature}
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return Pair{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER)}, nil
}

// SigningKey makes the pair of keys, PEM both, that ServiceAccount tokens are signed and checked with.
func SigningKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	privateDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	return encode("EC PRIVATE KEY", privateDER), encode("PUBLIC KEY", publicDER), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Kubeconfig for a client of the API server at an https URL; name is that of its only context.
func (a *Authority) Kubeconfig(name, server string, client Pair) ([]byte, error) {
	return Kubeconfig(name, api.Cluster{Server: server, CertificateAuthorityData: a.Cert},
		api.AuthInfo{ClientCertificateData: client.Cert, ClientKeyData: client.Key})
}

// Kubeconfig with one context, one cluster and one user, all of that name.
func Kubeconfig(name string, cluster api.Cluster, user api.AuthInfo) ([]byte, error) {
	return clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{name: &cluster}, AuthInfos: map[string]*api.AuthInfo{name: &user},
		Contexts: map[string]*api.Context{name: {Cluster: name, AuthInfo: name}}, CurrentContext: name,
	})
}

// Write stores the pair as NAME.crt and NAME.key.
func (p Pair) Write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}
