package ctprobe

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"github.com/weftnet/weft/node/openflow"
)

// session is a connection to a bridge, until its context ends.
type session struct {
	conn   net.Conn
	from   *bufio.Reader
	number uint32 // of the last message
	ctx    context.Context
	stop   func() bool
}

func open(ctx context.Context, dial Dial) (*session, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, from: bufio.NewReader(conn), ctx: ctx}
	s.stop = context.AfterFunc(ctx, func() { conn.Close() })
	if _, err := conn.Write(openflow.Message(openflow.Hello, 0)); err != nil {
		s.close()
		return nil, s.explain(err)
	}
	return s, nil
}

func (s *session) close() {
	s.stop()
	s.conn.Close()
}

// explain prefers the end of the context to what it has done to the connection.
func (s *session) explain(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// do sends messages, and returns the switch's answers when it has done all of them. The first that it refuses is an
// error.
func (s *session) do(messages ...[]byte) (answers [][]byte, err error) {
	first := s.number + 1
	var all []byte
	for _, m := range append(messages, openflow.Message(openflow.BarrierRequest, 0)) {
		m = slices.Clone(m)
		s.number++
		binary.BigEndian.PutUint32(m[4:], s.number)
		all = append(all, m...)
	}
	if _, err := s.conn.Write(all); err != nil {
		return nil, s.explain(err)
	}
	for {
		m, err := openflow.Read(s.from)
		if err != nil {
			return nil, s.explain(err)
		}
		ours := openflow.Number(m) >= first && openflow.Number(m) <= s.number
		switch {
		case m[1] == openflow.Error && ours:
			return nil, fmt.Errorf("message %d of %d: %w", openflow.Number(m)-first+1, len(messages), openflow.Refusal(m))
		case m[1] == openflow.Error: // such as to a hello of no version that the switch takes
			return nil, openflow.Refusal(m)
		case m[1] == openflow.BarrierReply && openflow.Number(m) == s.number:
			return answers, nil
		case m[1] == openflow.MultipartReply && ours:
			answers = append(answers, m)
		}
	}
}
