package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
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

func TestProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, server := pipe(t, time.Second)
		s.start()
		go s.probe()
		// A server that answers is kept, for many intervals.
		questions := &framer{reader: server}
		for range 10 {
			question, err := questions.next()
			if err != nil {
				t.Fatalf("%v; the session has ended: %v", err, s.cause())
			}
			var echo struct {
				ID     uint64
				Method string
			}
			if err := json.Unmarshal(question, &echo); err != nil || echo.Method != "echo" {
				t.Fatalf("asked %s, %v", question, err)
			}
			answer := map[string]any{"id": echo.ID, "result": []any{}, "error": nil}
			if err := json.NewEncoder(server).Encode(answer); err != nil {
				t.Fatal(err)
			}
		}
		// One that takes the question and says nothing is not.
		go func() {
			for _, err := questions.next(); err == nil; _, err = questions.next() {
			}
		}()
		await(t, "the end of the session", s.done)
		if !errors.Is(s.cause(), errSilent) {
			t.Errorf("the session ends with %v", s.cause())
		}
	})
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
