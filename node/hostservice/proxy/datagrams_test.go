package proxy

import (
	"bytes"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/nodetest"
)

// datagramBackend answers each datagram with its name and what it got.
func datagramBackend(t testing.TB, name string) netip.AddrPort {
	t.Helper()
	return serveDatagrams(t, name, net.UDPAddrFromAddrPort(netip.AddrPortFrom(hosttest.Loopback, 0)))
}

func serveDatagrams(t testing.TB, name string, at *net.UDPAddr) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp4", at)
	if err != nil {
		t.Fatal(err)
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		buffer := make([]byte, largestDatagram)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(append([]byte(name), buffer[:n]...), from)
		}
	})
	t.Cleanup(func() { conn.Close(); parts.Wait() })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func openDatagrams(t testing.TB, to Target, most int64) *datagrams {
	t.Helper()
	d, err := listenDatagrams(t.Context(), netip.AddrPortFrom(hosttest.Loopback, 0), to, newMetrics(), &limit{most: most})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close(true); d.wait() })
	return d
}

func (d *datagrams) at() *net.UDPAddr { return d.listener.(*net.UDPConn).LocalAddr().(*net.UDPAddr) }

func (d *datagrams) client(t testing.TB) *net.UDPConn {
	t.Helper()
	conn, err := net.DialUDP("udp4", nil, d.at())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends until something comes back: a datagram may be lost.
func ask(t testing.TB, client *net.UDPConn, say string) string {
	t.Helper()
	buffer := make([]byte, largestDatagram)
	for deadline := time.Now().Add(nodetest.Patience); time.Now().Before(deadline); {
		if _, err := client.Write([]byte(say)); err != nil {
			t.Fatal(err)
		}
		// Not sooner: an answer that is late would be taken for that to the next question.
		_ = client.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := client.Read(buffer); err == nil {
			return string(buffer[:n])
		}
	}
	t.Fatalf("no answer to %d bytes", len(say))
	return ""
}

func TestDatagramsFindTheirWayBack(t *testing.T) {
	d := openDatagrams(t, Target{To: datagramBackend(t, "a")}, 100)
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			client := d.client(t)
			me := client.LocalAddr().String()
			for range 20 {
				if got := ask(t, client, me); got != "a"+me {
					t.Errorf("client %s got %q", me, got)
				}
			}
		})
	}
	clients.Wait()
	if n := measured(t, d.metrics.sessions); n != 10 {
		t.Errorf("%v sessions of 10 clients", n)
	}
}

func TestALargeDatagramPassesWhole(t *testing.T) {
	d := openDatagrams(t, Target{To: datagramBackend(t, "")}, 100)
	large := string(bytes.Repeat([]byte("0123456789"), 6000))
	if got := ask(t, d.client(t), large); got != large {
		t.Errorf("got %d of %d bytes", len(got), len(large))
	}
}

// A backend that is not there yet is told of by ICMP; when it comes, the client's next datagram arrives.
func TestABackendMayComeLate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a socket of Wine's hears nothing more after an ICMP error; Windows is told to report none")
	}
	spare, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(hosttest.Loopback, 0)))
	if err != nil {
		t.Fatal(err)
	}
	at := spare.LocalAddr().(*net.UDPAddr)
	spare.Close()
	d := openDatagrams(t, Target{To: at.AddrPort()}, 100)
	client := d.client(t)
	for range 5 {
		if _, err := client.Write([]byte("anybody?")); err != nil {
			t.Fatal(err)
		}
	}
	hosttest.Eventually(t, "the session is there", func() bool { return measured(t, d.metrics.sessions) == 1 })
	serveDatagrams(t, "late", at)
	if got := ask(t, client, "now?"); got != "latenow?" && got != "lateanybody?" {
		t.Errorf("got %q", got)
	}
	if n := measured(t, d.metrics.sessions); n != 1 {
		t.Errorf("%v sessions of one client", n)
	}
}

func TestAnotherTargetOfDatagrams(t *testing.T) {
	d := openDatagrams(t, Target{To: datagramBackend(t, "a")}, 100)
	client := d.client(t)
	if got := ask(t, client, "?"); got != "a?" {
		t.Fatalf("got %q", got)
	}
	d.retarget(Target{To: datagramBackend(t, "b")})
	if got := ask(t, client, "?"); got != "b?" {
		t.Errorf("the client still has %q", got)
	}
	to := *d.target.Load()
	to.Field = "another name"
	d.retarget(to)
	if n := measured(t, d.metrics.sessions); n != 1 {
		t.Errorf("%v sessions after a change that makes no difference", n)
	}
	d.close(false)
	d.wait()
	if n := measured(t, d.metrics.sessions); n != 0 || d.limit.now.Load() != 0 {
		t.Errorf("%v sessions of a closed socket", n)
	}
}

func TestTheLongestSilentClientMakesRoom(t *testing.T) {
	d := openDatagrams(t, Target{To: datagramBackend(t, "a")}, 2)
	one, two, three := d.client(t), d.client(t), d.client(t)
	for _, client := range []*net.UDPConn{one, two, one, three, one} {
		if got := ask(t, client, "?"); got != "a?" {
			t.Errorf("got %q", got)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, hasTwo := d.sessions[two.LocalAddr().(*net.UDPAddr).AddrPort()]
	if len(d.sessions) != 2 || hasTwo {
		t.Errorf("%d sessions, of the longest silent client: %t", len(d.sessions), hasTwo)
	}
}

// fakeSocket is a listening socket without a network: sessions expire in the bubble's time.
type fakeSocket struct {
	in     chan fakeDatagram
	out    chan fakeDatagram
	closed chan struct{}
}

type fakeDatagram struct {
	client netip.AddrPort
	text   string
}

func (f fakeSocket) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	select {
	case d := <-f.in:
		return copy(b, d.text), d.client, nil
	case <-f.closed:
		return 0, netip.AddrPort{}, net.ErrClosed
	}
}

func (f fakeSocket) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	f.out <- fakeDatagram{to, string(b)}
	return len(b), nil
}

func (f fakeSocket) Close() error { close(f.closed); return nil }

func TestSilentClientsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		socket := fakeSocket{make(chan fakeDatagram), make(chan fakeDatagram), make(chan struct{})}
		backends := make(chan net.Conn, 1)
		d := startDatagrams(hosttest.Loopback, socket, Target{}, newMetrics(), &limit{most: 10},
			func(netip.Addr, netip.AddrPort) (net.Conn, error) {
				near, far := net.Pipe()
				backends <- far
				return near, nil
			})
		client := netip.MustParseAddrPort("192.0.2.1:1234")
		sessions := func() float64 { synctest.Wait(); return measured(t, d.metrics.sessions) }
		say := func(far net.Conn) net.Conn {
			socket.in <- fakeDatagram{client, "?"}
			if far == nil {
				far = <-backends
			}
			if _, err := far.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			return far
		}
		far := say(nil)
		time.Sleep(unrepliedTime - time.Second)
		if sessions() != 1 {
			t.Fatal("forgotten before its time")
		}
		say(far) // speaks again
		time.Sleep(unrepliedTime - time.Second)
		if sessions() != 1 {
			t.Fatal("forgotten although it has spoken")
		}
		time.Sleep(2 * time.Second)
		if sessions() != 0 {
			t.Fatal("not forgotten although nobody has answered it")
		}
		far = say(nil)
		go func() { _, _ = far.Write([]byte("!")) }()
		if got := <-socket.out; got.client != client || got.text != "!" {
			t.Fatalf("answered %v", got)
		}
		time.Sleep(repliedTime - time.Second)
		if sessions() != 1 {
			t.Fatal("forgotten before its time although it was answered")
		}
		time.Sleep(2 * time.Second)
		if sessions() != 0 || d.limit.now.Load() != 0 {
			t.Fatal("not forgotten after its time")
		}
		d.close(true)
		d.wait()
	})
}

// A datagram socket's client moves when its endpoint goes or refuses, and stays where others change.
func TestDatagramsFollowTheirEndpoints(t *testing.T) {
	a, b := datagramBackend(t, "a"), datagramBackend(t, "b")
	to := Target{To: closedPort(t), Backends: &Backends{List: []Backend{{At: a}}}}
	d := openDatagrams(t, to, 10)
	client := d.client(t)
	if got := ask(t, client, "?"); got != "a?" {
		t.Fatalf("got %q", got)
	}
	to.Backends = &Backends{List: []Backend{{At: a}, {At: b}}}
	d.retarget(to)
	for range 5 {
		if got := ask(t, client, "?"); got != "a?" {
			t.Fatalf("a session whose endpoint is there still went to %q", got)
		}
	}
	to.Backends = &Backends{List: []Backend{{At: b}}}
	d.retarget(to)
	if got := ask(t, client, "?"); got != "b?" {
		t.Errorf("got %q", got)
	}
	to.Backends = &Backends{List: []Backend{{At: b}}}
	if d.retarget(to); measured(t, d.metrics.sessions) != 1 {
		t.Error("a session was ended without need")
	}
}

func TestDatagramsTryTheNextEndpoint(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows is told to report no refusal of a datagram")
	}
	b := datagramBackend(t, "b")
	for range 4 { // either may be chosen first
		d := openDatagrams(t, Target{To: b, Backends: &Backends{List: []Backend{{At: closedPort(t)}, {At: b}}}}, 10)
		client := d.client(t)
		if got := ask(t, client, "?"); got != "b?" {
			t.Errorf("got %q", got)
		}
	}
}
