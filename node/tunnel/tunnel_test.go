package tunnel

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/transcript"
)

// agent is a serving end whose OVSDB echoes and whose br-int is what the test puts there.
type agent struct {
	tb      testing.TB
	address string
	echo    net.Listener
	log     *transcript.Transcript

	opened, closed, bytes atomic.Int64
	refused               chan Reason
	stop                  func()
}

const testNode = "win1"

func (a *agent) dialEcho(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", a.echo.Addr().String())
}

func startAgent(tb testing.TB, credentials Credentials, change ...func(*ServerConfig)) *agent {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	a := &agent{tb: tb, address: listener.Addr().String(), echo: startEcho(tb), log: &transcript.Transcript{},
		refused: make(chan Reason, 1000)}
	config := ServerConfig{
		Credentials: credentials,
		Targets: map[Target]Service{
			OVSDB:    {HostName, a.dialEcho},
			OpenFlow: {HostName, func(context.Context) (net.Conn, error) { return nil, errors.New("br-int is not there") }},
			Counters: {ObserverName, a.dialEcho},
		},
		Observe: Observer{
			Opened:  func(Target) { a.opened.Add(1) },
			Closed:  func(Target) { a.closed.Add(1) },
			Passed:  func(_ Target, _ Direction, n int) { a.bytes.Add(int64(n)) },
			Refused: func(r Reason) { a.refused <- r },
		},
		Logger: slog.New(slog.NewTextHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, config) }()
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("Serve: %v", err)
		}
		if opened, closed := a.opened.Load(), a.closed.Load(); opened != closed {
			tb.Errorf("%d streams opened, %d closed", opened, closed)
		}
	})
	tb.Cleanup(a.stop)
	return a
}

func startEcho(tb testing.TB) net.Listener {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // the test sees what is missing
				_ = conn.(*net.TCPConn).CloseWrite()
			}()
		}
	}()
	return listener
}

func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.Now().Add(nodetest.Patience)
	for !holds() {
		if time.Now().After(deadline) {
			tb.Fatalf("not in time: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// pair are a CA, an agent's and a chassis host's credentials.
func pair(tb testing.TB) (ca *authority, node, host Credentials) {
	ca = newAuthority(tb, "test CA")
	nodeCert, nodeKey := ca.issue(AgentName(testNode))
	hostCert, hostKey := ca.issue(HostName)
	return ca, fixed(tb, ca, nodeCert, nodeKey), fixed(tb, ca, hostCert, hostKey)
}

func mustDial(tb testing.TB, a *agent, credentials Credentials) net.Conn {
	tb.Helper()
	conn, err := Dial(tb.Context(), a.address, OVSDB, credentials, AgentName(testNode))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// echoes sends a text and wants it back.
func echoes(tb testing.TB, conn net.Conn, text string) {
	tb.Helper()
	if err := conn.SetDeadline(time.Now().Add(nodetest.Patience)); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		tb.Fatal(err)
	}
	answer := make([]byte, len(text))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != text {
		tb.Fatalf("sent %q, got %q: %v", text, answer, err)
	}
}

func TestBytesPassBothWaysAndTheEndIsPassedOn(t *testing.T) {
	_, node, host := pair(t)
	a := startAgent(t, node)
	conn := mustDial(t, a, host)
	sent := make([]byte, 8<<20) // more than any buffer on the way
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = conn.Write(sent) // what was lost is missing below
		_ = conn.(*tls.Conn).CloseWrite()
	}()
	if err := conn.SetReadDeadline(time.Now().Add(nodetest.Patience)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("got %d bytes of %d: %v", len(got), len(sent), err)
	}
	eventually(t, "the stream is closed", func() bool { return a.closed.Load() == 1 })
	if n := a.bytes.Load(); n != int64(2*len(sent)) {
		t.Errorf("%d bytes counted, want %d", n, 2*len(sent))
	}
}

func TestWhoIsRefused(t *testing.T) {
	ca, other := newAuthority(t, "test CA"), newAuthority(t, "somebody else's CA")
	forClients := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	forServers := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	nameless := func(c *x509.Certificate) { c.DNSNames = nil }
	type end struct {
		from   *authority
		name   string
		change func(*x509.Certificate)
	}
	same := func(*x509.Certificate) {}
	agentEnd, hostEnd := end{ca, AgentName(testNode), same}, end{ca, HostName, same}
	for _, c := range []struct {
		name       string
		node, host end
		target     Target
		dialing    Reason // as the dialling end sees it
		serving    Reason
		byPeer     bool
		words      []string // in the dialling end's error, and in the serving end's log
		logged     []string
	}{
		{name: "a chassis host of another name", node: agentEnd, host: end{ca, "win2.node.weft.net", same},
			dialing: WrongName, serving: WrongName, byPeer: true,
			words: []string{"win2.node.weft.net", HostName}, logged: []string{"win2.node.weft.net", HostName, "127.0.0.1"}},
		{name: "a chassis host without a name", node: agentEnd, host: end{ca, HostName, nameless}, dialing: WrongName,
			serving: WrongName, byPeer: true, words: []string{"without DNS names", "CN=" + HostName}},
		{name: "an expired chassis host", node: agentEnd, host: end{ca, HostName, expired}, dialing: Expired,
			serving: Expired, byPeer: true,
			words: []string{"has expired", "by this end's clock", "valid from"}, logged: []string{"has expired"}},
		{name: "a chassis host of tomorrow", node: agentEnd, host: end{ca, HostName, tomorrow}, dialing: NotYetValid,
			serving: NotYetValid, byPeer: true, words: []string{"not yet valid", "which clock"}},
		{name: "a chassis host of another CA", node: agentEnd, host: end{other, HostName, same}, dialing: UnknownCA,
			serving: UnknownCA, byPeer: true, words: []string{"somebody else's CA"}, logged: []string{"somebody else's CA"}},
		{name: "a chassis host with a server's certificate", node: agentEnd, host: end{ca, HostName, forServers},
			dialing: BadCertificate, serving: BadCertificate, byPeer: true, words: []string{"key usage"}},
		{name: "an agent of another node", node: end{ca, AgentName("win2"), same}, host: hostEnd, dialing: WrongName,
			serving: BadCertificate,
			words:   []string{"win2.node.weft.net", "win1.node.weft.net"}, logged: []string{"refused by the peer",
				"win2.node.weft.net"}},
		{name: "an agent of all nodes", node: end{ca, "*.node.weft.net", same}, host: hostEnd, dialing: WrongName,
			serving: BadCertificate, words: []string{"*.node.weft.net"}},
		{name: "an expired agent", node: end{ca, AgentName(testNode), expired}, host: hostEnd, dialing: Expired,
			serving: BadCertificate, words: []string{"has expired"}, logged: []string{"refused by the peer", "valid from"}},
		{name: "an agent of tomorrow", node: end{ca, AgentName(testNode), tomorrow}, host: hostEnd, dialing: NotYetValid,
			serving: BadCertificate, words: []string{"which clock"}},
		{name: "an agent of another CA", node: end{other, AgentName(testNode), same}, host: hostEnd, dialing: UnknownCA,
			serving: BadCertificate, words: []string{"somebody else's CA"}},
		{name: "an agent with a client's certificate", node: end{ca, AgentName(testNode), forClients}, host: hostEnd,
			dialing: BadCertificate, serving: BadCertificate, words: []string{"key usage"}},
		{name: "a chassis host that asks for counters", node: agentEnd, host: hostEnd, target: Counters, dialing: WrongName,
			serving: WrongName, byPeer: true, words: []string{ObserverName}},
		{name: "an observer that asks for the database", node: agentEnd, host: end{ca, ObserverName, same},
			dialing: WrongName, serving: WrongName, byPeer: true, words: []string{HostName}},
		{name: "an observer that asks for br-int", node: agentEnd, host: end{ca, ObserverName, same}, target: OpenFlow,
			dialing: WrongName, serving: WrongName, byPeer: true, words: []string{HostName}},
		{name: "another node's agent that asks for counters", node: agentEnd, host: end{ca, AgentName("win2"), same},
			target: Counters, dialing: WrongName, serving: WrongName, byPeer: true, words: []string{ObserverName}},
		{name: "an observer with a server's certificate", node: agentEnd, host: end{ca, ObserverName, forServers},
			target: Counters, dialing: BadCertificate, serving: BadCertificate, byPeer: true},
		{name: "an observer of another CA", node: agentEnd, host: end{other, ObserverName, same}, target: Counters,
			dialing: UnknownCA, serving: UnknownCA, byPeer: true},
		{name: "a target that is not served", node: agentEnd, host: hostEnd, target: "weft-shell/1", dialing: NoTarget,
			serving: NoTarget, byPeer: true, logged: []string{"weft-shell/1"}},
		{name: "a target that does not answer", node: agentEnd, host: hostEnd, target: OpenFlow, dialing: TargetDown,
			serving: TargetDown, byPeer: true, words: []string{"br-int is not there"}, logged: []string{"br-int is not there"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodeCert, nodeKey := c.node.from.issue(c.node.name, c.node.change)
			hostCert, hostKey := c.host.from.issue(c.host.name, c.host.change)
			a := startAgent(t, fixed(t, ca, nodeCert, nodeKey))
			if c.target == "" {
				c.target = OVSDB
			}
			conn, err := Dial(t.Context(), a.address, c.target, fixed(t, ca, hostCert, hostKey), AgentName(testNode))
			if err == nil {
				conn.Close()
				t.Fatal("no error")
			}
			refused := new(Error)
			if !errors.As(err, &refused) || refused.Reason != c.dialing || refused.ByPeer != c.byPeer {
				t.Errorf("the dialling end got %#v, want %s (by peer: %t)", err, c.dialing, c.byPeer)
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("no %q in: %v", word, err)
				}
			}
			if got := <-a.refused; got != c.serving {
				t.Errorf("the serving end counted %s, want %s", got, c.serving)
			}
			for _, word := range append(c.logged, "reason="+string(c.serving)) {
				eventually(t, word+" in the log", func() bool { return strings.Contains(a.log.String(), word) })
			}
			if a.opened.Load() != 0 {
				t.Error("a stream was opened")
			}
		})
	}
}

func TestStreamsAreBounded(t *testing.T) {
	_, node, host := pair(t)
	a := startAgent(t, node, func(c *ServerConfig) { c.MaxStreams = 2 })
	first := mustDial(t, a, host)
	mustDial(t, a, host)
	_, err := Dial(t.Context(), a.address, OVSDB, host, AgentName(testNode))
	if refused := new(Error); !errors.As(err, &refused) || refused.Reason != TooMany {
		t.Fatalf("a third stream: %v", err)
	}
	first.Close()
	eventually(t, "a place is free again", func() bool {
		conn, err := Dial(t.Context(), a.address, OVSDB, host, AgentName(testNode))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func TestARenewedCertificateIsForNewStreams(t *testing.T) {
	ca := newAuthority(t, "test CA")
	nodeCert, nodeKey := ca.issue(AgentName(testNode))
	hostCert, hostKey := ca.issue(HostName)
	nodeFiles, hostFiles := newFiles(t, ca, nodeCert, nodeKey), newFiles(t, ca, hostCert, hostKey)
	host := hostFiles.credentials()
	a := startAgent(t, nodeFiles.credentials())
	old := mustDial(t, a, host)
	shown := func(conn net.Conn) string {
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	nodeFiles.renew(ca.issue(AgentName(testNode)))
	renewed := mustDial(t, a, host)
	if shown(old) == shown(renewed) {
		t.Error("the new stream was shown the old certificate")
	}
	echoes(t, old, "the old stream goes on")
	echoes(t, renewed, "and so does the new one")

	nodeFiles.write("tls.key", []byte("half of a k")) // in the middle of a renewal
	if conn := mustDial(t, a, host); shown(conn) != shown(renewed) {
		t.Error("what cannot be read has replaced what could")
	}
	if err := os.Remove(filepath.Join(nodeFiles.dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	echoes(t, mustDial(t, a, host), "with the CA that was read before")
}

func TestTheAuthorityIsRotated(t *testing.T) {
	before, after := newAuthority(t, "CA of last year"), newAuthority(t, "CA of this year")
	nodeCert, nodeKey := before.issue(AgentName(testNode))
	hostCert, hostKey := before.issue(HostName)
	nodeFiles, hostFiles := newFiles(t, before, nodeCert, nodeKey), newFiles(t, before, hostCert, hostKey)
	host := hostFiles.credentials()
	a := startAgent(t, nodeFiles.credentials())
	old := mustDial(t, a, host)
	both := append(bytes.Clone(before.pem), after.pem...)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"both are trusted", func() { nodeFiles.write("ca.crt", both); hostFiles.write("ca.crt", both) }},
		{"the host's is of the new one", func() { hostFiles.renew(after.issue(HostName)) }},
		{"the node's is of the new one", func() { nodeFiles.renew(after.issue(AgentName(testNode))) }},
		{"the old one is trusted no more", func() {
			nodeFiles.write("ca.crt", after.pem)
			hostFiles.write("ca.crt", after.pem)
		}},
	} {
		step.do()
		echoes(t, mustDial(t, a, host), step.name)
	}
	echoes(t, old, "the stream from before")
	hostFiles.renew(hostCert, hostKey)
	_, err := Dial(t.Context(), a.address, OVSDB, host, AgentName(testNode))
	if refused := new(Error); !errors.As(err, &refused) || refused.Reason != UnknownCA {
		t.Errorf("a certificate of the old authority: %v", err)
	}
}

func TestAnExpiredHostRecoversByRenewal(t *testing.T) {
	ca := newAuthority(t, "test CA")
	nodeCert, nodeKey := ca.issue(AgentName(testNode))
	hostCert, hostKey := ca.issue(HostName, expired)
	hostFiles := newFiles(t, ca, hostCert, hostKey)
	host := hostFiles.credentials()
	a := startAgent(t, fixed(t, ca, nodeCert, nodeKey))
	_, err := Dial(t.Context(), a.address, OVSDB, host, AgentName(testNode))
	if refused := new(Error); !errors.As(err, &refused) || refused.Reason != Expired {
		t.Fatalf("with an expired certificate: %v", err)
	}
	hostFiles.renew(ca.issue(HostName))
	echoes(t, mustDial(t, a, host), "renewed")
}

func TestAStreamThatBreaksEndsAtBothEnds(t *testing.T) {
	_, node, host := pair(t)
	inner := make(chan net.Conn, 1)
	a := startAgent(t, node, func(c *ServerConfig) {
		c.Targets[OpenFlow] = Service{HostName, func(context.Context) (net.Conn, error) {
			near, far := net.Pipe() // cannot end one direction only, as a named pipe
			inner <- far
			return near, nil
		}}
	})
	dial := func() (conn, bridge net.Conn) {
		conn, err := Dial(t.Context(), a.address, OpenFlow, host, AgentName(testNode))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(nodetest.Patience)); err != nil {
			t.Fatal(err)
		}
		return conn, <-inner
	}
	t.Run("at the node", func(t *testing.T) {
		conn, bridge := dial()
		defer conn.Close()
		bridge.Close()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the dialling end reads %v", err)
		}
	})
	t.Run("at the host, without a word", func(t *testing.T) {
		conn, bridge := dial()
		raw := conn.(*tls.Conn).NetConn().(*net.TCPConn)
		if err := raw.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		raw.Close() // a reset, and no close_notify
		if _, err := bridge.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the bridge reads %v", err)
		}
	})
	t.Run("by the agent's end", func(t *testing.T) {
		conn, _ := dial()
		defer conn.Close()
		a.stop()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("the stream outlives the agent")
		}
	})
}

func TestAnAgentThatIsSilentIsGivenUp(t *testing.T) {
	_, _, host := pair(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 1)) // the handshake has begun
			giveUp()
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	_, err = Dial(ctx, listener.Addr().String(), OVSDB, host, AgentName(testNode))
	if refused := new(Error); !errors.As(err, &refused) || refused.Reason != NoHandshake {
		t.Errorf("%#v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	_, _, host := pair(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	_, err = Dial(t.Context(), listener.Addr().String(), OVSDB, host, AgentName(testNode))
	if refused := new(Error); !errors.As(err, &refused) || refused.Reason != Unreachable || !strings.Contains(err.Error(),
		"firewall") {
		t.Errorf("%#v", err)
	}
	missing := Files("/no/ca", "/no/crt", "/no/key")
	if _, err = Dial(t.Context(), listener.Addr().String(), OVSDB, missing, AgentName(testNode)); !errors.As(err,
		new(*Error)) || !strings.Contains(err.Error(), "/no/crt") {
		t.Errorf("without files: %v", err)
	}
}

func FuzzVerdict(f *testing.F) {
	var refusedText bytes.Buffer
	if err := writeVerdict(&refusedText, Expired, "on Monday\x1b[2J"); err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{{0}, {1}, {2}, {1, 0, 0, 0, 0}, {1, 255, 255, 255, 255}, refusedText.Bytes()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		err := readVerdict(bytes.NewReader(input))
		if (err == nil) != (len(input) > 0 && input[0] == accepted) {
			t.Fatalf("%v for %x", err, input)
		}
		known := new(Error)
		if !errors.As(err, &known) {
			return
		}
		if strings.ContainsAny(known.Text, "\x00\n\x1b") || len(known.Text) > 3*longestVerdict {
			t.Errorf("text %q", known.Text)
		}
		var again bytes.Buffer
		if err := writeVerdict(&again, known.Reason, known.Text); err != nil {
			t.Fatal(err)
		}
		if err := readVerdict(&again); !errors.As(err, &known) {
			t.Errorf("written again it reads %v", err)
		}
	})
}
