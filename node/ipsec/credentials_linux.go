package ipsec

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
)

// credentials are what files had when they were read.
type credentials struct {
	authorities  []string // DER
	certificates []string // DER, the node's own first
	privateKey   []byte   // PEM
	changed      time.Time
}

// read examines the files as a peer would, which finds the certificate at addr.
func (f Files) read(addr netip.Addr, now time.Time) (credentials, error) {
	var c credentials
	contents := map[string][]byte{}
	for key, path := range map[string]string{"encryption-ca": f.CA, "encryption-certificate": f.Certificate,
		"encryption-private-key": f.PrivateKey} {
		info, err := os.Stat(path)
		if err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
		if info.ModTime().After(c.changed) {
			c.changed = info.ModTime()
		}
		if contents[key], err = os.ReadFile(path); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	authorities, err := certificatesOf(contents["encryption-ca"])
	if err != nil {
		return c, fmt.Errorf("encryption-ca: %s: %w", f.CA, err)
	}
	pair, err := tls.X509KeyPair(contents["encryption-certificate"], contents["encryption-private-key"])
	if err != nil {
		return c, fmt.Errorf("encryption-certificate and encryption-private-key: %w; place a certificate and its own key",
			err)
	}
	own := pair.Leaf
	if own.Subject.CommonName != subject(addr) || own.Subject.String() != "CN="+subject(addr) {
		return c, fmt.Errorf("encryption-certificate: %s is of %q, and peers of this node take only one of subject %q, "+
			"after encap-address: have the authority sign such a one",
			f.Certificate, own.Subject, "CN="+subject(addr))
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
		c.authorities = append(c.authorities, string(authority.Raw))
	}
	for i, der := range pair.Certificate {
		c.certificates = append(c.certificates, string(der))
		if certificate, err := x509.ParseCertificate(der); i > 0 && err == nil {
			between.AddCert(certificate)
		}
	}
	_, err = own.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return c, fmt.Errorf("encryption-certificate: %s: %w; place one that is valid and that an authority of "+
			"encryption-ca has signed", f.Certificate, err)
	}
	c.privateKey = contents["encryption-private-key"]
	return c, nil
}

// certificatesOf reads all certificates of a PEM file.
func certificatesOf(text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		found = append(found, certificate)
	}
	if len(found) == 0 {
		return nil, errors.New("has no certificate; place the authority's in PEM form")
	}
	return found, nil
}

// subject is the common name of the certificate of the node whose tunnels end at addr.
func subject(addr netip.Addr) string { return addr.String() }
