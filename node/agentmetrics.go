package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// metricsTime bounds how long a reader of metrics may take.
const metricsTime = 5 * time.Second

// openMetrics gives a connection on which the agent's metrics are, and which then ends.
func (h *agentTunnel) openMetrics(context.Context) (net.Conn, error) {
	theirs, ours := net.Pipe()
	go func() {
		defer ours.Close()
		err := ours.SetDeadline(time.Now().Add(metricsTime))
		if err = errors.Join(err, writeMetrics(ours, h.metrics)); err != nil {
			slog.Warn("the agent's metrics are not told", "error", err)
		}
	}()
	return theirs, nil
}

// writeMetrics writes metrics in Prometheus' text format.
func writeMetrics(w io.Writer, metrics prometheus.Gatherer) error {
	families, err := metrics.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	encoder := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return fmt.Errorf("write metric %s: %w", family.GetName(), err)
		}
	}
	return nil
}
