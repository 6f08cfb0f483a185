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
	return strings.TrimSpace(ovsdbtest.Run(d.T, "ovs-vsctl", append([]string{"--db=" + d.Endpoint, "--no-wait"},
		words...)...))
}

// makeBridges is what the agent makes.
func (d database) makeBridges() {
	d.Helper()
	for _, name := range []string{"br-int", "weft-uplink"} {
		d.run("add-br", name, "--", "set", "bridge", name, `external_ids:"`+ovsdb.OwnerMark+`"=Node/w1`)
	}
}

func (d database) bridges() string {
	d.Helper()
	return d.run("list-br")
}

// makeAuthority makes what the role pki makes of the authority whose certificates the agents have.
func makeAuthority(t *testing.T, folder string) {
	t.Helper()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tunnel"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(10 * 365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	certificate, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	check(t, err)
	keyText, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	check(t, os.MkdirAll(folder, 0o700))
	for file, block := range map[string]*pem.Block{
		"ca.crt": {Type: "CERTIFICATE", Bytes: certificate}, "trust.crt": {Type: "CERTIFICATE", Bytes: certificate},
		"ca.key": {Type: "PRIVATE KEY", Bytes: keyText},
	} {
		check(t, os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600))
	}
}
