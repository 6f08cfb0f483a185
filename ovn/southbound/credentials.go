package southbound

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// credentials are the guard's PEM files. They are read again when they change; while what is new is of no use, as
// between a certificate that is renewed and its key, the old counts.
type credentials struct {
	certificate, key, authorities string
	log                           *slog.Logger

	mu     sync.Mutex
	stamps [3]stamp
	config *tls.Config
	told   told
}

type stamp struct {
	changed time.Time
	size    int64
}

// current is how clients are met now.
func (c *credentials) current() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stamps [3]stamp
	for i, name := range []string{c.certificate, c.key, c.authorities} {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	if c.config != nil && stamps == c.stamps {
		return c.config, nil
	}
	config, err := c.read()
	switch {
	case err == nil:
		c.config, c.stamps = config, stamps
	case c.config == nil:
		return nil, err
	case c.told.more(""):
		c.log.Error("what is new cannot be read; the certificate and authority of before count", "error", err)
	}
	return c.config, nil
}

func (c *credentials) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return nil, fmt.Errorf("certificate, private-key: %w", err)
	}
	pem, err := os.ReadFile(c.authorities)
	if err != nil {
		return nil, fmt.Errorf("node-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("node-ca: %s has no certificate in PEM form", c.authorities)
	}
	// Without tickets every connection shows its certificate.
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}, nil
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
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: config.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
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
