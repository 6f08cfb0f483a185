package southbound

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft/ovsdb/certificates"
)

// credentials are the guard's PEM files. They are read again for each client.
type credentials struct {
	files certificates.Files // authorities are those of nodes' certificates
	kept  certificates.Kept
}

// current is how clients are met now.
func (c *credentials) current() (*tls.Config, error) {
	set, err := c.kept.Read(c.files)
	if err != nil {
		return nil, err
	}
	// Without tickets every connection shows its certificate. Who shows none is sent away after the handshake.
	return &tls.Config{Certificates: []tls.Certificate{*set.Own}, ClientCAs: set.Authorities,
		ClientAuth: tls.VerifyClientCertIfGiven,
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}, nil
}

// fit says why nodes would not take the guard's certificate now.
func (c *credentials) fit() error {
	config, err := c.current()
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		return err
	}
	if now := time.Now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return fmt.Errorf("the guard's certificate is valid from %s to %s", leaf.NotBefore.Format(time.RFC3339),
			leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// accepts says why a chain of certificates counts no more, for a client that has shown it before.
func (c *credentials) accepts(chain []*x509.Certificate) error {
	config, err := c.current()
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: config.ClientCAs, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("its certificate counts no more: %w", err)
	}
	return nil
}

// nodeOf is the node that a certificate names. With several names, others might take another one of them.
func nodeOf(certificate *x509.Certificate) (string, error) {
	var names []string
	for _, name := range certificate.Subject.Names {
		if name.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) {
			names = append(names, fmt.Sprint(name.Value))
		}
	}
	switch {
	case len(names) > 1:
		return "", fmt.Errorf("its certificate has the common names %q; one is the node's", names)
	case len(names) == 0 || names[0] == "":
		return "", errors.New("its certificate has no common name, which is the node's")
	}
	return names[0], nil
}
