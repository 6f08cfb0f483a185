package tunnel

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestUnauthenticatedClientsAreToldApart: those who have none of our own ends' credentials, and do not ask as these do.
func TestUnauthenticatedClientsAreToldApart(t *testing.T) {
	ca, node, _ := pair(t)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	shown := func(from *authority, name string) []tls.Certificate {
		certificate, err := tls.X509KeyPair(from.issue(name))
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{certificate}
	}
	for _, c := range []struct {
		name    string
		shown   []tls.Certificate
		version uint16
		want    Reason
		logged  []string
	}{
		{"no certificate", nil, tls.VersionTLS13, NoCertificate, []string{"shows no certificate", HostName}},
		{"a foreign authority's", shown(newAuthority(t, "somebody else's CA"), HostName), tls.VersionTLS13, UnknownCA,
			[]string{"somebody else's CA"}},
		{"another name", shown(ca, "win2.node.weft.net"), tls.VersionTLS13, WrongName, []string{"win2.node.weft.net"}},
		{"TLS 1.2", nil, tls.VersionTLS12, NoHandshake, []string{"unsupported versions"}},
	} {
		for asks, protocols := range map[string][]string{"the database": {string(OVSDB)}, "nothing": nil} {
			t.Run(c.name+", asking for "+asks, func(t *testing.T) {
				a := startAgent(t, node)
				config := &tls.Config{RootCAs: roots, ServerName: AgentName(testNode), NextProtos: protocols, Certificates: c.shown,
					MaxVersion: c.version}
				var from string
				for range 20 {
					plain, err := net.Dial("tcp", a.address)
					if err != nil {
						t.Fatal(err)
					}
					from = cmp.Or(from, plain.LocalAddr().String())
					conn := tls.Client(plain, config)
					if err = conn.Handshake(); err == nil {
						if err = readVerdict(conn); err == nil {
							t.Error("no error")
						}
					}
					if _, err := conn.Read(make([]byte, 1)); err == nil {
						t.Error("there is more to read than the refusal")
					}
					plain.Close()
					if got := <-a.refused; got != c.want {
						t.Errorf("counted as %s, want %s", got, c.want)
					}
				}
				a.stop()
				log := a.log.String()
				if n := strings.Count(log, "level=WARN"); n != 1 {
					t.Errorf("logged %d times:\n%s", n, log)
				}
				for _, word := range append(c.logged, "reason="+string(c.want), "peer="+from) {
					if !strings.Contains(log, word) {
						t.Errorf("no %q in the log:\n%s", word, log)
					}
				}
			})
		}
	}
}

func TestGarbageIsRefused(t *testing.T) {
	_, node, host := pair(t)
	a := startAgent(t, node)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", strings.Repeat("\x00", 100000),
		`{"method":"list_dbs","id":0,"params":[]}`} {
		conn, err := net.Dial("tcp", a.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text) // the agent may have closed by then
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		<-a.refused
	}
	echoes(t, mustDial(t, a, host), "still there")
}

func TestUnauthenticatedClientsDoNotKeepOutTheChassisHost(t *testing.T) {
	_, node, host := pair(t)
	a := startAgent(t, node)
	var held []net.Conn
	for range maxHandshakesPerAddress + 3 {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}).Dial("tcp", a.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		held = append(held, conn)
	}
	for range 3 {
		if reason := <-a.refused; reason != TooMany {
			t.Fatal(reason)
		}
	}
	echoes(t, mustDial(t, a, host), "from another address")
	for _, conn := range held {
		conn.Close()
	}
}

func TestUnauthenticatedClientsOfManyAddressesDoNotKeepOutTheChassisHost(t *testing.T) {
	_, node, host := pair(t)
	a := startAgent(t, node)
	client := func(address byte) {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, address)}}).Dial("tcp", a.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	for i := range maxHandshakes {
		client(byte(1 + i%4))
	}
	echoes(t, mustDial(t, a, host), "in spite of them")
	if reason := <-a.refused; reason != TooMany {
		t.Errorf("the oldest client: %s", reason)
	}
}

// One that is closed for another one's place, before anything was done with it, has had no other fault.
func TestAClientThatLosesItsPlaceAtOnceWasTooSlow(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, _, _, err := new(server).open(t.Context(), conn); !errors.Is(err, errTooSlow) {
		t.Errorf("refused by %v", err)
	}
}

func TestPlacesAreCountedByAddressOrSubnet(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64",
		"2001:db8::2:0:0:1": "2001:db8::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := host(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

func TestARepeatedRefusalIsLoggedOnce(t *testing.T) {
	ca, node, _ := pair(t)
	a := startAgent(t, node)
	cert, key := ca.issue("somebody.else")
	for range 20 {
		if _, err := Dial(t.Context(), a.address, OVSDB, fixed(t, ca, cert, key), AgentName(testNode)); err == nil {
			t.Fatal("no error")
		}
		<-a.refused
	}
	a.stop()
	if n := strings.Count(a.log.String(), "level=WARN"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, a.log)
	}
}

func TestComplaintsAreBounded(t *testing.T) {
	c := &complaints{pause: time.Minute}
	start := time.Now()
	for i := range maxComplaints {
		if !c.due(fmt.Sprint(i), WrongName, start) {
			t.Fatalf("complaint %d is not due", i)
		}
	}
	if c.due("one more", WrongName, start) || len(c.last) > maxComplaints {
		t.Error("more than bounded")
	}
	if !c.due("one more", WrongName, start.Add(time.Minute)) || !c.due("0", WrongName, start.Add(time.Minute)) {
		t.Error("not due after the pause")
	}
	if !c.due("0", Expired, start.Add(time.Minute)) {
		t.Error("another reason is not due")
	}
}
