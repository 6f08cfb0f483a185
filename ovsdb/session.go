package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weftnet/weft/models/signal"
)

// errSilent ends a session whose server neither says nor takes anything.
var errSilent = errors.New("the server gives no sign of life")

// session is one connection: JSON-RPC as RFC 7047 has it, calls in flight side by side. Only its
// writer writes and only its reader reads, so that neither a caller nor the reader ever waits for
// a server that does not read: the server itself reads nothing as long as it has something to say.
type session struct {
	conn     net.Conn
	endpoint Endpoint
	// notify is called by the reader for each notification, in the server's order.
	notify func(method string, params []byte) error
	posted signal.Signal // wakes the writer

	mu      sync.Mutex
	next    uint64
	outbox  []message // not yet written
	pending map[uint64]func(reply)
	err     error // why the session ended
	done    chan struct{}
	// interval is the silence after which the server is asked for a sign of life. The silence begins when the server was
	// heard, or when the reader began to listen. While the reader works, the server may say what it wants.
	interval  time.Duration
	heard     time.Time
	listening bool
}

// message is what is to be written; id is that of a request, 0 of an answer.
type message struct {
	id   uint64
	text []byte
}

type reply struct {
	result []byte
	err    error
}

func newSession(conn net.Conn, endpoint Endpoint, interval time.Duration) *session {
	return &session{
		conn: conn, endpoint: endpoint, interval: interval, posted: signal.New(),
		pending: map[uint64]func(reply){}, heard: time.Now(), done: make(chan struct{}),
	}
}

// start lets the session read and write; notify is set before.
func (s *session) start() {
	go s.read()
	go s.write()
}

// send has a request written; params are the parts of the text between the brackets, of which it keeps none. The
// reader calls then with the answer, before it reads on, or with the reason why there will be none.
func (s *session) send(method string, then func(reply), params ...[]byte) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	s.next++
	s.pending[s.next] = then
	size := 64
	for _, part := range params {
		size += len(part)
	}
	text := strconv.AppendUint(append(make([]byte, 0, size), `{"id":`...), s.next, 10)
	text = append(appendString(append(text, `,"method":`...), method), `,"params":[`...)
	for _, part := range params {
		text = append(text, part...)
	}
	s.post(message{s.next, append(text, "]}"...)})
	return s.next, nil
}

// post hands a message to the writer; s.mu is held.
func (s *session) post(m message) {
	s.outbox = append(s.outbox, m)
	s.posted.Set()
}

// withdraw takes a request back, which then is not heard of any more. It cannot once the writer
// has begun with it.
func (s *session) withdraw(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.outbox, func(m message) bool { return m.id == id })
	if i < 0 {
		return false
	}
	s.outbox = slices.Delete(s.outbox, i, i+1)
	delete(s.pending, id)
	return true
}

// write is the writer.
func (s *session) write() {
	for {
		s.mu.Lock()
		var m message
		if len(s.outbox) > 0 {
			m = s.outbox[0]
			s.outbox = slices.Delete(s.outbox, 0, 1)
		}
		s.mu.Unlock()
		if m.text == nil {
			select {
			case <-s.done:
				return
			case <-s.posted:
			}
			continue
		}
		if err := s.put(m.text); err != nil {
			s.fail(err)
			return
		}
	}
}

// writeChunk is what a server must take within two intervals.
const writeChunk = 64 << 10

func (s *session) put(text []byte) error {
	for chunk := range slices.Chunk(text, writeChunk) {
		if err := s.conn.SetWriteDeadline(time.Now().Add(2 * s.patience())); err != nil {
			return err
		}
		if _, err := s.conn.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// fail ends the session after a failed write.
func (s *session) fail(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.close(fmt.Errorf("%w: it has read nothing for %v", errSilent, 2*s.patience()))
		return
	}
	// The reader learns better why, such as a certificate that the server does not like.
	select {
	case <-s.done:
	case <-time.After(time.Second):
		s.close(err)
	}
}

// call waits for the answer; inline, where not nil, sees it first, in the reader.
func (s *session) call(ctx context.Context, method string, params []byte, inline ...func([]byte) error) ([]byte,
	error) {
	answer := make(chan reply, 1)
	id, err := s.send(method, func(r reply) {
		for _, f := range inline {
			if r.err == nil {
				r.err = f(r.result)
			}
		}
		answer <- r
	}, params)
	if err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-ctx.Done():
		if !s.withdraw(id) {
			s.mu.Lock()
			delete(s.pending, id)
			s.mu.Unlock()
		}
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
	s.pending, s.outbox = nil, nil
	s.mu.Unlock()
	s.conn.Close()
	for _, then := range pending {
		then(reply{err: s.err})
	}
	close(s.done)
}

func (s *session) read() {
	frames := &framer{reader: ear{s}}
	for {
		text, err := frames.next()
		if err == nil {
			err = s.receive(text)
		}
		if err != nil {
			s.close(err)
			return
		}
	}
}

// ear reads from the connection and notes when: neither a message that takes long, nor the work that it makes, is
// silence of the server.
type ear struct{ *session }

func (e ear) Read(b []byte) (int, error) {
	e.listen(true)
	defer e.listen(false)
	return e.conn.Read(b)
}

func (s *session) listen(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.listening = time.Now(), now
}

// silent says how long the server has said nothing to a reader that listened, and since when.
func (s *session) silent() (long time.Duration, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listening {
		return 0, time.Now()
	}
	return time.Since(s.heard), s.heard
}

// patience is the interval.
func (s *session) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.interval
}

// bear sets the interval.
func (s *session) bear(interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interval = interval
}

func (s *session) receive(text []byte) error {
	var method string
	var id, params, result, failure []byte
	scan := &scanner{text: text}
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
	text := append([]byte(`{"id":`), id...)
	text = append(append(text, `,"result":`...), answer...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.post(message{text: append(text, `,"error":null}`...)})
	return nil
}

// probe asks a silent server for a sign of life, and ends the session when none comes within a
// second interval.
func (s *session) probe() {
	interval := s.patience()
	timer := time.NewTimer(interval)
	defer timer.Stop()
	var asked time.Time
	for {
		select {
		case <-s.done:
			return
		case <-timer.C:
		}
		wait := interval
		switch silent, since := s.silent(); {
		case silent < interval:
			wait -= silent
		case asked.After(since):
			s.close(fmt.Errorf("%w: it has said nothing for %v", errSilent, silent.Round(time.Millisecond)))
			return
		default:
			asked = time.Now()
			s.send("echo", func(reply) {}) // fails only when the session has ended
		}
		timer.Reset(wait)
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
