package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// How ovn-controller treats its connection to the Southbound: see lib/reconnect.c and lib/jsonrpc.c of Open vSwitch.
const (
	probeInterval = 3 * time.Second // ovn-remote-probe-interval, as agents set it
	leastBackoff  = time.Second
	mostBackoff   = 8 * time.Second
)

// patience is how long the benchmark waits for one more session.
const patience = 10 * time.Minute

// expectation is what sessions wait for: a text from the server, or, if that is empty, all that they monitor, on a
// connection that begins later.
type expectation struct {
	text string
	// forget has each session read everything on its next connection, and not only what it lacks.
	forget bool
}

// crowd are synthetic ovn-controllers. Unlike a real one, they make nothing of what they read, and write nothing.
type crowd struct {
	number int
	heard  atomic.Int64 // bytes
	wanted atomic.Pointer[expectation]

	mutex       sync.Mutex
	found       int // sessions that have it
	first, last time.Time
	all         chan struct{} // is closed when all have
	fates       fates
}

// fates is what has become of connections.
type fates struct {
	lost       int             // were given up, because no byte came after an echo request
	late       int             // were given up, because they did not begin in time
	failed     map[string]int  // failed otherwise, by error; that the other side ends one is no failure
	everything int             // have been told everything, also what the session had
	echoes     []time.Duration // from echo requests to the next byte
}

// Errors of a connection.
var (
	errLost = errors.New("no byte comes after an echo request")
	errLate = errors.New("the connection does not begin in time")
)

func (f *fates) add(err error) {
	switch {
	case errors.Is(err, errLost):
		f.lost++
	case errors.Is(err, errLate):
		f.late++
	case !errors.Is(err, io.EOF):
		if f.failed == nil {
			f.failed = map[string]int{}
		}
		f.failed[cause(err)]++
	}
}

// cause is what an error says without who it is about.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// expect has the sessions wait for something else.
func (c *crowd) expect(e expectation) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.found, c.all = 0, make(chan struct{})
	c.wanted.Store(&e)
}

// await says whether all sessions have what they wait for. It ends when none more has it for a long time.
func (c *crowd) await(b *testing.B, server *process) bool {
	b.Helper()
	for found := -1; ; {
		select {
		case <-c.all:
			return true
		case <-server.exited:
			b.Fatalf("%s is gone\n%s", server.name, server.tail())
		case <-time.After(patience):
		}
		c.mutex.Lock()
		before := found
		found = c.found
		c.mutex.Unlock()
		if found == before {
			b.Errorf("only %d of %d sessions have heard %q, and no further one for %v", found, c.number, c.wanted.Load().text,
				patience)
			return false
		}
	}
}

// has notes that a session has what it waits for.
func (c *crowd) has(e *expectation) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if e != c.wanted.Load() {
		return
	}
	c.last = time.Now()
	if c.found++; c.found == 1 {
		c.first = c.last
	}
	if c.found == c.number {
		close(c.all)
	}
}

// note changes what is known of connections.
func (c *crowd) note(change func(*fates)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	change(&c.fates)
}

// fate is what has become of connections since it was asked for last.
func (c *crowd) fate() fates {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f := c.fates
	c.fates = fates{}
	return f
}

// session is one of a crowd.
type session struct {
	*crowd
	dial   func(context.Context) (net.Conn, error)
	tables string // what it monitors of OVN_Southbound

	since   string       // the last transaction that it has
	forgot  *expectation // the last one by which it forgot that
	had     *expectation // the last one that it has met
	backoff time.Duration
}

// noTransaction is what a client has that has nothing.
const noTransaction = "00000000-0000-0000-0000-000000000000"

// run has the session connect again and again.
func (s *session) run(ctx context.Context) {
	s.since = noTransaction
	for ctx.Err() == nil {
		lasted, err := s.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		s.note(func(f *fates) { f.add(err) })
		s.backOff(lasted)
		select {
		case <-time.After(s.backoff):
		case <-ctx.Done():
		}
	}
}

// backOff is reconnect_disconnected, after a connection on which something came for so long.
func (s *session) backOff(lasted time.Duration) {
	if lasted > 0 && lasted >= s.backoff {
		s.backoff = leastBackoff
		return
	}
	s.backoff = min(max(leastBackoff, 2*s.backoff), mostBackoff)
}

// connect reads until the connection ends. It says how long after its beginning the last byte came.
func (s *session) connect(ctx context.Context) (lasted time.Duration, err error) {
	wanted := s.wanted.Load()
	if wanted.forget && s.forgot != wanted {
		s.forgot, s.since = wanted, noTransaction
	}
	limit, cancel := context.WithTimeout(ctx, max(leastBackoff, s.backoff))
	defer cancel()
	conn, err := s.dial(limit)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return 0, errLate
	}
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	began := time.Now()
	c := &connection{session: s, conn: conn, wanted: wanted, active: began}
	err = c.read()
	return c.active.Sub(began), err
}

// connection is one of a session's.
type connection struct {
	*session
	conn    net.Conn
	wanted  *expectation // when it began
	answers int          // to other requests than echo
	active  time.Time    // when something came
	frame   frame
	head    []byte // of the message that is under way
}

const (
	bufferSize = 64 << 10
	tailSize   = 64  // so long may a text be
	headSize   = 256 // tells what a message is
)

// Requests of ovn-controller at the beginning of a connection, see lib/ovsdb-cs.c of Open vSwitch. The second one waits
// for the answer to the first, and the others for that to the second.
const (
	askSchema = `{"id":1,"method":"get_schema","params":["_Server"]}`
	askServer = `{"id":2,"method":"monitor_cond","params":["_Server",["monid","_Server"],{"Database":[{"columns":` +
		`["name","model","connected","leader","schema","cid","index"]}]}]}`
	askRows   = `{"id":3,"method":"monitor_cond_since","params":["OVN_Southbound",["monid","OVN_Southbound"],%s,%q]}`
	tellAware = `{"id":4,"method":"set_db_change_aware","params":[true]}`
	askEcho   = `{"id":"echo","method":"echo","params":[]}`
	giveEcho  = `{"id":%q,"result":[],"error":null}`
)

func (c *connection) read() error {
	if err := c.send(askSchema); err != nil {
		return err
	}
	buffer, kept := make([]byte, bufferSize), 0
	for {
		n, err := c.receive(buffer[kept:])
		end := kept + n
		c.look(buffer[:end])
		if err := c.take(buffer[kept:end]); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		// The beginning of a text may be at the end of the buffer.
		kept = min(end, tailSize)
		copy(buffer, buffer[end-kept:end])
	}
}

// receive waits for bytes, and has the server show that it lives when none come.
func (c *connection) receive(buffer []byte) (int, error) {
	for last, asked := c.active, false; ; asked = true {
		n, err := c.until(last.Add(probeInterval), buffer)
		c.heard.Add(int64(n))
		if n > 0 {
			c.active = time.Now()
			if asked {
				c.note(func(f *fates) { f.echoes = append(f.echoes, c.active.Sub(last)) })
			}
			return n, err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		if asked {
			return 0, errLost
		}
		last = time.Now()
		if err := c.send(askEcho); err != nil {
			return 0, err
		}
	}
}

// until reads until a time. Like ovn-controller, it reads once more after that: this process may have had no
// processor.
func (c *connection) until(limit time.Time, buffer []byte) (n int, err error) {
	for range 2 {
		if err := c.conn.SetReadDeadline(limit); err != nil {
			return 0, err
		}
		if n, err = c.conn.Read(buffer); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		limit = time.Now().Add(10 * time.Millisecond)
	}
	return n, err
}

// look looks for the text that is waited for.
func (c *connection) look(data []byte) {
	wanted := c.crowd.wanted.Load()
	if wanted.text != "" && wanted != c.had && bytes.Contains(data, []byte(wanted.text)) {
		c.met(wanted)
	}
}

func (c *connection) met(e *expectation) {
	if c.had != e {
		c.had = e
		c.has(e)
	}
}

// take finds the messages in what has come.
func (c *connection) take(data []byte) error {
	for len(data) > 0 {
		n, ends := c.frame.next(data)
		c.head = append(c.head, data[:min(n, headSize-len(c.head))]...)
		data = data[n:]
		if !ends {
			continue
		}
		if err := c.message(string(c.head)); err != nil {
			return err
		}
		c.head = c.head[:0]
	}
	return nil
}

// message is told how each message begins, when all of it is there.
func (c *connection) message(head string) error {
	switch {
	case strings.Contains(head, `"method":"echo"`):
		return c.send(fmt.Sprintf(giveEcho, echoID(head)))
	case strings.Contains(head, `"method":"update3"`):
		if id, ok := transaction(head, `["monid","OVN_Southbound"],"`); ok {
			c.since = id
		}
		return nil
	case strings.Contains(head, `"method":`), strings.Contains(head, `"id":"echo"`):
		return nil
	}
	c.answers++
	switch c.answers {
	case 1:
		return c.send(askServer)
	case 2:
		return c.send(fmt.Sprintf(askRows, c.tables, c.since) + tellAware)
	case 3:
		return c.rows(head)
	}
	return nil
}

// echoID is the ID of an echo request, which is a string: that of ovsdb-server is "echo".
func echoID(head string) string {
	_, rest, _ := strings.Cut(head, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// rows is told the beginning of the answer with what is monitored.
func (c *connection) rows(head string) error {
	id, lacking := transaction(head, `"result":[true,"`)
	if !lacking {
		var ok bool
		if id, ok = transaction(head, `"result":[false,"`); !ok {
			return fmt.Errorf("no answer with rows: %s", head)
		}
		c.note(func(f *fates) { f.everything++ })
	}
	c.since = id
	if now := c.crowd.wanted.Load(); now.text == "" && now == c.wanted {
		c.met(now)
	}
	return nil
}

// transaction is the ID of one, which follows a text.
func transaction(head, text string) (id string, ok bool) {
	_, rest, ok := strings.Cut(head, text)
	if !ok || len(rest) < len(noTransaction) {
		return "", false
	}
	return rest[:len(noTransaction)], true
}

func (c *connection) send(text string) error {
	_, err := io.WriteString(c.conn, text)
	return err
}

// frame tells where JSON objects that follow each other end.
type frame struct {
	depth            int
	quoted, escaping bool
}

// next is how much of data belongs to the object that is under way or begins there, and whether it ends it.
func (f *frame) next(data []byte) (n int, ends bool) {
	for i, b := range data {
		switch {
		case f.escaping:
			f.escaping = false
		case f.quoted:
			f.escaping, f.quoted = b == '\\', b != '"'
		case b == '"':
			f.quoted = true
		case b == '{', b == '[':
			f.depth++
		case b == '}', b == ']':
			if f.depth--; f.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(data), false
}
