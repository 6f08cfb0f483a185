package southbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/telemetry"
)

// session is a client's connection, and that to the server which stands for it there.
type session struct {
	guard          *Guard
	node           string
	peer           *peer
	client, server net.Conn
	writing        sync.Mutex // whole objects to client
	working        bool       // peer's busy is held
	made           bool       // rows of which there are so many only: they are counted before the node's next request
	tells          tells      // of the transaction that permit has judged last
	watched        watched
	received       atomic.Int64  // bytes from the server
	answered       signal.Signal // the client has an answer
	over           chan struct{} // is closed when the server says no more
	late           time.Duration // that the client has let the guard wait lately
	written        time.Time
	blocked        atomic.Int64 // nanoseconds that the client has let the guard wait
	turn           atomic.Pointer[turn]
	life           *lifeline
}

// slowest is how many bytes a second a client reads at least, when it lets the server wait at all.
const slowest = 128 << 10

// write sends to the client, who reads in time: what it does not read the server keeps in memory, with all that comes
// after it. A client that lets others wait again and again, each time not for long, has stall for all of these.
func (s *session) write(data []byte) error {
	began := time.Now()
	s.late = max(0, s.late-min(stall, began.Sub(s.written))-time.Duration(len(data))*time.Second/slowest)
	if err := s.client.SetWriteDeadline(began.Add(stall - s.late)); err != nil {
		return err
	}
	_, err := s.client.Write(data)
	s.written = time.Now()
	s.late += s.written.Sub(began)
	s.blocked.Add(int64(s.written.Sub(began)))
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("it does not read what it is told, for %s", stall)
		}
		return err
	}
	return nil
}

// answers passes on what the server says.
func (s *session) answers() error {
	buffer := make([]byte, 64<<10)
	var f frames
	for {
		n, err := s.server.Read(buffer)
		s.received.Add(int64(n))
		for data := buffer[:n]; len(data) > 0; {
			if !f.inside() {
				s.writing.Lock()
			}
			n, ends := f.next(data)
			if f.answer {
				s.answerTurn()
			}
			err := s.write(data[:n])
			if !f.inside() || err != nil {
				s.writing.Unlock()
			}
			if err != nil {
				return err
			}
			if ends && f.answer {
				s.endTurn()
				s.answered.Set()
			}
			data = data[n:]
		}
		if err != nil {
			if f.inside() {
				s.writing.Unlock()
			}
			return err
		}
	}
}

// begin waits until no other request of the node is worked on: by the guard, or by the server until the node has read
// the answer.
func (s *session) begin() {
	if !s.working {
		s.peer.busy <- struct{}{}
		s.working = true
	}
}

func (s *session) end() {
	if s.working {
		s.working = false
		<-s.peer.busy
	}
}

// requests passes on what the client asks for, if the node may. One may be under way when it returns.
func (s *session) requests(ctx context.Context) error {
	defer s.endTurn()
	defer s.life.end()
	m := &messages{from: s.client, large: func() error {
		s.begin()
		if err := s.sleep(ctx, s.guard.requests.take(s.node, 0, requestRate, requestBurst)); err != nil {
			return err
		}
		return s.client.SetReadDeadline(time.Now().Add(stall))
	}}
	for {
		text, err := m.next()
		if err != nil { // what has not come to its end counts, too, and the node's next large one waits for it
			s.guard.requests.take(s.node, len(m.buffer), requestRate, requestBurst)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("a large request does not come to its end, for %s", stall)
		}
		if err != nil {
			return err
		}
		s.life.begin()
		if err := s.sleep(ctx, s.guard.requests.take(s.node, requestCost+len(text), requestRate, requestBurst)); err != nil {
			return err
		}
		large := s.working // of which the node has but one in memory
		s.begin()
		request := object{}
		if err := json.Unmarshal(text, &request); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		if err := s.pause(ctx, request, large); err != nil {
			return err
		}
		if err := s.request(ctx, request, len(text), large); err != nil {
			return err
		}
		s.end()
		s.life.end()
		if err := s.client.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
	}
}

// pause has a request wait that would have the server say more than the node's share. The node's others pass meanwhile,
// if it is not large. Whether its time has come is asked when no other is worked on: else all that the node's
// connections ask for at once would pass.
func (s *session) pause(ctx context.Context, request object, large bool) error {
	for slices.Contains(reading, request.text("method")) {
		wait := s.guard.pace.wait(s.node)
		if wait == 0 {
			return nil
		}
		if err := s.yield(ctx, wait, large); err != nil {
			return err
		}
	}
	return nil
}

// yield has a request wait so long; others of the node pass meanwhile, if it is not large.
func (s *session) yield(ctx context.Context, wait time.Duration, large bool) error {
	if !large {
		s.end()
	}
	if err := s.sleep(ctx, wait); err != nil {
		return err
	}
	s.begin()
	return nil
}

// sleep waits while there is a client.
func (s *session) sleep(ctx context.Context, wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-s.over:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

// longestWait is how long a transaction waits until the node may have others hear of it. Then the node is to ask again,
// by what is so then: meanwhile it may have begun another connection, and have written there what is newer.
const longestWait = 3 * time.Second

// judge is permit, once the node may have others hear of its request: what it may is judged anew when it has waited.
func (s *session) judge(ctx context.Context, method string, params []json.RawMessage, large bool) (
	refused, ended error) {
	for left := longestWait; ; {
		s.tells = tells{}
		if refused = s.permit(ctx, method, params); refused != nil || method != "transact" {
			return refused, nil
		}
		wait := s.guard.audience.enter(s.node, s.tells, s.guard.door.connected())
		if wait == 0 {
			return nil, nil
		}
		if left <= 0 {
			return errNotYet{fmt.Sprintf("the node has had all others hear much lately; ask again in %s",
				wait.Round(time.Second))}, nil
		}
		wait = min(wait, left)
		left -= wait
		if err := s.yield(ctx, wait, large); err != nil {
			return nil, err
		}
	}
}

// request passes one on, of so many bytes.
func (s *session) request(ctx context.Context, request object, bytes int, large bool) error {
	var params []json.RawMessage
	if request["params"] != nil {
		if err := json.Unmarshal(request["params"], &params); err != nil {
			return fmt.Errorf("read a request's params: %w", err)
		}
	}
	method, asks, err := request.kind()
	if err != nil || method == "" && request.answersLife() {
		return err
	}
	if !slices.Contains(reading, method) {
		if err := s.guard.ledger.enter(s.node, bytes); err != nil {
			return err
		}
	}
	var why error
	if method != "" {
		if why, err = s.judge(ctx, method, params, large); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(why, errFull): // ovn-controller comes again if its connection ends, and not if a monitor is refused
		return why
	case why != nil:
		return s.refuse(request, len(params)-1, why)
	}
	// What was read is what is sent: nobody else may read it otherwise.
	if params != nil {
		request["params"], _ = json.Marshal(params)
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if !asks {
		_, err = s.server.Write(text)
		return err
	}
	if slices.Contains(reading, method) {
		if err := s.takeTurn(ctx); err != nil {
			return err
		}
	}
	before := s.begins()
	if _, err = s.server.Write(text); err != nil {
		s.guard.pace.end(before.clock)
		return err
	}
	if err := s.await(method, before); err != nil || !s.made {
		return err
	}
	s.made = false
	if s.guard.replica.Connected() { // or the next rows are counted once it has read everything anew
		_ = s.guard.replica.Sync(ctx)
	}
	return nil
}

// kind is what a message of a client is: a request with its method, which the server answers (asks), a notification,
// or, without a method, an answer to what the server has asked. Of anything else the server might think otherwise than
// the guard.
func (o object) kind() (method string, asks bool, err error) {
	text, named := o["method"]
	id := o["id"]
	identified := id != nil && string(id) != "null"
	if !named {
		if o["result"] == nil && o["error"] == nil || !identified {
			return "", false, errors.New("a message is neither a request nor an answer")
		}
		return "", false, nil
	}
	if err := json.Unmarshal(text, &method); err != nil || method == "" {
		return "", false, fmt.Errorf("%.60s is no method", text)
	}
	if !identified && method != "cancel" {
		return "", false, fmt.Errorf("method %.60q is no notification", method)
	}
	return method, identified, nil
}

// moment is one of a session: what the server had said, how long the client had let the guard wait, and the times.
type moment struct {
	received, blocked int64
	clock             time.Duration // the server's, see pace
	at                time.Time
}

// begins is when the server gets a request, which await ends. What it has answered until then is no answer to that.
func (s *session) begins() moment {
	select {
	case <-s.answered:
	default:
	}
	return moment{s.received.Load(), s.blocked.Load(), s.guard.pace.begin(), time.Now()}
}

// await waits until the client has the answer to its request, which the server has got at a moment before.
func (s *session) await(method string, before moment) error {
	var err error
	select {
	case <-s.answered:
	case <-s.over:
		err = io.EOF
	}
	work := s.guard.pace.end(before.clock)
	if slices.Contains(reading, method) {
		if took := time.Since(before.at); took > 0 { // a client on a slow line has not had the server work
			work = time.Duration(float64(work) * max(0, 1-float64(s.blocked.Load()-before.blocked)/float64(took)))
		}
		s.guard.pace.charge(s.node, s.received.Load()-before.received, work)
	}
	return err
}

// reading are the methods that have the server say what it has: rows come with their answers, or before.
var reading = []string{"get_schema", "get_server_id", "list_dbs", "monitor", "monitor_cond", "monitor_cond_change",
	"monitor_cond_since"}

// permitted methods beside transact change nothing but what the client itself hears. Not among them are those for
// locks, since northd has one.
var permitted = []string{"cancel", "echo", "get_schema", "get_server_id", "list_dbs", "monitor", "monitor_cancel",
	"monitor_cond",
	"monitor_cond_change", "monitor_cond_since", "set_db_change_aware"}

// permit says why a node may not make a request. It leaves of params what it has understood.
func (s *session) permit(ctx context.Context, method string, params []json.RawMessage) error {
	if slices.Contains(permitted, method) {
		return s.watched.ask(s.peer, method, params)
	}
	if method != "transact" {
		return fmt.Errorf("method %q is none that a node needs", method)
	}
	if n := len(params) - 1; n > maxOperations {
		return fmt.Errorf("%d operations are more than the %d that a transaction may have", n, maxOperations)
	}
	var t transaction
	for i := range params {
		if i == 0 {
			var database string
			if json.Unmarshal(params[i], &database) != nil || database != "OVN_Southbound" {
				return fmt.Errorf("a node writes to no database %.60s", params[i])
			}
			continue
		}
		if len(params[i]) > maxOperation {
			return fmt.Errorf("an operation of %d bytes is larger than the %d that one may have", len(params[i]), maxOperation)
		}
		raw := object{}
		if err := json.Unmarshal(params[i], &raw); err != nil {
			return fmt.Errorf("operation %.200s: %w", params[i], err)
		}
		o, err := newOperation(raw)
		if err != nil {
			return err
		}
		t.resolve(o)
		if err := s.check(ctx, o); err != nil {
			return err
		}
		if err := t.bounded(s.guard.replica, s.node, o, len(params[i])); err != nil {
			return err
		}
		s.tells.tell(s.guard.replica, o, len(params[i]))
		if err := o.date(time.Now()); err != nil {
			return err
		}
		if params[i], err = json.Marshal(o); err != nil {
			return err
		}
	}
	s.made = len(t.made) > 0
	return nil
}

// check waits for a row that the node has seen before the replica has, and for a replica that is the server's.
func (s *session) check(ctx context.Context, o *operation) (err error) {
	limit, cancel := context.WithTimeout(ctx, s.guard.patience)
	defer cancel()
	_ = s.guard.replica.WaitFor(limit, func() bool {
		if !s.guard.replica.Connected() {
			err = errStale
			return false
		}
		err = check(s.guard.replica, s.node, o)
		return !errors.As(err, &errUnknown{}) && !errors.As(err, &errNotYet{})
	})
	return err
}

// errStale: what the guard knows may not be so any more.
var errStale = errors.New("the guard has lost its own connection to the server, and cannot tell what is whose; " +
	"ask again")

// errNotYet: the controller has not said yet what the guard has to know of a node.
type errNotYet struct{ what string }

func (e errNotYet) Error() string { return e.what }

// refuse answers a request as the server would, and tells of it.
func (s *session) refuse(request object, operations int, why error) error {
	method := request.text("method")
	said := "a node asked for what is not its own; if this goes on, take the node for a stolen one"
	if errors.Is(why, errStale) || errors.As(why, &errNotYet{}) {
		s.guard.metrics.deferred.Inc()
		said = "a node has to ask again"
	} else {
		s.guard.metrics.refused.Inc()
	}
	if s.guard.toldNodes.more(s.node) {
		s.guard.log.Warn(said, telemetry.Object("Node", "", s.node),
			"address", s.client.RemoteAddr().String(), "method", cut(method), "refused", cut(why.Error()))
	}
	type failure struct {
		Error   string `json:"error"`
		Details string `json:"details"`
	}
	reply := struct {
		ID     json.RawMessage `json:"id"`
		Result any             `json:"result"`
		Error  any             `json:"error"`
	}{ID: request["id"]}
	answer := failure{"permission error", cut(why.Error())}
	if method == "transact" {
		results := make([]any, max(operations, 1))
		results[0] = answer
		reply.Result = results
	} else {
		reply.Error = answer
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.write(text)
}

// cut keeps what others have written to a line's length.
func cut(text string) string { return text[:min(len(text), 300)] }
