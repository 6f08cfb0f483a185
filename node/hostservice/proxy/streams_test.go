package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/hostservice/listeners"
	"github.com/weftnet/weft/node/nodetest"
)

func echo(c *net.TCPConn) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

// closedPort is one that nobody listens at.
func closedPort(t testing.TB) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return netip.MustParseAddrPort(listener.Addr().String())
}

func startStreams(t testing.TB, to Target) *streams {
	t.Helper()
	s, err := listenStreams(t.Context(), netip.AddrPortFrom(hosttest.Loopback, 0), to, newMetrics(), &limit{most: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(true); s.wait() })
	return s
}

func (s *streams) client(t testing.TB) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp4", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(nodetest.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// mustRefuse says that a new client is told at once that there is nobody. That may be before it knows
// that it was taken.
func (s *streams) mustRefuse(t testing.TB) {
	t.Helper()
	conn, err := net.DialTimeout("tcp4", s.listener.Addr().String(), nodetest.Patience)
	var failure net.Error
	if errors.As(err, &failure) && !failure.Timeout() {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(nodetest.Patience))
	mustBeReset(t, conn)
}

// mustBeReset says that a connection was reset and did not only time out or end in peace. Wine makes a
// peaceful end of a reset.
func mustBeReset(t testing.TB, conn net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if err == nil && runtime.GOOS != "windows" || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection ended with %v and was not reset", err)
	}
}

func read(t testing.TB, conn net.Conn, n int) string {
	t.Helper()
	buffer := make([]byte, n)
	if _, err := io.ReadFull(conn, buffer); err != nil {
		t.Fatalf("read %d bytes: %v", n, err)
	}
	return string(buffer)
}

func TestStreamsCarryBothWaysAndTheEnd(t *testing.T) {
	s := startStreams(t, Target{To: hosttest.Backend(t, echo)})
	sent := make([]byte, 4<<20)
	_, _ = rand.Read(sent)
	var clients sync.WaitGroup
	for range 8 {
		client := s.client(t)
		clients.Go(func() {
			if _, err := client.Write(sent); err != nil {
				t.Error(err)
			}
			if err := client.CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		clients.Go(func() {
			received, err := io.ReadAll(client) // the answer comes although the client has ended its half
			if err != nil || !bytes.Equal(received, sent) {
				t.Errorf("got %d of %d bytes: %v", len(received), len(sent), err)
			}
		})
	}
	clients.Wait()
	hosttest.Eventually(t, "all pairs are gone", func() bool {
		return measured(t, s.metrics.open) == 0 && s.limit.now.Load() == 0
	})
	if n := measured(t, s.metrics.connections); n != 8 {
		t.Errorf("%v connections", n)
	}
}

func TestBackendMayEndFirst(t *testing.T) {
	heard := make(chan string, 1)
	s := startStreams(t, Target{To: hosttest.Backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		rest, _ := io.ReadAll(c)
		heard <- string(rest)
	})})
	client := s.client(t)
	if said, err := io.ReadAll(client); err != nil || string(said) != "bye" {
		t.Fatalf("%q, %v", said, err)
	}
	if _, err := io.WriteString(client, "and you"); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if got := <-heard; got != "and you" {
		t.Errorf("the backend heard %q", got)
	}
}

func TestAResetIsPassedOn(t *testing.T) {
	ended := make(chan error, 1)
	s := startStreams(t, Target{To: hosttest.Backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "hello")
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})})
	client := s.client(t)
	read(t, client, 5)
	reset(client)
	if err := <-ended; err == nil && runtime.GOOS != "windows" {
		t.Error("the backend saw a peaceful end of a connection that was reset")
	}

	s = startStreams(t, Target{To: hosttest.Backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "hello")
		reset(c)
	})})
	s.mustRefuse(t)
}

func TestAClosedPortIsRefused(t *testing.T) {
	s := startStreams(t, Target{To: closedPort(t)})
	s.mustRefuse(t)
	hosttest.Eventually(t, "the failure is counted", func() bool {
		return measured(t, s.metrics.failures.WithLabelValues(listeners.TCP, failedDial)) == 1
	})
}

func TestASlowReaderSlowsTheOther(t *testing.T) {
	wrote := make(chan int64, 1)
	s := startStreams(t, Target{To: hosttest.Backend(t, func(c *net.TCPConn) {
		_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, _ := io.Copy(c, zeroes{})
		wrote <- n
	})})
	client := s.client(t) // reads nothing
	if n := <-wrote; n > 64<<20 {
		t.Errorf("%d bytes were taken that nobody has read", n)
	}
	client.Close()
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { return len(b), nil }

func TestTooManyConnections(t *testing.T) {
	to := Target{To: hosttest.Greeter(t, "a")}
	s, err := listenStreams(t.Context(), netip.AddrPortFrom(hosttest.Loopback, 0), to, newMetrics(), &limit{most: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.close(true); s.wait() }()
	first := s.client(t)
	read(t, first, 1)
	s.mustRefuse(t)
	first.Close()
	hosttest.Eventually(t, "there is room again", func() bool { return s.limit.now.Load() == 0 })
	read(t, s.client(t), 1)
}

func TestAnotherTarget(t *testing.T) {
	a, b := hosttest.Greeter(t, "a"), hosttest.Greeter(t, "b")
	t.Run("of a Service", func(t *testing.T) {
		s := startStreams(t, Target{To: a})
		old := s.client(t)
		read(t, old, 1)
		s.retarget(Target{To: b})
		if got := read(t, s.client(t), 1); got != "b" {
			t.Errorf("a new connection went to %q", got)
		}
		if _, err := old.Write([]byte("still here")); err != nil {
			t.Error(err)
		}
		s.close(false)
		if err := old.CloseWrite(); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(old); err != nil || len(rest) > 0 {
			t.Errorf("an old connection was broken: %q, %v", rest, err)
		}
	})
	t.Run("of a pod", func(t *testing.T) {
		s := startStreams(t, Target{To: a, Direct: true})
		old := s.client(t)
		read(t, old, 1)
		s.retarget(Target{To: b, Direct: true})
		mustBeReset(t, old)
		now := s.client(t)
		read(t, now, 1)
		s.close(true)
		mustBeReset(t, now)
		s.wait()
	})
}

// Who refuses is passed by for the next one.
func TestStreamsTryTheNextEndpoint(t *testing.T) {
	there := hosttest.Greeter(t, "a")
	to := Target{To: closedPort(t)}
	to.Backends = &Backends{List: []Backend{{At: closedPort(t)}, {At: there}, {At: closedPort(t)}}}
	s := startStreams(t, to)
	for range 20 {
		if got := read(t, s.client(t), 1); got != "a" {
			t.Fatalf("got %q", got)
		}
	}
	to.Backends = &Backends{List: []Backend{{At: closedPort(t)}}}
	s.retarget(to)
	s.mustRefuse(t)
}

// A pod that goes while it is dialled leaves no connection behind.
func TestTargetGoesDuringTheDial(t *testing.T) {
	a := hosttest.Greeter(t, "a")
	s := startStreams(t, Target{To: closedPort(t)})
	dialling, goOn := make(chan struct{}), make(chan struct{})
	s.dial = func(ctx context.Context, from netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
		close(dialling)
		<-goOn
		return dialStream(ctx, from, to)
	}
	s.retarget(Target{To: a, Direct: true})
	client := s.client(t)
	<-dialling
	s.retarget(Target{To: closedPort(t), Direct: true})
	close(goOn)
	mustBeReset(t, client)
}
