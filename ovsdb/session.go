package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// session is one connection: JSON-RPC as RFC 7047 has it, calls in flight side by side.
type session struct {
	conn     net.Conn
	endpoint Endpoint
	// notify is called by the reader for each notification, in the server's order.
	notify func(method string, params []byte) error

	write sync.Mutex

	mu      sync.Mutex
	next    uint64
	pending map[uint64]func(reply)
	err     error // why the session ended
	heard   time.Time
	done    chan struct{}
}

type reply struct {
	result []byte
	err    error
}

func newSession(conn net.Conn, endpoint Endpoint, notify func(string, []byte) error) *session {
	s := &session{conn: conn, endpoint: endpoint, notify: notify, pending: map[uint64]func(reply){}, heard: time.Now(), done: make(chan struct{})}
	go s.read()
	return s
}

// send writes a request; params is the text between the brackets. The reader calls then with the
// answer, before it reads on, or with the reason why there will be none.
func (s *session) send(method string, params []byte, then func(reply)) (uint64, error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return 0, s.err
	}
	s.next++
	id := s.next
	s.pending[id] = then
	s.mu.Unlock()

	message := make([]byte, 0, len(params)+64)
	message = strconv.AppendUint(append(message, `{"id":`...), id, 10)
	message = append(appendString(append(message, `,"method":`...), method), `,"params":[`...)
	message = append(append(message, params...), "]}"...)
	if err := s.put(message); err != nil {
		// The reader learns better why, such as a certificate that the server does not like.
		select {
		case <-s.done:
		case <-time.After(time.Second):
			s.close(err)
		}
	}
	return id, nil
}

func (s *session) put(message []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.conn.Write(message)
	return err
}

// call waits for the answer; inline, where not nil, sees it first, in the reader.
func (s *session) call(ctx context.Context, method string, params []byte, inline ...func([]byte) error) ([]byte, error) {
	answer := make(chan reply, 1)
	id, err := s.send(method, params, func(r reply) {
		for _, f := range inline {
			if r.err == nil {
				r.err = f(r.result)
			}
		}
		answer <- r
	})
	if err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.pending, id)
		s.mu.Unlock()
		return nil, ctx.Err()
	}
}

func (s *session) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close ends the session; calls in flight fail with the cause.
func (s *session) close(cause error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = fmt.Errorf("%w: %w", ErrDisconnected, cause)
	pending := s.pending
	s.pending = nil
	s.mu.Unlock()
	s.conn.Close()
	for _, then := range pending {
		then(reply{err: s.err})
	}
	close(s.done)
}

func (s *session) read() {
	frames := &framer{reader: s.conn}
	for {
		message, err := frames.next()
		if err != nil {
			s.close(err)
			return
		}
		s.mu.Lock()
		s.heard = time.Now()
		s.mu.Unlock()
		if err := s.receive(message); err != nil {
			s.close(err)
			return
		}
	}
}

func (s *session) receive(message []byte) error {
	var method string
	var id, params, result, failure []byte
	scan := &scanner{text: message}
	scan.object(func(name string) {
		switch name {
		case "method":
			if scan.peek() == '"' {
				method = scan.str()
			} else {
				scan.skip()
			}
		case "id":
			id = scan.raw()
		case "params":
			params = scan.raw()
		case "result":
			result = scan.raw()
		case "error":
			failure = scan.raw()
		default:
			scan.skip()
		}
	})
	if scan.err != nil {
		return fmt.Errorf("read the server's message: %w", scan.err)
	}
	if method != "" {
		return s.request(method, id, params)
	}
	number, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return fmt.Errorf("the server answered a request %s that was not made", id)
	}
	s.mu.Lock()
	then := s.pending[number]
	delete(s.pending, number)
	s.mu.Unlock()
	if then == nil {
		return nil // nobody waits any more
	}
	if failure != nil && string(failure) != "null" {
		then(reply{err: remoteError(failure)})
	} else {
		then(reply{result: result})
	}
	return nil
}

// request serves what the server asks or tells.
func (s *session) request(method string, id, params []byte) error {
	answer := []byte("[]")
	if method == "echo" {
		answer = params
	} else if err := s.notify(method, params); err != nil {
		return err
	}
	if id == nil || string(id) == "null" {
		return nil
	}
	message := append([]byte(`{"id":`), id...)
	message = append(append(message, `,"result":`...), answer...)
	return s.put(append(message, `,"error":null}`...))
}

// probe ends a session whose server is silent for two intervals, the second after a question.
func (s *session) probe(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		silent := time.Since(s.heard)
		s.mu.Unlock()
		if silent < interval {
			continue
		}
		limit, cancel := context.WithTimeout(ctx, interval)
		if _, err := s.call(limit, "echo", nil); err != nil {
			s.close(fmt.Errorf("no sign of life for %v", silent.Round(time.Second)))
		}
		cancel()
	}
}

// remoteError reads the error member of an answer or of an operation's result.
func remoteError(text []byte) error {
	var object struct{ Error, Details string }
	if json.Unmarshal(text, &object) == nil && object.Error != "" {
		return &OperationError{object.Error, object.Details}
	}
	var word string
	if json.Unmarshal(text, &word) == nil {
		return &OperationError{Kind: word}
	}
	return &OperationError{Kind: string(text)}
}
