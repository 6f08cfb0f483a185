package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// samples are metrics in Prometheus's text format, by name and labels as they stand there:
// `weft_tunnel_streams{target="weft-ovsdb/1"}`.
type samples map[string]float64

func parseSamples(text string) (samples, error) {
	found := samples{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			return nil, fmt.Errorf("%q is no metric", line)
		}
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no metric: %w", line, err)
		}
		found[line[:end]] = value
	}
	return found, nil
}

// of lists a metric's samples that are not 0 by the value of their only label, sorted.
func (s samples) of(metric string) (labels []string, sum float64) {
	for name, value := range s {
		label, isIt := strings.CutPrefix(name, metric+"{")
		if !isIt || value == 0 {
			continue
		}
		_, label, _ = strings.Cut(label, `="`)
		labels = append(labels, strings.TrimSuffix(label, `"}`))
		sum += value
	}
	slices.Sort(labels)
	return labels, sum
}

// metricsReader asks the agent for its metrics; errNotRunning.
type metricsReader interface {
	Samples(ctx context.Context) (samples, error)
}

func (a localAgent) Samples(ctx context.Context) (samples, error) {
	response, err := a.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return nil, err
	}
	return parseSamples(string(text))
}

// The kinds of streams that a chassis host has open while it serves a node.
const streamKinds = 2

// checkChassisHost: the node's flows come from a chassis host, which dials the agent.
func checkChassisHost(ctx context.Context, config Config, agent metricsReader) []Finding {
	const s = subject("chassis-host")
	if !config.Hosted {
		return s.ok("not used: the node runs its own ovn-controller")
	}
	found, err := agent.Samples(ctx)
	if errors.Is(err, errNotRunning) {
		return s.unknown("", "the agent does not run: no chassis host can reach this node")
	}
	if err != nil {
		return s.unknown("", "the agent's metrics: %v", err)
	}
	streams, number := found.of("weft_tunnel_streams")
	reasons, refused := found.of("weft_tunnel_refused_total")
	if len(streams) >= streamKinds {
		return s.ok("it has %.0f streams open, to %s", number, strings.Join(streams, " and "))
	}
	text := "no chassis host is connected"
	if len(streams) > 0 {
		text = "the chassis host has a stream to " + streams[0] + " only"
	}
	if refused > 0 {
		return s.failed("see the agent's log for the names in the certificates that were refused",
			"%s; the agent has refused %.0f connections: %s", text, refused, strings.Join(reasons, ", "))
	}
	return s.failed("see that `weft chassis` runs on a Linux machine (in a cluster with zones: its key zone is the zone "+
		"of this node), that its log names this node, and that it reaches "+config.TunnelAddress+" through the firewalls",
		"%s, and none was refused", text)
}

// checkHNSCalls: calls that never come back are a known disease of HNS (antrea 4702, 650).
func checkHNSCalls(ctx context.Context, agent metricsReader) []Finding {
	const s = subject("hns-calls")
	found, err := agent.Samples(ctx)
	if errors.Is(err, errNotRunning) {
		return s.unknown("", "the agent does not run")
	}
	if err != nil {
		return s.unknown("", "the agent's metrics: %v", err)
	}
	hung, counted := found["weft_hns_hung_calls"]
	calls, ever := found.of("weft_hns_hung_calls_total")
	switch {
	case !counted:
		return s.unknown("", "the agent does not count them")
	case hung > 0:
		return s.failed(contract.RestartHNS, "HNS has not answered %.0f of the agent's calls", hung)
	case ever > 0:
		return s.warning("update Windows; see the agent's log for when it was",
			"HNS was too slow for %.0f of the agent's calls (%s), and has answered since", ever, strings.Join(calls, ", "))
	}
	return s.ok("HNS has answered every call of the agent in time")
}
