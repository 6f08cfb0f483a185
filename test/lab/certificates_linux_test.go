package lab

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/test/lab/pki"
)

func TestIssueTunnelCertificate(t *testing.T) {
	l := aLab(t, DatapathHyperV)
	if err := (certificates{l.layout()}).write(); err != nil {
		t.Fatal(err)
	}
	first := agentNames(t, l, "w1")
	if !slices.Equal(first, []string{agentName("w1")}) {
		t.Fatalf("the agent's first certificate has the names %v", first)
	}
	strange := []string{"strange.example.org"}
	if err := l.IssueTunnelCertificate("w1", func(s *pki.Subject) { s.DNSNames = strange }); err != nil {
		t.Fatal(err)
	}
	if got := agentNames(t, l, "w1"); !slices.Equal(got, strange) {
		t.Errorf("the changed certificate has the names %v", got)
	}
	if err := l.IssueTunnelCertificate("w1", nil); err != nil {
		t.Fatal(err)
	}
	if got := agentNames(t, l, "w1"); !slices.Equal(got, first) {
		t.Errorf("the certificate that its role wants has the names %v", got)
	}
	if err := l.IssueTunnelCertificate(Central, nil); err == nil || !strings.Contains(err.Error(), "central is no node") {
		t.Errorf("for a machine that is no node: %v", err)
	}
}

// agentNames are those in the certificate of a node's agent, which the cluster's authority has signed.
func agentNames(t *testing.T, l *Lab, node string) []string {
	t.Helper()
	leaf, authority := readCertificate(t, l.files.pki(agentPair(node)+".crt")), readCertificate(t, l.files.pki("ca.crt"))
	if err := leaf.CheckSignatureFrom(authority); err != nil {
		t.Fatal(err)
	}
	return leaf.DNSNames
}

func readCertificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%s has no certificate", path)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
