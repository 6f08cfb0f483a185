package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// pair is a certificate with its key and an authority, as PEM files.
type pair struct {
	// Of says whose it is, as in "the agent's".
	Of                   string
	CA, Certificate, Key string
	// Name is a name that the certificate must have; empty where none is needed.
	Name string
	// OfPeers: the authority is that of the servers. Another one may have signed the certificate, and the servers say
	// by themselves whether they take it.
	OfPeers bool
}

// fileReader reads files whole.
type fileReader interface {
	ReadFile(name string) ([]byte, error)
}

// osFiles are this machine's.
type osFiles struct{}

func (osFiles) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

// expirySoon is when a certificate's end is worth a warning.
const expirySoon = 14 * 24 * time.Hour

// checkPair examines one certificate with everything that has to fit it.
func checkPair(files fileReader, p pair, now time.Time) []Finding {
	const s = subject("certificates")
	if p.CA == "" || p.Certificate == "" || p.Key == "" {
		return s.unknown("", "%s certificate, key or authority is not set", p.Of)
	}
	certificate, key, authority, err := readPair(files, p)
	if errors.Is(err, fs.ErrPermission) {
		return s.unknown("run this as an administrator", "%s certificate: %v", p.Of, err)
	}
	if err != nil {
		return s.failed("put the file there, readable by the agent, as PEM", "%s certificate: %v", p.Of, err)
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		return s.failed("give certificate and key of one another", "%s certificate %s and key %s: %v", p.Of, p.Certificate,
			p.Key, err)
	}
	chain, err := parseChain(certificate)
	if err != nil {
		return s.failed("write the file anew", "%s certificate %s: %v", p.Of, p.Certificate, err)
	}
	return verifyChain(s, p, chain, authority, now)
}

func readPair(files fileReader, p pair) (certificate, key, authority []byte, err error) {
	if certificate, err = files.ReadFile(p.Certificate); err != nil {
		return nil, nil, nil, err
	}
	if key, err = files.ReadFile(p.Key); err != nil {
		return nil, nil, nil, err
	}
	authority, err = files.ReadFile(p.CA)
	return certificate, key, authority, err
}

// parseChain reads the certificates of a PEM file, the own one first.
func parseChain(text []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, certificate)
	}
	if len(chain) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	return chain, nil
}

func verifyChain(s subject, p pair, chain []*x509.Certificate, authority []byte, now time.Time) []Finding {
	leaf := chain[0]
	if finding := assessValidity(s, fmt.Sprintf("%s certificate %s", p.Of, p.Certificate), leaf, now); finding != nil &&
		finding[0].State == Failed {
		return finding
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return s.failed("put the authority's certificate there, as PEM", "%s authority %s holds no certificate", p.Of, p.CA)
	}
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil && !p.OfPeers {
		return s.failed("have the authority in "+p.CA+" sign the certificate, or name the one that has; the authority's "+
			"own certificate may have expired", "%s certificate %s: %v", p.Of, p.Certificate, err)
	}
	if p.Name != "" && leaf.VerifyHostname(p.Name) != nil {
		return s.failed("have a certificate made with the name "+p.Name+" (a DNS name in subjectAltName)",
			"%s certificate %s is for [%s] and not for %s: peers refuse it", p.Of, p.Certificate,
			strings.Join(leaf.DNSNames, " "), p.Name)
	}
	if finding := assessValidity(s, fmt.Sprintf("%s certificate %s", p.Of, p.Certificate), leaf, now); finding != nil {
		return finding
	}
	return s.ok("%s certificate is valid until %s", p.Of, day(leaf.NotAfter))
}

// assessValidity returns nil for a certificate that is valid, and for some time yet.
func assessValidity(s subject, what string, c *x509.Certificate, now time.Time) []Finding {
	switch {
	case now.Before(c.NotBefore):
		return s.failed("correct this node's clock, or the one of the machine that made it", "%s is not valid before %s",
			what, c.NotBefore.UTC().Format(time.RFC3339))
	case now.After(c.NotAfter):
		return s.failed("renew it", "%s expired on %s", what, day(c.NotAfter))
	case now.Add(expirySoon).After(c.NotAfter):
		return s.warning("renew it", "%s expires on %s, in %d days", what, day(c.NotAfter),
			int(c.NotAfter.Sub(now).Hours()/24))
	}
	return nil
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02") }
