package southbound

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// Guard lets nodes at a Southbound.
type Guard struct {
	replica *replica
	dial    func(context.Context) (net.Conn, error) // to the server
	metrics *metrics
	log     *slog.Logger
	told    told
}

// patience is how long the replica may be behind what a node has seen already.
const patience = 2 * time.Second

// handshake is how long a client may take to show its certificate.
const handshake = 10 * time.Second

// serve takes clients until ctx is done; it returns when they are gone.
func (g *Guard) serve(ctx context.Context, listener net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // as with too many open files
			g.log.Error("take a client", "error", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		clients.Go(func() {
			host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			if err := g.client(ctx, conn.(*tls.Conn)); err != nil && ctx.Err() == nil && g.told.more(host) {
				g.log.Warn("a client's connection ended", "address", conn.RemoteAddr().String(), "error", err)
			}
		})
	}
}

// client serves one, which is the node that its certificate names.
func (g *Guard) client(ctx context.Context, conn *tls.Conn) error {
	defer conn.Close()
	limit, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	if err := conn.HandshakeContext(limit); err != nil {
		g.metrics.handshakes.Inc()
		return fmt.Errorf("handshake: %w", err)
	}
	node := conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	if node == "" {
		return errors.New("its certificate has no common name, which is the node's")
	}
	return g.carry(ctx, conn, node)
}

// carry is a node's connection from its handshake to its end.
func (g *Guard) carry(ctx context.Context, conn net.Conn, node string) error {
	server, err := g.dial(ctx)
	if err != nil {
		return fmt.Errorf("reach the Southbound: %w", err)
	}
	defer server.Close()
	g.metrics.clients.Inc()
	defer g.metrics.clients.Dec()
	defer context.AfterFunc(ctx, func() { conn.Close(); server.Close() })()
	s := &session{guard: g, node: node, client: conn, server: server}
	ended := make(chan error, 2)
	go func() { ended <- s.answers() }()
	go func() { ended <- s.requests(ctx) }()
	err = <-ended
	conn.Close()
	server.Close()
	<-ended
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// session is a client's connection, and that to the server which stands for it there.
type session struct {
	guard          *Guard
	node           string
	client, server net.Conn
	writing        sync.Mutex // whole objects to client
}

// answers passes on what the server says.
func (s *session) answers() error {
	buffer := make([]byte, 64<<10)
	var f frames
	for {
		n, err := s.server.Read(buffer)
		for data := buffer[:n]; len(data) > 0; {
			if !f.inside() {
				s.writing.Lock()
			}
			n, _ := f.next(data)
			_, err := s.client.Write(data[:n])
			if !f.inside() || err != nil {
				s.writing.Unlock()
			}
			if err != nil {
				return err
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

// requests passes on what the client asks for, if the node may.
func (s *session) requests(ctx context.Context) error {
	m := &messages{from: s.client}
	for {
		text, err := m.next()
		if err != nil {
			return err
		}
		request := object{}
		if err := json.Unmarshal(text, &request); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		var params []json.RawMessage
		if request["params"] != nil {
			if err := json.Unmarshal(request["params"], &params); err != nil {
				return fmt.Errorf("read a request's params: %w", err)
			}
		}
		if why := s.permit(ctx, request.text("method"), params); why != nil {
			if err := s.refuse(request, len(params)-1, why); err != nil {
				return err
			}
			continue
		}
		// What was read is what is sent: nobody else may read it otherwise.
		if params != nil {
			if request["params"], err = json.Marshal(params); err != nil {
				return err
			}
		}
		if text, err = json.Marshal(request); err != nil {
			return err
		}
		if _, err = s.server.Write(text); err != nil {
			return err
		}
	}
}

// permitted methods beside transact change nothing but what the client itself hears. Not among them are those for
// locks, since northd has one.
var permitted = []string{"", "cancel", "echo", "get_schema", "get_server_id", "list_dbs", "monitor", "monitor_cancel", "monitor_cond",
	"monitor_cond_change", "monitor_cond_since", "set_db_change_aware"}

// permit says why a node may not make a request. It leaves of params what it has understood.
func (s *session) permit(ctx context.Context, method string, params []json.RawMessage) error {
	if slices.Contains(permitted, method) {
		return nil
	}
	if method != "transact" {
		return fmt.Errorf("method %q is none that a node needs", method)
	}
	for i := range params {
		if i == 0 { // the database
			continue
		}
		raw := object{}
		if err := json.Unmarshal(params[i], &raw); err != nil {
			return fmt.Errorf("operation %.200s: %w", params[i], err)
		}
		o, err := newOperation(raw)
		if err != nil {
			return err
		}
		if err := s.check(ctx, o); err != nil {
			return err
		}
		if params[i], err = json.Marshal(raw); err != nil {
			return err
		}
	}
	return nil
}

// check waits for a row that the node has seen before the replica has.
func (s *session) check(ctx context.Context, o *operation) (err error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = s.guard.replica.WaitFor(limit, func() bool {
		err = check(s.guard.replica, s.node, o)
		return !errors.As(err, &errUnknown{})
	})
	return err
}

// refuse answers a request as the server would, and tells of it.
func (s *session) refuse(request object, operations int, why error) error {
	method := request.text("method")
	s.guard.metrics.refused.Inc()
	if s.guard.told.more(s.node) {
		s.guard.log.Warn("a node asked for what is not its own; if this goes on, take the node for a stolen one", "node", s.node,
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
	said := failure{"permission error", cut(why.Error())}
	if method == "transact" {
		results := make([]any, max(operations, 1))
		results[0] = said
		reply.Result = results
	} else {
		reply.Error = said
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err = s.client.Write(text)
	return err
}

// told keeps the log from whoever would fill it.
type told struct {
	mu    sync.Mutex
	began time.Time
	lines map[string]int // by whom they are about, in this minute
}

// linesEach is how many lines a minute are about one node or address, linesAll about how many of these.
const (
	linesEach = 10
	linesAll  = 1000
)

// more says whether another line about somebody may be written.
func (t *told) more(about string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.lines == nil || now.Sub(t.began) >= time.Minute {
		t.began, t.lines = now, map[string]int{}
	}
	if _, known := t.lines[about]; !known && len(t.lines) >= linesAll {
		return false
	}
	t.lines[about]++
	return t.lines[about] <= linesEach
}

// cut keeps what others have written to a line's length.
func cut(text string) string { return text[:min(len(text), 300)] }
