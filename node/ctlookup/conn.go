package ctlookup

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"golang.org/x/time/rate"

	"github.com/weftnet/weft/models/contract"
)

// Conn is a switch's connection, in which flows are changed as the package says. What comes from the switch passes as
// it is, except for the number of its meters and for packets that are to be logged. Numbers of messages (xid) do not
// change, so errors and answers to barriers belong to what was sent, and ovn-controller asks for the statistics of
// flows by their matches and looks at no action.
//
// A message that cannot be read, or does not fit with the lookups, passes as it came and is told to refused: the switch
// refuses the one, and of the other some connections fail, which is better than none at all. A flow that could lead a
// packet to a helper never passes.
type Conn struct {
	net.Conn
	flows   flows
	partial []byte
	refused func(error)
	from    *bufio.Reader
	message []byte // what is left of the one that is read
	lines   *rate.Limiter
}

// Changes are those that depend on the driver. The zero value is for one that needs no lookups.
type Changes struct {
	Lookups bool // before commits
	Flushes bool // single connections are forgotten, as the controller asks
	FTP     bool // packets of FTP and TFTP pass
}

// Over is the connection over one to a switch, with the changes that its driver needs.
func Over(conn net.Conn, changes Changes, refused func(error)) *Conn {
	return &Conn{Conn: conn, flows: newFlows(changes), refused: refused, from: bufio.NewReader(conn),
		lines: rate.NewLimiter(contract.ACLLogRate, contract.ACLLogRate)}
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

// Read returns what comes from the switch, by whole messages. Packets for more lines in a log than there are to be in a
// second are left out.
func (c *Conn) Read(p []byte) (int, error) {
	for len(c.message) == 0 {
		header, err := c.from.Peek(messageHeader)
		if err != nil {
			return 0, err
		}
		length := int(binary.BigEndian.Uint16(header[2:]))
		if length < messageHeader {
			return 0, fmt.Errorf("a message of %d bytes is not OpenFlow's", length)
		}
		c.message = make([]byte, length)
		if _, err := io.ReadFull(c.from, c.message); err != nil {
			c.message = nil
			return 0, err
		}
		boundMeters(c.message)
		if logs(c.message) && !c.lines.Allow() {
			c.message = nil
		}
	}
	n := copy(p, c.message)
	c.message = c.message[n:]
	return n, nil
}

// CloseWrite passes on that the controller sends no more.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close() // a named pipe has no such thing
}
