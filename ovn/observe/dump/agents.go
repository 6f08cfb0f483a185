package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/hits"
	"github.com/weftnet/weft/ovn/observe/redact"
)

const (
	// parallel is how many agents are asked at a time.
	parallel = 64
	// agentTime is how long one of them may take.
	agentTime = 5 * time.Second
	// maxMetrics bounds what one of them may say, in bytes.
	maxMetrics = 2 << 20
)

// Agents writes the metrics of the agents of nodes. An agent that does not answer is a record, and the rest goes on.
func Agents(ctx context.Context, nodes []hits.Node, dial hits.Dial, w *Writer) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, node := range nodes {
		group.Go(func() error {
			record := api.DumpRecord{Node: node.Name}
			text, err := metricsOf(ctx, node, dial)
			if err != nil {
				record.Error = err.Error()
			} else {
				record.Metrics = redact.Text(text)
			}
			return w.Write(record)
		})
	}
	return group.Wait()
}

// metricsOf reads what an agent says until it ends the stream.
func metricsOf(ctx context.Context, node hits.Node, dial hits.Dial) (string, error) {
	if node.Address == "" {
		return "", hits.ErrNoAddress
	}
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	conn, err := dial(ctx, node)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	text, err := io.ReadAll(io.LimitReader(conn, maxMetrics+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read what %s answers: %w", node.Address, errors.Join(err, ctx.Err()))
	case len(text) > maxMetrics:
		return "", fmt.Errorf("%s answers with more than %d bytes", node.Address, maxMetrics)
	}
	return string(text), nil
}
