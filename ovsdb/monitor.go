package ovsdb

import (
	"context"
	"errors"
	"fmt"
)

const replicaMonitor = "weft"

// monitor fills the replica, with what changed since the last session where the server knows.
func (c *Client) monitor(ctx context.Context, s *session) error {
	c.mu.Lock()
	request := c.request()
	since := c.since
	c.mu.Unlock()
	params := appendString(nil, c.config.Model.Name())
	params = append(append(params, `,"`+replicaMonitor+`",`...), request...)
	// The reader itself takes the answer, for updates may follow it at once.
	method := "monitor_cond_since"
	fill := func(result []byte) error { return c.filled(s, method, result) }
	_, err := s.call(ctx, method, append(params, `,"`+since+`"`...), fill)
	var unknown *OperationError
	if errors.As(err, &unknown) && unknown.Kind == "unknown method" {
		method = "monitor_cond"
		_, err = s.call(ctx, method, params, fill)
	}
	if err != nil {
		return fmt.Errorf("read the contents of %s: %w", c.config.Model.Name(), err)
	}
	return nil
}

// request lists the tables and columns to be replicated.
func (c *Client) request() []byte {
	b := []byte{'{'}
	for name, t := range c.cache.tables {
		if t.absent {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), `:{"columns":[`...)
		first := true
		for _, column := range t.columns {
			if column.absent {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendString(b, column.name)
		}
		b = append(b, `],"select":{"initial":true,"insert":true,"delete":true,"modify":true}}`...)
	}
	return append(b, '}')
}

// filled takes the answer to the request for a monitor.
func (c *Client) filled(s *session, method string, result []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.cause(); err != nil {
		return err
	}
	found, since, updates := false, zeroUUID, result
	if method == "monitor_cond_since" {
		scan := &scanner{text: result}
		scan.array(func(i int) {
			switch i {
			case 0:
				found = scan.boolean()
			case 1:
				since = scan.str()
			case 2:
				updates = scan.raw()
			default:
				scan.skip()
			}
		})
		if scan.err != nil {
			return fmt.Errorf("read the contents of %s: %w", c.config.Model.Name(), scan.err)
		}
	}
	if err := c.cache.update(updates, !found); err != nil {
		c.since = zeroUUID
		return err
	}
	c.since = since
	c.session = s
	c.wake()
	return nil
}

// notified takes what the server tells on its own.
func (c *Client) notified(s *session, method string, params []byte) error {
	var id, updates []byte
	since := ""
	scan := &scanner{text: params}
	scan.array(func(i int) {
		switch {
		case i == 0:
			id = scan.raw()
		case i == 1 && method == "update3":
			since = scan.str()
		case i == 1 && method != "update3" || i == 2:
			updates = scan.raw()
		default:
			scan.skip()
		}
	})
	if scan.err != nil {
		return fmt.Errorf("read the server's %s: %w", method, scan.err)
	}
	switch {
	case method == "update" && string(id) == `"`+serverMonitor+`"`:
		return c.judge(updates)
	case (method == "update2" || method == "update3") && string(id) == `"`+replicaMonitor+`"`:
		c.mu.Lock()
		defer c.mu.Unlock()
		// Once a session has ended the next one may have filled the replica.
		if err := s.cause(); err != nil {
			return err
		}
		if err := c.cache.update(updates, false); err != nil {
			c.since = zeroUUID // what the replica holds is in doubt: read it all again
			return err
		}
		if since != "" {
			c.since = since
		}
		c.wake()
		return nil
	case method == "monitor_canceled":
		return errors.New("the server stopped the monitor")
	}
	return nil
}
