package connections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/flows"
	"github.com/weftnet/weft/ovn/hits"
)

const (
	// agentTime is how long an agent may take. ovs-vswitchd lists 100,000 entries in a second or two.
	agentTime = 12 * time.Second
	// maxRecord is how long a record is at most, on average, in bytes.
	maxRecord = 512
)

// ask reads what an agent tells, at most so many entries. omitted is how many more there are.
func ask(ctx context.Context, dial hits.Dial, node hits.Node, most int) (entries []flows.Entry, omitted int,
	err error) {
	if node.Address == "" {
		return nil, 0, hits.ErrNoAddress
	}
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	conn, err := dial(ctx, node)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	records := json.NewDecoder(io.LimitReader(conn, maxRecord*(contract.MaxConnections+1)))
	for {
		var record contract.ConnectionRecord
		if err := records.Decode(&record); err != nil {
			return nil, 0, fmt.Errorf("read what %s answers: %w", node.Address, errors.Join(err, ctx.Err()))
		}
		c, end := record.Connection, record.End
		switch {
		case end != nil && end.Error != "":
			return nil, 0, fmt.Errorf("its agent says: %.500q", end.Error)
		case end != nil:
			return entries, omitted + max(end.Omitted, 0), nil
		case c == nil || !c.Original.Source.IsValid() || !c.Original.Destination.IsValid() || !c.Reply.Source.IsValid() ||
			!c.Reply.Destination.IsValid():
			return nil, 0, fmt.Errorf("%s answers with a record that is neither a connection nor an end", node.Address)
		case len(entries) == most:
			omitted++
		default:
			entries = append(entries, flows.Entry{Node: node.Name, Connection: *c})
		}
	}
}
