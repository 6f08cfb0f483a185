package ovsdbtest

import (
	"context"
	"encoding/json"
	"net"
	"sync"

	"github.com/weftnet/weft/ovsdb"
)

// oneAtATime stands between a client and a server in memory, which answers the requests of a connection
// side by side and does not keep its answers apart (cenkalti/rpc2 writes them without a lock): a request
// waits until the one before has its answer. The client's answers to the server's own requests do not.
type oneAtATime struct {
	server, client net.Conn

	mu       sync.Mutex
	underWay bool
	waiting  [][]byte
}

func dialOneAtATime(ctx context.Context, endpoint ovsdb.Endpoint) (net.Conn, error) {
	server, err := (&net.Dialer{}).DialContext(ctx, endpoint.Scheme, endpoint.Address)
	if err != nil {
		return nil, err
	}
	outer, inner := net.Pipe()
	o := &oneAtATime{server: server, client: inner}
	go func() {
		defer server.Close()
		each(inner, o.fromClient)
	}()
	go func() {
		defer inner.Close()
		each(server, o.fromServer)
	}()
	return outer, nil
}

func (o *oneAtATime) fromClient(text []byte, isRequest bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if isRequest && o.underWay {
		o.waiting = append(o.waiting, text)
		return nil
	}
	o.underWay = o.underWay || isRequest
	_, err := o.server.Write(text)
	return err
}

func (o *oneAtATime) fromServer(text []byte, isRequest bool) error {
	if _, err := o.client.Write(text); err != nil || isRequest {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.underWay = len(o.waiting) > 0
	if !o.underWay {
		return nil
	}
	next := o.waiting[0]
	o.waiting = o.waiting[1:]
	_, err := o.server.Write(next)
	return err
}

// each reads JSON-RPC messages until something fails. A request, or a notification, has a method; an
// answer has none.
func each(from net.Conn, message func(text []byte, isRequest bool) error) {
	for messages := json.NewDecoder(from); ; {
		var text json.RawMessage
		var read struct {
			Method *string `json:"method"`
		}
		if messages.Decode(&text) != nil || json.Unmarshal(text, &read) != nil || message(text, read.Method != nil) != nil {
			return
		}
	}
}
