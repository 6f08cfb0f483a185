package ctlookup

import (
	"encoding/binary"
	"fmt"
	"net"
)

// Conn is a switch's connection, which gets a lookup before each commit in what is written to it. What comes from the
// switch passes as it is: numbers of messages (xid) do not change, so errors and answers to barriers belong to what
// was sent, and ovn-controller asks for the statistics of flows by their matches and looks at no action.
//
// A message that cannot be read, or does not fit with the lookups, passes as it came and is told to refused: the switch
// refuses the one, and of the other some connections fail, which is better than none at all.
type Conn struct {
	net.Conn
	flows   flows
	partial []byte
	refused func(error)
}

// Over is the connection over one to a switch.
func Over(conn net.Conn, refused func(error)) *Conn {
	return &Conn{Conn: conn, flows: flows{committing: map[uint32]struct{}{}}, refused: refused}
}

// Write takes any part of messages; at most one message waits for its rest.
func (c *Conn) Write(p []byte) (int, error) {
	c.partial = append(c.partial, p...)
	var out []byte
	rest := c.partial
	for len(rest) >= messageHeader {
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length < messageHeader {
			return 0, fmt.Errorf("a message of %d bytes is not OpenFlow's", length)
		}
		if length > len(rest) {
			break
		}
		message, err := c.flows.message(rest[:length])
		if err != nil {
			c.refused(err)
		}
		out = append(out, message...)
		rest = rest[length:]
	}
	c.partial = append(c.partial[:0], rest...)
	if len(out) > 0 {
		if _, err := c.Conn.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// CloseWrite passes on that the controller sends no more.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close() // a named pipe has no such thing
}
