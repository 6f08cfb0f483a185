//go:build ansible

package windows

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
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// kubeconfig leads nowhere: the doctor's findings about the API server are passed over here.
const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`

// database is the node's, by a real ovsdb-server.
type database struct {
	*testing.T
	*ovsdbtest.Process
}

func newDatabase(t *testing.T) database {
	t.Helper()
	d := database{t, ovsdbtest.Server(t, ovsdbtest.OpenVSwitch(t))}
	d.Control("ovsdb-server/add-remote", "ptcp:16640:127.0.0.1")
	d.run("init")
	return d
}

func (d database) run(words ...string) string {
	d.Helper()
	return strings.TrimSpace(ovsdbtest.Run(d.T, "ovs-vsctl", append([]string{"--db=" + d.Endpoint, "--no-wait"}, words...)...))
}

// makeBridges is what the agent makes.
func (d database) makeBridges() {
	d.Helper()
	for _, name := range []string{"br-int", "vEth-Ethernet"} {
		d.run("add-br", name, "--", "set", "bridge", name, `external_ids:"`+ovsdb.OwnerMark+`"=Node/w1`)
	}
}

func (d database) bridges() string {
	d.Helper()
	return d.run("list-br")
}

// makeCertificates makes a CA and the certificate of a node's agent.
func makeCertificates(t *testing.T, folder, node string) {
	t.Helper()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tunnel"}, NotAfter: time.Now().Add(24 * time.Hour * 365),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	name := node + ".node.weft.net"
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	check(t, err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for file, block := range map[string]*pem.Block{
		"ca.crt": {Type: "CERTIFICATE", Bytes: authorityDER}, name + ".crt": {Type: "CERTIFICATE", Bytes: leafDER}, name + ".key": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		check(t, os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600))
	}
}
