package sctp

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	client = netip.MustParseAddr("192.0.2.1")
	server = netip.MustParseAddr("192.0.2.2")
)

const port = 9003

// answer serves each association with its own question in capitals, as often as it asks; it returns when
// the listener is closed.
func answer(l *SCTPListener) {
	var served sync.WaitGroup
	defer served.Wait()
	for {
		c, err := l.AcceptSCTP()
		if err != nil {
			return
		}
		served.Go(func() {
			defer c.Close()
			b := make([]byte, MaxMessage)
			for {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				if _, err := c.Write(bytes.ToUpper(b[:n])); err != nil {
					return
				}
			}
		})
	}
}

// scene is a server on a wire.
type scene struct {
	*wire
	listener *SCTPListener
	serving  sync.WaitGroup
}

func (s *scene) serve() { s.serving.Go(func() { answer(s.listener) }) }

// play has a scene in a bubble of its own time, on a wire that loses what lost says.
func play(t *testing.T, lost func(packet) bool, story func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.lost = lost
		s := &scene{wire: w, listener: listen(sctpAddr(server, port), []socket{w.plug(server)})}
		story(t, s)
		s.listener.Close()
		s.serving.Wait()
	})
}

func nothing(packet) bool { return false }

func ask(w *wire, from uint16, questions ...string) ([]string, error) {
	c, err := dial(w.plug(client), netip.AddrPortFrom(client, from), netip.AddrPortFrom(server, port))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var answers []string
	b := make([]byte, MaxMessage)
	for _, q := range questions {
		if _, err := c.Write([]byte(q)); err != nil {
			return nil, err
		}
		c.SetReadDeadline(time.Now().Add(2 * patience)) // that the other side gave up may not be known here
		n, err := c.Read(b)
		if err != nil {
			return nil, err
		}
		answers = append(answers, string(b[:n]))
	}
	return answers, nil
}

func TestQuestionsAreAnsweredInOrder(t *testing.T) {
	play(t, nothing, func(t *testing.T, s *scene) {
		s.serve()
		long := strings.Repeat("x", MaxMessage)
		got, err := ask(s.wire, 50000, "who", "are", "you?", long)
		if err != nil || strings.Join(got, " ") != "WHO ARE YOU? "+strings.ToUpper(long) {
			t.Fatalf("%q (%v)", got, err)
		}
	})
}

// TestEveryKindOfPacketMayBeLost once: it is sent again.
func TestEveryKindOfPacketMayBeLost(t *testing.T) {
	for name, kind := range map[string]byte{"INIT": chunkInit, "INIT ACK": chunkInitAck, "COOKIE ECHO": chunkCookieEcho,
		"COOKIE ACK": chunkCookieAck, "DATA": chunkData, "SACK": chunkSack, "SHUTDOWN": chunkShutdown} {
		t.Run(name, func(t *testing.T) {
			first := true
			lost := func(p packet) bool {
				drop := first && p.chunks[0].kind == kind
				first = first && !drop
				return drop
			}
			play(t, lost, func(t *testing.T, s *scene) {
				s.serve()
				begin := time.Now()
				if got, err := ask(s.wire, 50000, "who?"); err != nil || got[0] != "WHO?" {
					t.Fatalf("%q (%v)", got, err)
				}
				if took := time.Since(begin); took > firstWait {
					t.Errorf("it took %s", took)
				}
			})
			if first {
				t.Errorf("no %s was sent", name)
			}
		})
	}
}

// TestLossyWire loses a fifth of all packets, and for that no message and no order.
func TestLossyWire(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	play(t, func(packet) bool { return random.IntN(5) == 0 }, func(t *testing.T, s *scene) {
		s.serve()
		const clients = 50
		answered := 0
		for i := range uint16(clients) {
			question := fmt.Sprintf("number %d?", i)
			got, err := ask(s.wire, 50000+i, question, "again?")
			if err != nil { // either side gives up when five in a row are lost
				continue
			}
			if answered++; got[0] != strings.ToUpper(question) || got[1] != "AGAIN?" {
				t.Errorf("%s: %q", question, got)
			}
		}
		if answered < clients*3/4 {
			t.Errorf("%d of %d clients had their answers", answered, clients)
		}
	})
}

func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := ask(newWire(), 50000, "who?")
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != patience {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// TestServerThatSpeaksFirst and takes leave at once, as agnhost's porter does. Who answers at once is heard.
func TestServerThatSpeaksFirst(t *testing.T) {
	play(t, nothing, func(t *testing.T, s *scene) {
		go func() {
			c, err := s.listener.AcceptSCTP()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := c.Write([]byte("foo")); err != nil {
				t.Error(err)
			}
			c.Close()
		}()
		c, err := dial(s.plug(client), netip.AddrPortFrom(client, 50000), netip.AddrPortFrom(server, port))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10)
		if n, err := c.Read(b); err != nil || string(b[:n]) != "foo" {
			t.Errorf("%q (%v)", b[:n], err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Errorf("an answer: %v", err)
		}
		if _, err := c.Read(b); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
		if _, err := c.Write([]byte("bar")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("after the end: %v", err)
		}
		begin := time.Now()
		c.Close()
		if time.Since(begin) != 0 {
			t.Errorf("Close waited %s", time.Since(begin))
		}
		synctest.Wait()
		if len(s.listener.conns) != 0 {
			t.Errorf("the listener keeps %d associations", len(s.listener.conns))
		}
	})
}

// TestPeerThatForgets its association and comes back from the same port.
func TestPeerThatForgets(t *testing.T) {
	play(t, nothing, func(t *testing.T, s *scene) {
		c, err := dial(s.plug(client), netip.AddrPortFrom(client, 50000), netip.AddrPortFrom(server, port))
		if err != nil {
			t.Fatal(err)
		}
		c.release() // it falls silent
		forgotten, err := s.listener.AcceptSCTP()
		if err != nil {
			t.Fatal(err)
		}
		s.serve()
		if got, err := ask(s.wire, 50000, "who?"); err != nil || got[0] != "WHO?" {
			t.Fatalf("%q (%v)", got, err)
		}
		if _, err := forgotten.Read(make([]byte, 10)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the earlier association: %v", err)
		}
	})
}

func TestReadDeadline(t *testing.T) {
	play(t, nothing, func(t *testing.T, s *scene) {
		c, err := dial(s.plug(client), netip.AddrPortFrom(client, 50000), netip.AddrPortFrom(server, port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		begin := time.Now()
		c.SetReadDeadline(begin.Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// TestChecksum against the value that RFC 3720 gives for CRC32c, and where a packet has it.
func TestChecksum(t *testing.T) {
	if got := crc32.Checksum(make([]byte, 32), castagnoli); got != 0x8a9136aa {
		t.Errorf("%x", got)
	}
	b := packet{from: 1, to: 2, tag: 3, chunks: []chunk{{kind: chunkCookieAck}}}.marshal()
	want := []byte{0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 11, 0, 0, 4}
	sum := crc32.Checksum(want, castagnoli)
	want[8], want[9], want[10], want[11] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	for i := range b {
		spoilt := bytes.Clone(b)
		spoilt[i] ^= 0x10
		if _, err := unmarshal(spoilt); err == nil {
			t.Errorf("byte %d may be anything", i)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(packet{from: 1, to: 2,
		chunks: []chunk{greeting{tag: 1, cookie: []byte("cookie")}.chunk(chunkInitAck)}}.marshal())
	f.Add(packet{from: 1, to: 2, tag: 3, chunks: []chunk{dataChunk(1, 2, []byte("text")), sackChunk(7)}}.marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerLength { // most of what comes has a good checksum
			b = bytes.Clone(b)
			copy(b[8:12], make([]byte, 4))
			sum := crc32.Checksum(b, castagnoli)
			b[8], b[9], b[10], b[11] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		p, err := unmarshal(b)
		if err != nil {
			return
		}
		again, err := unmarshal(p.marshal())
		if err != nil || len(again.chunks) != len(p.chunks) {
			t.Fatalf("%v becomes %v (%v)", p, again, err)
		}
		for _, c := range p.chunks {
			parseGreeting(c)
			parseCookie(c.body)
			c.number()
		}
	})
}

func TestResolve(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.1:9003": "192.0.2.1:9003",
		"[2001:db8::1]:80": "[2001:db8::1]:80", ":7": ":7",
		"0.0.0.0:80": "0.0.0.0:80"} {
		if a, err := ResolveSCTPAddr("sctp", address); err != nil || a.String() != want {
			t.Errorf("%s: %v (%v)", address, a, err)
		}
	}
	for _, address := range []string{"192.0.2.1", "192.0.2.1:65536", "192.0.2.1:http!"} {
		if a, err := ResolveSCTPAddr("sctp", address); err == nil {
			t.Errorf("%s: %v", address, a)
		}
	}
}
