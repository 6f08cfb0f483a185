package southbound

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovsdb/certificates"
	"github.com/weftnet/weft/test/transcript"
)

// authority signs certificates.
type authority struct {
	testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	a := &authority{TB: t}
	a.key = a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	a.certificate = a.create(template, template, a.key)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	return key
}

func (a *authority) create(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return certificate
}

// sign gives a certificate with a name, changed by what is odd about it.
func (a *authority) sign(name string, odd ...func(*x509.Certificate)) tls.Certificate {
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth}}
	for _, change := range odd {
		change(template)
	}
	key := a.newKey()
	leaf := a.create(template, a.certificate, key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) write(name string, kind string, der []byte) {
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.Fatal(err)
	}
}

func (a *authority) writeKey(name string, pair tls.Certificate) {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		a.Fatal(err)
	}
	a.write(name, "PRIVATE KEY", der)
}

// gate is a guard on the network, before a real server.
type gate struct {
	*southbound
	address        string
	servers, nodes *authority
	files          certificates.Files
	log            transcript.Transcript
	started        int // nodes that there were not before
}

func newGate(t testing.TB) *gate {
	g := &gate{southbound: newSouthbound(t), servers: newAuthority(t), nodes: newAuthority(t)}
	dir := t.TempDir()
	logger := slog.New(slog.NewTextHandler(&g.log, nil))
	g.files = certificates.Files{Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"),
		Authorities: filepath.Join(dir, "ca")}
	own := g.servers.sign("central")
	g.servers.write(g.files.Certificate, "CERTIFICATE", own.Certificate[0])
	g.servers.writeKey(g.files.Key, own)
	g.nodes.write(g.files.Authorities, "CERTIFICATE", g.nodes.certificate.Raw)
	g.guard.credentials, g.guard.log, g.guard.recheck = &credentials{files: g.files}, logger, 20*time.Millisecond
	var end func()
	g.address, end = g.serve()
	t.Cleanup(end)
	return g
}

// serve has the guard take who comes to an address, until the end, which is all connections' by it.
func (g *gate) serve() (address string, end func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- g.guard.serve(ctx, listener) }()
	return listener.Addr().String(), func() {
		cancel()
		if err := <-ended; err != nil {
			g.Error(err)
		}
	}
}

// connect is as a node does, with what it has.
func (g *gate) connect(config *tls.Config) (net.Conn, error) {
	config.InsecureSkipVerify = true // the guard is what is tested
	d := &net.Dialer{Timeout: nodetest.Patience}
	conn, err := tls.DialWithDialer(d, "tcp", g.address, config)
	if err != nil {
		return nil, err
	}
	g.Cleanup(func() { conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(nodetest.Patience))
}

// ask is what the Southbound says to a request.
func ask(conn net.Conn, method, params string) (string, error) {
	if _, err := fmt.Fprintf(conn, `{"id":0,"method":%q,"params":%s}`, method, params); err != nil {
		return "", err
	}
	for m := (&messages{from: conn}); ; {
		answer, err := m.next()
		if err != nil || string(answer) != lifeRequest {
			return string(answer), err
		}
	}
}

func count(t *testing.T, c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestWhoIsLetIn shows the guard certificates that count, and others.
func TestWhoIsLetIn(t *testing.T) {
	g := newGate(t)
	commonName := func(names ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.Subject = pkix.Name{Organization: []string{"l1"}}
			for _, name := range names {
				c.Subject.ExtraNames = append(c.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4,
					3}, Value: name})
			}
		}
	}
	for _, c := range []struct {
		what, logged string
		config       *tls.Config
	}{
		{"a node", "", &tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1")}}},
		{"a node with TLS 1.2", "", &tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1")},
			MaxVersion: tls.VersionTLS12}},
		{"nobody", "didn't provide a certificate", &tls.Config{}},
		{"a node of another authority", "signed by unknown authority",
			&tls.Config{Certificates: []tls.Certificate{newAuthority(t).sign("l1")}}},
		{"a server", "signed by unknown authority", &tls.Config{Certificates: []tls.Certificate{g.servers.sign("central")}}},
		{"whose certificate has expired", "has expired or is not yet valid",
			&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1", func(c *x509.Certificate) {
				c.NotAfter = time.Now().Add(-time.Minute)
			})}}},
		{"whose certificate is for later", "has expired or is not yet valid",
			&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1", func(c *x509.Certificate) {
				c.NotBefore = time.Now().Add(time.Minute)
			})}}},
		{"who may be a server alone", "incompatible key usage",
			&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1", func(c *x509.Certificate) {
				c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			})}}},
		{"who has no name", "has no common name",
			&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("", commonName())}}},
		{"whose name is empty", "has no common name",
			&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("", commonName(""))}}},
		{"who has two names", "one is the node's",
			&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("", commonName("l1", "l2"))}}},
		{"who speaks TLS 1.1", "unsupported versions", &tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1")},
			MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}},
	} {
		before := len(g.log.String())
		conn, err := g.connect(c.config)
		if err == nil {
			_, err = ask(conn, "echo", `["hello"]`)
		}
		if (err == nil) != (c.logged == "") {
			t.Errorf("%s: %v", c.what, err)
		}
		g.until(c.what+" is not logged with "+c.logged, func() bool {
			return strings.Contains(g.log.String()[before:], c.logged)
		})
		g.guard.toldOthers = told{}
	}
	if n := count(t, g.guard.metrics.handshakes); n != 7 {
		t.Errorf("%v failed handshakes", n)
	}
}

// TestANodesCertificateIsThatNodesAlone: who has the certificate of one node is no other.
func TestANodesCertificateIsThatNodesAlone(t *testing.T) {
	g := newGate(t)
	conn, err := g.connect(&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l2")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ port, answer string }{{"pod2", `{"count":1}`}, {"pod1", "permission error"}} {
		answer, err := ask(conn, "transact",
			g.names.Replace(`["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[["_uuid","==",["uuid","{`+c.port+
				`}"]]],"row":{"chassis":["uuid","{l2}"]}}]`))
		if err != nil || !strings.Contains(answer, c.answer) {
			t.Errorf("%s: %s %v, want %s", c.port, answer, err, c.answer)
		}
	}
	if !strings.Contains(g.log.String(), "row pod1 of table Port_Binding is another node's") ||
		!strings.Contains(g.log.String(), "object=Node/l2") {
		t.Errorf("the log: %s", g.log.String())
	}
}

// TestCertificatesAreRenewed: new files count for new connections, half of them for none, and who has come with what
// counts no more has to go.
func TestCertificatesAreRenewed(t *testing.T) {
	g := newGate(t)
	old, err := g.connect(&tls.Config{Certificates: []tls.Certificate{g.nodes.sign("l1")}})
	if err != nil {
		t.Fatal(err)
	}
	shown := func(node *authority) string {
		conn, err := g.connect(&tls.Config{Certificates: []tls.Certificate{node.sign("l1")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(conn, "echo", `[]`); err != nil {
			return err.Error()
		}
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	renewed := g.servers.sign("renewed")
	g.servers.write(g.files.Certificate, "CERTIFICATE", renewed.Certificate[0])
	if name := shown(g.nodes); name != "central" {
		t.Errorf("a certificate without its key: %s is shown", name)
	}
	g.servers.writeKey(g.files.Key, renewed)
	if name := shown(g.nodes); name != "renewed" {
		t.Errorf("the certificate is new: %s is shown", name)
	}
	if _, err := ask(old, "echo", `[]`); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	other := newAuthority(t)
	g.nodes.write(g.files.Authorities, "CERTIFICATE", other.certificate.Raw)
	if name := shown(other); name != "renewed" {
		t.Errorf("the authority is new: %s", name)
	}
	if _, err := io.Copy(io.Discard, old); err != nil {
		t.Errorf("a connection by an authority of before does not end: %v", err)
	}
	g.until("the end of the connection is not logged", func() bool {
		return strings.Contains(g.log.String(), "its certificate counts no more")
	})
}

// TestStrangersTakeNoNodesPlace: however many come from however many addresses and say nothing, a node gets in.
func TestStrangersTakeNoNodesPlace(t *testing.T) {
	g := newGate(t)
	for i := range pendingAll {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i/pendingEach))}}
		conn, err := d.Dial("tcp", g.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	g.until("handshakes are not pending", func() bool {
		g.guard.door.mu.Lock()
		defer g.guard.door.mu.Unlock()
		return len(g.guard.door.pending) == pendingAll
	})
	pair := g.nodes.sign("l1")
	for range 2 {
		conn, err := g.connect(&tls.Config{Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(conn, "echo", `[]`); err != nil {
			t.Error(err)
		}
	}
	g.until("it is not counted whose place they got", func() bool { return count(t, g.guard.metrics.full) == 1 })
	const said = "it has waited longest"
	g.until("it is not logged: "+said, func() bool { return strings.Contains(g.log.String(), said) })
}

// TestHandshakesAreFew: each is work for the guard, so an address has so many a second, and others theirs.
func TestHandshakesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d door
		begun := func(from string) (let int) {
			for range 2 * handshakeBurst {
				client, server := net.Pipe()
				leave, err := d.beginHandshake(addressed{server, from})
				if err == nil {
					let++
					leave()
				}
				client.Close()
			}
			return let
		}
		for _, from := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
			if let := begun(from); let != handshakeBurst {
				t.Errorf("%s: %d handshakes at once", from, let)
			}
		}
		if let := begun("2001:db8::2"); let > 0 {
			t.Errorf("the same network of another host: %d handshakes", let)
		}
		time.Sleep(time.Second)
		if let := begun("192.0.2.1"); let != handshakeRate {
			t.Errorf("%d handshakes after a second", let)
		}
		for i := range 2 * clientsAll {
			d.handshakes.takes(fmt.Sprint(i), handshakeRate, handshakeBurst)
			time.Sleep(time.Second)
		}
		if n := len(d.handshakes.of); n > clientsAll {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.from), Port: 1} }

// TestThereIsAlwaysRoom: neither pending handshakes nor a node with many connections keep others out.
func TestThereIsAlwaysRoom(t *testing.T) {
	g := newGate(t)
	closed := func(conn net.Conn) bool {
		conn.SetReadDeadline(time.Now().Add(nodetest.Patience))
		_, err := conn.Read(make([]byte, 1))
		return err == io.EOF || err != nil && strings.Contains(err.Error(), "reset")
	}
	pending := func() net.Conn {
		conn, err := net.Dial("tcp", g.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	waiting := func() int {
		g.guard.door.mu.Lock()
		defer g.guard.door.mu.Unlock()
		return len(g.guard.door.pending)
	}
	var silent []net.Conn
	for range pendingEach {
		silent = append(silent, pending())
	}
	g.until("handshakes are not pending", func() bool { return waiting() == pendingEach })
	if !closed(pending()) {
		t.Error("an address may have any number of connections without a certificate")
	}
	for _, conn := range silent {
		conn.Close()
	}
	g.until("handshakes stay pending", func() bool { return waiting() == 0 })
	pair, other := g.nodes.sign("l1"), g.nodes.sign("l2")
	for i := range clientsEach + 1 {
		conn, err := g.connect(&tls.Config{Certificates: []tls.Certificate{pair}})
		if err == nil {
			_, err = ask(conn, "echo", `[]`)
		}
		if (err == nil) != (i < clientsEach) {
			t.Errorf("connection %d of a node: %v", i, err)
		}
	}
	if conn, err := g.connect(&tls.Config{Certificates: []tls.Certificate{other}}); err != nil {
		t.Error(err)
	} else if _, err := ask(conn, "echo", `[]`); err != nil {
		t.Errorf("another node: %v", err)
	}
	if n := count(t, g.guard.metrics.full); n != 2 {
		t.Errorf("%v connections were too many", n)
	}
	for _, said := range []string{"64 from its address have not shown a certificate yet", "the node has 16"} {
		g.until("it is not logged: "+said, func() bool { return strings.Contains(g.log.String(), said) })
	}
}
