package hits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/weftnet/weft/models/contract"
)

// Dial opens a stream to the counters of a node's agent, whose certificate has the node's name.
type Dial func(ctx context.Context, node Node) (net.Conn, error)

// A reply has at most these bytes for each cookie, and in all without any.
const (
	replyOfCookie = 128
	replyOfNone   = 4096
)

// counters asks an agent once.
func (d Dial) counters(ctx context.Context, node Node, cookies []uint32) ([]contract.Counter, error) {
	conn, err := d(ctx, node)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(contract.CountersRequest{Cookies: cookies}); err != nil {
		return nil, fmt.Errorf("ask %s: %w", node.Address, errors.Join(err, ctx.Err()))
	}
	var reply contract.CountersReply
	if err := json.NewDecoder(io.LimitReader(conn, int64(replyOfNone+replyOfCookie*len(cookies)))).Decode(
		&reply); err != nil {
		return nil, fmt.Errorf("read what %s answers: %w", node.Address, errors.Join(err, ctx.Err()))
	}
	if reply.Error != "" {
		return nil, fmt.Errorf("its agent says: %.500q", reply.Error)
	}
	return reply.Counters, nil
}
