package ovsdb_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/transcript"
)

// again repeats f as a controller does: until the database has taken it.
func (s *stage) again(f func() error) (failures int) {
	s.Helper()
	for deadline := time.Now().Add(patience); ; failures++ {
		err := f()
		if err == nil {
			return failures
		}
		if !errors.Is(err, ovsdb.ErrDisconnected) || time.Now().After(deadline) {
			s.Fatal(err)
		}
	}
}

func TestKilledServerLosesNothing(t *testing.T) {
	s := realStage(t)
	s.start()
	changes := manyPods(1500)
	// The server dies amid the work, several times, whatever it is doing then.
	for round := range 4 {
		server := s.server
		dead := make(chan struct{})
		go func() {
			defer close(dead)
			for before := server.Transactions(); server.Transactions() < before+2; {
				time.Sleep(time.Millisecond)
			}
			server.Kill()
			server.Start()
		}()
		want := changes
		if round%2 == 1 {
			want = changes[:100]
		}
		failures := s.again(func() error { return s.engine.Replace(s.context(), want) })
		<-dead
		s.again(func() error { return s.engine.Replace(s.context(), want) })
		t.Logf("round %d: %d attempts failed", round, failures)
		got := ovsdb.Dump(s.engine.Client())
		reader := ovsdbtest.Connect(t, s.db, s.endpoint, tables...)
		held := ovsdb.Dump(reader)
		reader.Close()
		if held != got {
			t.Fatalf("the replica holds %d bytes, the database %d", len(got), len(held))
		}
		if n := strings.Count(got, "Logical_Switch_Port "); n != len(want)-2 {
			t.Fatalf("%d ports instead of %d", n, len(want)-2)
		}
	}
}

func TestChangesDuringAnOutageAreTold(t *testing.T) {
	s := realStage(t)
	s.start()
	state := manyPods(10)
	s.replace(state...)
	want := ovsdb.Dump(s.engine.Client())
	told := s.watched()
	s.server.Kill()
	s.eventually("the loss is noticed", func() bool { return !s.engine.Client().Connected() })
	// The database is changed while nobody listens.
	other := *s.server
	other.Start()
	theirs := ovsdbtest.Connect(t, s.db, s.endpoint, tables...)
	if _, err := theirs.Transact(s.context(),
		remove("Address_Set", addressSetID("ns")),
		update("Logical_Switch_Port", ovsdb.ID("Logical_Switch_Port", podOwner("p3"), ""), libovsdb.Row{"type": "router"}),
		mutate("Logical_Switch", switchID("l1"), "ports", libovsdb.MutateOperationDelete,
			refs(ovsdb.ID("Logical_Switch_Port", podOwner("p4"), ""))),
	); err != nil {
		t.Fatal(err)
	}
	told("Namespace/ns", podOwner("p3"), podOwner("p4"))
	s.apply(state[1], state[2+3], state[2+4])
	s.dump(want)
	told()
}

func TestADatabaseThatWasLostIsFilledAgain(t *testing.T) {
	s := realStage(t)
	s.start()
	state := manyPods(50)
	s.replace(state...)
	want := ovsdb.Dump(s.engine.Client())
	s.server.Kill()
	s.server.Recreate(s.db)
	s.eventually("the new database is read", func() bool { return ovsdb.Dump(s.engine.Client()) == "" })
	s.apply(state...)
	s.dump(want)
}

func TestASilentServerIsLeft(t *testing.T) {
	s := realStage(t)
	s.config.Probe = briefProbe
	s.start()
	s.server.Pause()
	resumed := false
	defer func() {
		if !resumed {
			s.server.Resume()
		}
	}()
	s.eventually("the silence is noticed", func() bool { return !s.engine.Client().Connected() })
	s.server.Resume()
	resumed = true
	s.again(func() error { return s.engine.Replace(s.context(), []ovsdb.Change{node("l1")}) }) // an attempt may time out
}

func TestTheLeaderIsFollowed(t *testing.T) {
	s := realStage(t)
	members := ovsdbtest.Cluster(t, s.db, 3)
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.Endpoint)
	}
	s.endpoint, s.server = strings.Join(endpoints, ","), members[0]
	s.restart()
	leads := func() {
		t.Helper()
		s.eventually("the client is at the leader", func() bool {
			return s.engine.Client().Endpoint() == ovsdbtest.Leader(s, s.db, members).Endpoint
		})
	}
	leads()
	state := manyPods(500)
	s.again(func() error { return s.engine.Replace(s.context(), state) })
	want := ovsdb.Dump(s.engine.Client())
	for range 2 {
		leader := ovsdbtest.Leader(s, s.db, members)
		leader.Kill()
		s.again(func() error { return s.engine.Replace(s.context(), state[:300]) })
		s.again(func() error { return s.engine.Replace(s.context(), state) })
		s.dump(want)
		leads()
		leader.Start()
	}
	// A leader that hands over without dying is left as well.
	leader := ovsdbtest.Leader(s, s.db, members)
	leader.Control("cluster/failure-test", "transfer-leadership")
	s.again(func() error { return s.engine.Apply(s.context(), []ovsdb.Change{{Owner: podOwner("p0")}}) })
	s.again(func() error { return s.engine.Apply(s.context(), state[:3]) })
	s.dump(want)
	leads()
}

// secured is a server of a database with TLS, and the files of its certificates and of a client's.
type secured struct {
	database  ovsdbtest.Database
	dir       string
	authority *authority
	server    *ovsdbtest.Process
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{database: ovsdbtest.Northbound(t), dir: t.TempDir()}
	s.authority = newAuthority(t, s.dir, "ca")
	s.authority.sign(t, "server")
	s.authority.sign(t, "client")
	s.server = ovsdbtest.ServerTLS(t, s.database, s.file("server"), s.file("server-key"), s.file("ca"))
	return s
}

func (s *secured) file(name string) string { return filepath.Join(s.dir, name+".pem") }

func (s *secured) connect(t *testing.T, config ovsdb.Config) *ovsdb.Client {
	t.Helper()
	config.Endpoints, config.Model, config.Tables = s.server.Endpoint, s.database.Model, tables
	config.TLS = &ovsdb.TLS{CertFile: s.file("client"), KeyFile: s.file("client-key"), CAFile: s.file("ca")}
	return ovsdbtest.ConnectWith(t, config)
}

func TestTLS(t *testing.T) {
	s := newSecured(t)
	d, dir, file, server := s.database, s.dir, s.file, s.server
	client := s.connect(t, ovsdb.Config{})
	engine := ovsdb.NewEngine(client)
	if err := engine.Apply(t.Context(), []ovsdb.Change{node("l1")}); err != nil {
		t.Fatal(err)
	}
	tellsExpiry(t, client, file("server"))

	// A server of another authority is not trusted, nor are we by a server that does not know us.
	stranger := newAuthority(t, dir, "stranger")
	stranger.sign(t, "strange")
	for name, config := range map[string]ovsdb.TLS{
		"server": {CertFile: file("client"), KeyFile: file("client-key"), CAFile: file("stranger")},
		"client": {CertFile: file("strange"), KeyFile: file("strange-key"), CAFile: file("ca")},
	} {
		log := &transcript.Transcript{}
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			c, err := ovsdb.Connect(ctx, ovsdb.Config{Endpoints: server.Endpoint, Model: d.Model, TLS: &config,
				Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err == nil {
				c.Close()
			}
			ended <- err
		}()
		eventually(t, "the log does not say why", func() bool {
			return strings.Contains(log.String(), "certificate") || strings.Contains(log.String(), "tls") || len(ended) > 0
		})
		giveUp()
		if err := <-ended; err == nil {
			t.Errorf("the %s of another authority is trusted", name)
		}
	}

	// Renewed files serve from the next connection on.
	renewed := newAuthority(t, dir, "ca")
	renewed.sign(t, "server")
	renewed.sign(t, "client")
	server.Kill()
	server.StartTLSOn(server.Endpoint)
	if err := engine.Apply(t.Context(), []ovsdb.Change{node("l2")}); err != nil {
		t.Fatal(err)
	}
	if got := ovsdb.List(client, func(s *nb.LogicalSwitch) bool { return s.Name == "l2" }); len(got) != 1 {
		t.Errorf("%d switches l2", len(got))
	}
	tellsExpiry(t, client, file("server"))
}

// A server shows a renewed certificate to new connections only, and the client's one lasts.
func TestARenewedCertificateOfTheServerIsSeen(t *testing.T) {
	s := newSecured(t)
	file, server := s.file, s.server
	client := s.connect(t, ovsdb.Config{LookInterval: 10 * time.Millisecond})
	tellsExpiry(t, client, file("server"))
	server.Pause() // it must see both files change at once: stream_ssl_set_key_and_cert in lib/stream-ssl.c
	s.authority.issue(t, "server", &x509.Certificate{NotAfter: time.Now().Add(2 * time.Hour)})
	server.Resume()
	eventually(t, "the end of the renewed certificate is not told", func() bool {
		return expiryTold(t, client, file("server")) == nil
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(client.Metrics()...)
	const name = "weft_ovsdb_reconnects_total"
	want := fmt.Sprintf("# HELP %[1]s Connections to the database that were made after the first one.\n"+
		"# TYPE %[1]s counter\n%[1]s{database=\"OVN_Northbound\"} 0\n", name)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}

// tellsExpiry checks that the client's metrics have the end of the certificate that the server shows.
func tellsExpiry(t *testing.T, client *ovsdb.Client, file string) {
	t.Helper()
	if err := expiryTold(t, client, file); err != nil {
		t.Error(err)
	}
}

// expiryTold says in what the client's metrics differ from the end of the certificate in a file.
func expiryTold(t *testing.T, client *ovsdb.Client, file string) error {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	shown, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(client.Metrics()...)
	const name = "weft_ovsdb_server_certificate_expiry_timestamp_seconds"
	want := fmt.Sprintf("# HELP %[1]s Time (Unix) at which the certificate expires that the database's server has shown "+
		"last; 0 if it has shown none.\n# TYPE %[1]s gauge\n%[1]s{database=\"OVN_Northbound\"} %[2]d\n",
		name, shown.NotAfter.Unix())
	return testutil.GatherAndCompare(registry, strings.NewReader(want), name)
}

// authority is a certificate authority with its files in a directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{dir: dir}
	a.cert, a.key = a.issue(t, name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(t *testing.T, name string) {
	t.Helper()
	a.issue(t, name, &x509.Certificate{})
}

func (a *authority) issue(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	check(err)
	cert, err := x509.ParseCertificate(der)
	check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	for file, block := range map[string]*pem.Block{name: {Type: "CERTIFICATE", Bytes: der},
		name + "-key": {Type: "PRIVATE KEY", Bytes: private}} {
		check(os.WriteFile(filepath.Join(a.dir, file+".pem"), pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}
