package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/ctprobe"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
)

const (
	// probeLimit bounds the examination of the datapath, with what it waits for and its repetitions.
	probeLimit = 15 * time.Second
	probeRetry = time.Second
	// lookupWait is how long a chassis host's stream to br-int waits for it: less than the tunnel gives it.
	lookupWait = 3 * time.Second
)

// commitLookup is whether flows look a packet up before they commit its connection.
type commitLookup struct {
	setting string
	decided chan struct{} // closed when it is known

	mu       sync.Mutex
	examined bool
	needed   ctprobe.Answer

	found *prometheus.GaugeVec
	used  prometheus.GaugeFunc
}

func newCommitLookup(setting string) *commitLookup {
	l := &commitLookup{setting: setting, decided: make(chan struct{})}
	l.found = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weft_conntrack_lookup_found",
		Help: "1, with the answer of the agent's test whether the driver needs the lookup before a commit: " +
			"needed, unneeded or unknown. There is one series, with this answer. There is none before the test, nor if " +
			"conntrack-lookup is true. Only on Windows nodes.",
	}, []string{"answer"})
	l.used = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_conntrack_lookup",
		Help: "1 if flows look a packet up once more in connection tracking before they commit its connection to " +
			"the table (key conntrack-lookup), else 0. Only on Windows nodes.",
	}, func() float64 {
		if on, _ := l.state(); on {
			return 1
		}
		return 0
	})
	if setting != nodeconfig.LookupAuto {
		close(l.decided)
	}
	return l
}

func (l *commitLookup) collectors() []prometheus.Collector {
	if l.setting == "" {
		return nil
	}
	return []prometheus.Collector{l.found, l.used}
}

// state says whether there are lookups. As long as it is not known whether the datapath needs them there are: one that
// does would lose connections, and one that does not only has more to do.
func (l *commitLookup) state() (on, known bool) {
	switch l.setting {
	case nodeconfig.LookupAuto:
	case nodeconfig.LookupOn:
		return true, true
	default:
		return false, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.needed != ctprobe.Unneeded, l.examined
}

// await is the state as soon as it is known, or when the limit has passed.
func (l *commitLookup) await(ctx context.Context, limit time.Duration) (on bool) {
	select {
	case <-l.decided:
	case <-time.After(limit):
	case <-ctx.Done():
	}
	on, _ = l.state()
	return on
}

// AwaitLookup says whether an ovn-controller's flows need the lookup. It waits for the examination of the datapath, for
// a few seconds.
func (g *Gateway) AwaitLookup(ctx context.Context) bool { return g.lookup.await(ctx, lookupWait) }

// due says whether the datapath is to be examined: once, and not where there are lookups whatever it is.
func (l *commitLookup) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.examined && (l.setting == nodeconfig.LookupAuto || l.setting == nodeconfig.LookupOff)
}

// decide takes what was found.
func (l *commitLookup) decide(needed ctprobe.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.examined {
		return
	}
	l.examined, l.needed = true, needed
	l.found.WithLabelValues(needed.String()).Set(1)
	if l.setting == nodeconfig.LookupAuto {
		close(l.decided)
	}
}

// examineDatapath finds out, once, whether the datapath needs a lookup before connections are committed. There has to
// be an uplink: then the extension is enabled, and the bridge has its port.
func (g *Gateway) examineDatapath(ctx context.Context) {
	if !g.lookup.due() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, g.Times.Probe)
	defer cancel()
	answer, err := g.probeDatapath(limited)
	if ctx.Err() != nil { // the agent ends
		return
	}
	g.lookup.decide(answer)
	on, _ := g.lookup.state()
	level := slog.LevelInfo
	if answer == ctprobe.Unknown {
		level = slog.LevelWarn
	}
	slog.Log(ctx, level, "whether the datapath needs a lookup before connections are committed (conntrack-lookup)",
		"answer", answer, "lookup", on, "reason", err)
	if answer == ctprobe.Needed && !on {
		g.Health.Note(health.ConntrackLookup, conntrackLookupOff, errLookupOff)
	}
}

var errLookupOff = errors.New("conntrack-lookup is false, and Open vSwitch's driver takes packets of one connection " +
	"tracking zone for others in the next: pings between pods of this node fail, and connections by a ClusterIP " +
	"to an endpoint on the client's node; set conntrack-lookup to auto, and restart the agent")

// probeDatapath tries again until there is an answer or ctx ends, with the last reason before that.
func (g *Gateway) probeDatapath(ctx context.Context) (ctprobe.Answer, error) {
	bridge, dial, err := g.probedBridge()
	if err != nil {
		return ctprobe.Unknown, err
	}
	if err := g.Database.AwaitPorts(ctx, g.Times.Probe, bridge); err != nil {
		return ctprobe.Unknown, err
	}
	var reason error
	for {
		answer, err := g.probe(ctx, dial)
		if answer != ctprobe.Unknown {
			return answer, nil
		}
		if reason == nil || ctx.Err() == nil {
			reason = err
		}
		signal.Sleep(ctx, probeRetry)
		if ctx.Err() != nil {
			return ctprobe.Unknown, reason
		}
	}
}

// probedBridge is the uplink's bridge, whose own port is the host's interface. Only where the bridges' sockets are not
// known it is br-int: the vNIC of its port is disabled, as Open vSwitch leaves it (create_wmi_port of lib/wmi.c), and
// the extension drops a packet of a port that is not connected where it would ask ovs-vswitchd for a flow (OvsDoRecirc
// of Actions.c). So on Windows nothing would be known then.
func (g *Gateway) probedBridge() (name string, dial ctprobe.Dial, err error) {
	uplink := g.uplink.get().Host
	if socket, isUnix := strings.CutPrefix(g.Config.BridgeTarget(uplink), "unix:"); isUnix {
		return uplink, func(ctx context.Context) (net.Conn, error) { return local.DialSocket(ctx, socket) }, nil
	}
	if _, err := g.Config.OpenFlow(); err != nil {
		return "", nil, fmt.Errorf("ovs-openflow: %w", err)
	}
	return nodeconfig.IntegrationBridge,
		func(ctx context.Context) (net.Conn, error) { return openvswitch.DialSwitch(ctx, g.Config) }, nil
}
