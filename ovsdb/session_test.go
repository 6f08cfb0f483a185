package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/models/nb"
)

// pipe is a session whose server the test plays.
func pipe(t *testing.T, interval time.Duration) (*session, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	s := newSession(ours, Endpoint{"unix", "pipe"}, interval)
	s.notify = func(string, []byte) error { return nil }
	t.Cleanup(func() {
		s.close(ErrClosed)
		theirs.Close()
	})
	return s, theirs
}

func await[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	const patience = 2 * time.Minute
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
	}
	return value
}

// ovsdb-server reads nothing as long as it has something to say. A client that then waited for it
// to read before reading itself would wait for ever.
func TestTheReaderDoesNotWaitForTheWriter(t *testing.T) {
	s, server := pipe(t, time.Hour)
	told := make(chan string, 1)
	s.notify = func(method string, _ []byte) error { told <- method; return nil }
	s.start()
	if _, err := s.send("transact", func(reply) {}, []byte(`"`+strings.Repeat("x", 1<<20)+`"`)); err != nil {
		t.Fatal(err)
	}
	go server.Write([]byte(`{"id":"echo","method":"echo","params":[]}{"id":null,"method":"update2","params":[]}`))
	if method := await(t, "the update behind the echo", told); method != "update2" {
		t.Errorf("told of %s", method)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	s, _ := pipe(t, time.Hour)
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.call(ctx, "transact", nil)
		ended <- err
	}()
	if err := await(t, "the call", ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ends with %v", err)
	}
}

func TestAServerThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pipe(t, time.Second)
		s.start() // without a probe
		ended := make(chan error, 1)
		if _, err := s.send("transact", func(r reply) { ended <- r.err }); err != nil {
			t.Fatal(err)
		}
		if err := await(t, "the end of the session", ended); !errors.Is(err, ErrDisconnected) || !errors.Is(err, errSilent) {
			t.Errorf("the session ends with %v", err)
		}
	})
}

// player is a server of sessions that a test plays: it answers each request after a while, and never if that is zero.
type player struct {
	net.Conn
	after func(method string) time.Duration
}

// play returns when the connection is closed.
func (p player) play() {
	questions := &framer{reader: p}
	for text, err := questions.next(); err == nil; text, err = questions.next() {
		var question struct {
			ID     uint64
			Method string
		}
		if json.Unmarshal(text, &question) != nil {
			return
		}
		after, result := p.after(question.Method), "[]"
		if after == 0 {
			continue
		}
		time.Sleep(after)
		if question.Method == "monitor_cond_since" {
			result = `[false,"11111111-1111-4111-8111-111111111111",{}]`
		}
		fmt.Fprintf(p, `{"id":%d,"result":%s,"error":null}`, question.ID, result)
	}
}

func TestProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := pipe(t, time.Second)
		s.start()
		go s.probe()
		// A server that answers is kept, for many intervals.
		const answered = 10
		asked := make(chan string, 100)
		server := player{Conn: conn, after: func(method string) time.Duration {
			if asked <- method; len(asked) > answered {
				return 0
			}
			return time.Second / 2
		}}
		go server.play()
		// One that takes the question and says nothing is not.
		await(t, "the end of the session", s.done)
		if !errors.Is(s.cause(), errSilent) || len(asked) != answered+1 || <-asked != "echo" {
			t.Errorf("the session ends with %v after %d questions", s.cause(), len(asked))
		}
	})
}

// A client that has much to do with what a server has said does not hear the server meanwhile.
func TestABusyClientIsNoSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := pipe(t, time.Second)
		worked := make(chan struct{})
		s.notify = func(string, []byte) error {
			time.Sleep(time.Minute)
			close(worked)
			return nil
		}
		s.start()
		go s.probe()
		server := player{Conn: conn, after: func(string) time.Duration { return time.Millisecond }}
		go server.play()
		fmt.Fprint(server, `{"id":null,"method":"update3","params":[]}`)
		await(t, "the end of the work", worked)
		time.Sleep(10 * time.Second)
		if s.cause() != nil {
			t.Errorf("the session ends with %v", s.cause())
		}
	})
}

// TestProbesFollowTheDatabase: a client gives a server as much time for a sign of life as it took to read the replica.
func TestProbesFollowTheDatabase(t *testing.T) {
	model, err := nb.FullDatabaseModel()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ reading, want time.Duration }{
		"small": {30 * time.Millisecond, 3 * time.Second}, "large": {8 * time.Second, 8 * time.Second},
		"the server had other work, too": {50 * time.Second, longestProbe},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const configured = 3 * time.Second
				client := &Client{config: Config{Model: model}, probe: configured, log: slog.Default(),
					changed: make(chan struct{}), cache: newCache()}
				for range 2 { // what was learned stays
					s, conn := pipe(t, client.probe)
					server := player{Conn: conn, after: func(method string) time.Duration {
						if method == "monitor_cond_since" {
							return c.reading
						}
						return 0
					}}
					go server.play()
					s.start()
					if err := client.replicate(t.Context(), s); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					go s.probe()
					await(t, "the end of the session", s.done)
					if left := time.Since(began); left != 2*c.want || !errors.Is(s.cause(), errSilent) {
						t.Errorf("the server is left after %v with %v, not after %v", left, s.cause(), 2*c.want)
					}
					c.reading = time.Millisecond
				}
			})
		})
	}
}

func TestWithdrawnRequestsAreNotSent(t *testing.T) {
	s, server := pipe(t, time.Hour)
	send := func(method string) uint64 {
		id, err := s.send(method, func(reply) {})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first, second := send("first"), send("second")
	send("third")
	if !s.withdraw(second) || s.withdraw(second) {
		t.Error("a request that waits can be taken back once")
	}
	s.start()
	decoder := json.NewDecoder(server)
	for _, want := range []string{"first", "third"} {
		var request struct{ Method string }
		if err := decoder.Decode(&request); err != nil || request.Method != want {
			t.Errorf("sent %s, %v instead of %s", request.Method, err, want)
		}
	}
	if s.withdraw(first) {
		t.Error("a request that was sent was taken back")
	}
}

// The reader of a session may still hold a message when the session has ended and the next one has
// filled the replica; sets would take it for another change.
func TestAnEndedSessionSaysNothingMore(t *testing.T) {
	model, err := nb.FullDatabaseModel()
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{config: Config{Model: model}, log: slog.Default(), changed: make(chan struct{}), cache: newCache()}
	s, _ := pipe(t, time.Hour)
	update := []byte(`["` + replicaMonitor + `","11111111-1111-4111-8111-111111111111",{}]`)
	if err := c.notified(s, "update3", update); err != nil || c.since == "" {
		t.Fatalf("an update ends with %v, the replica is of transaction %q", err, c.since)
	}
	c.since = "the next session's"
	s.close(ErrClosed)
	if err := c.notified(s, "update3", update); err == nil || c.since != "the next session's" {
		t.Errorf("an update ends with %v, the replica is of transaction %s", err, c.since)
	}
	if err := c.filled(s, "monitor_cond", []byte("{}")); err == nil || c.Connected() {
		t.Errorf("a late snapshot is taken, %v", err)
	}
}
