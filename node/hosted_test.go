package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/test/freeport"
)

// authority signs for both ends of a test's tunnel.
type authority struct {
	t           *testing.T
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// issue writes PEM files for a name: CA, certificate, key.
func (a *authority) issue(name string, until time.Time) (ca, certificate, key string) {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	own := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	folder := nodetest.Folder(a.t)
	write := func(file, kind string, text []byte) string {
		path := filepath.Join(folder, file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return path
	}
	return write("ca.crt", "CERTIFICATE", a.certificate.Raw), write("tls.crt", "CERTIFICATE", der),
		write("tls.key", "PRIVATE KEY", secret)
}

// hello is by what a switch begins: OpenFlow 1.5's message.
const hello = "\x06\x00\x00\x08\x00\x00\x00\x01"

// daemon answers each connection with its name: it stands for ovsdb-server or ovs-vswitchd.
func daemon(t *testing.T, name string) (connection string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, name)
				_, _ = io.Copy(io.Discard, conn) // until the peer ends
			}()
		}
	}()
	return "tcp:" + listener.Addr().String()
}

// holds waits for what the agent says of the chassis host.
func (h *agentTunnel) holds(t *testing.T, says string) {
	t.Helper()
	for deadline := time.Now().Add(nodetest.Patience); ; {
		text := ""
		if err := h.status(time.Now()); err != nil {
			text = err.Error()
		}
		if (text == "") == (says == "") && strings.Contains(text, says) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("want %q, got %q", says, text)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestChassisHostReachesOpenVSwitch(t *testing.T) {
	ca := newAuthority(t)
	c := hostedConfig()
	c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey = ca.issue(tunnel.AgentName(c.NodeName), time.Now().Add(time.Hour))
	c.OVSDatabase, c.OVSOpenFlow, c.TunnelAddress = daemon(t, "database"), daemon(t, hello), freeport.Address(t)
	h := newAgentTunnel(c)
	registry := prometheus.NewRegistry()
	registry.MustRegister(h.collectors()...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.serve(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	h.holds(t, "no chassis host is connected to "+c.TunnelAddress)
	host := tunnel.Files(ca.issue(tunnel.HostName, time.Now().Add(time.Hour)))
	open := func(target tunnel.Target, says string) net.Conn {
		t.Helper()
		conn, err := tunnel.Dial(ctx, c.TunnelAddress, target, host, tunnel.AgentName(c.NodeName))
		if err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len(says))
		if _, err := io.ReadFull(conn, answer); err != nil || !bytes.Equal(answer, []byte(says)) {
			t.Fatalf("%s leads to %q, %v", target, answer, err)
		}
		return conn
	}
	database := open(tunnel.OVSDB, "database")
	h.holds(t, "none to br-int")
	bridge := open(tunnel.OpenFlow, hello)
	h.holds(t, "")
	database.Close()
	h.holds(t, "none to the database")
	bridge.Close()
	h.holds(t, "no chassis host")
	measured, err := registry.Gather()
	if err != nil || len(measured) != 3 { // nobody was refused
		t.Errorf("metrics %v, %v", measured, err)
	}
}

// Bridges may come and go while the database is dialled: the way is not one to those that come.
func TestChassisHostThatDialsWhileTheBridgesGo(t *testing.T) {
	c := hostedConfig()
	c.OVSDatabase = daemon(t, "database")
	h := newAgentTunnel(c)
	gone := false
	h.switchReady = func() error {
		if gone {
			return openvswitch.ErrAwaitsUplink
		}
		gone = true
		h.shut()() // before the dial
		return nil
	}
	conn, err := h.dialDatabase(t.Context())
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, openvswitch.ErrAwaitsUplink) || len(h.ways) != 0 {
		t.Errorf("error %v, %d ways", err, len(h.ways))
	}
}

func TestCertificateThatNoChassisHostTakes(t *testing.T) {
	ca := newAuthority(t)
	c := hostedConfig()
	for says, issue := range map[string]func() (string, string, string){
		"is for [n2.node.weft.net] and not for n1.node.weft.net": func() (string, string, string) {
			return ca.issue(tunnel.AgentName("n2"), time.Now().Add(time.Hour))
		},
		"has expired": func() (string, string, string) {
			return ca.issue(tunnel.AgentName("n1"), time.Now().Add(-time.Minute))
		},
		"no-such.crt": func() (string, string, string) { return "no-such.ca", "no-such.crt", "no-such.key" },
	} {
		c.TunnelCA, c.TunnelCertificate, c.TunnelPrivateKey = issue()
		err := newAgentTunnel(c).certificateProblem(time.Now())
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "tunnel-certificate") {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

func TestTunnelAddressThatIsTaken(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := hostedConfig()
	c.TunnelAddress = other.Addr().String()
	h := newAgentTunnel(c)
	go func() { _ = h.serve(t.Context()) }()
	h.holds(t, "tunnel-address")
	other.Close()
	h.holds(t, "tunnel-certificate") // it listens, and the next problem is told
}

// emptyingFlows is the message by which ovn-controller begins, and after which the tables of lookups come.
func emptyingFlows() []byte {
	m := make([]byte, 56)
	m[0], m[1], m[24], m[25] = 6, 14, 0xff, 3
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	binary.BigEndian.PutUint16(m[48:], 1)
	binary.BigEndian.PutUint16(m[50:], 4)
	return m
}

// bytesOfAStream are how many br-int gets of a chassis host's stream that empties it.
func bytesOfAStream(t *testing.T, c nodeconfig.Config, lookups bool) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c.OVSOpenFlow = "tcp:" + listener.Addr().String()
	h := newAgentTunnel(c)
	h.awaitLookup = func(context.Context) bool { return lookups }
	conn, err := h.dialBridge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer bridge.Close()
	if _, err := conn.Write(emptyingFlows()); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	got, err := io.ReadAll(bridge)
	if err != nil {
		t.Fatal(err)
	}
	return len(got)
}

// An ovn-controller's flows have zones for TCP always, lookups as the datapath needs them, and are kept from the
// driver's helpers of FTP and TFTP unless the node is told that there are none.
func TestFlowsOfAStreamFollowTheDatapath(t *testing.T) {
	c := hostedConfig()
	c.ConntrackFTP = true
	least := bytesOfAStream(t, c, false)
	if least <= len(emptyingFlows()) {
		t.Errorf("br-int gets %d bytes, and nothing that chooses between zones", least)
	}
	if got := bytesOfAStream(t, c, true); got <= least {
		t.Errorf("with lookups br-int gets %d bytes, and without them %d", got, least)
	}
	c.ConntrackFTP = false
	if got := bytesOfAStream(t, c, false); got <= least {
		t.Errorf("kept from helpers br-int gets %d bytes, and otherwise %d", got, least)
	}
}
