package daemons

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/weftnet/weft/node/unixctl"
)

// Daemon is one that is asked.
type Daemon struct {
	// Name is that of its program or, for a server of OVN's databases, of its socket: ovs-vswitchd, ovsdb-server,
	// ovn-controller, ovn-northd, ovnnb_db, ovnsb_db or ovnsb_relay.
	Name string
	// Node is the node that it works for, "" for one that works for all of them.
	Node string
	// Sockets are those at which it may answer. The first that answers is its own.
	Sockets []string
}

// Bounds of asking. Prometheus waits 10 s for an answer unless it is told otherwise.
const (
	// Fresh is how old an answer may be that is told again: daemons are asked no more often, whoever scrapes.
	Fresh = 10 * time.Second
	// patience is how long one daemon may take for all questions, and patienceForAll how long all of them.
	patience, patienceForAll = 2 * time.Second, 6 * time.Second
	// together is how many daemons are asked at a time.
	together = 16
)

// Collector asks daemons when it is scraped.
type Collector struct {
	daemons func() []Daemon
	now     func() time.Time

	mu      sync.Mutex
	asked   time.Time
	answers []prometheus.Metric
}

// New asks the daemons that there are then.
func New(daemons func() []Daemon) *Collector { return &Collector{daemons: daemons, now: time.Now} }

// Describe is part of [prometheus.Collector].
func (*Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		out <- d
	}
}

// Collect is part of [prometheus.Collector].
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); c.asked.IsZero() || now.Sub(c.asked) >= Fresh {
		c.asked, c.answers = now, ask(c.daemons())
	}
	for _, m := range c.answers {
		out <- m
	}
}

// ask asks all daemons.
func ask(daemons []Daemon) []prometheus.Metric {
	ctx, cancel := context.WithTimeout(context.Background(), patienceForAll)
	defer cancel()
	told := make([]teller, len(daemons))
	var group errgroup.Group
	group.SetLimit(together)
	for i, d := range daemons {
		told[i].daemon = d
		group.Go(func() error {
			told[i].ask(ctx)
			return nil
		})
	}
	_ = group.Wait() // they return no errors
	var all []prometheus.Metric
	for _, t := range told {
		all = append(all, t.metrics...)
	}
	return all
}

// teller has what one daemon tells.
type teller struct {
	daemon  Daemon
	metrics []prometheus.Metric
	told    map[string]struct{} // descriptions with their labels
}

// ask puts all questions that are for the daemon. What one release of a daemon does not know is left out.
func (t *teller) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	socket, version, err := t.find(ctx)
	if err != nil {
		t.gauge(up, 0, t.daemon.Name, t.daemon.Node)
		return
	}
	t.gauge(up, 1, t.daemon.Name, t.daemon.Node)
	t.gauge(build, 1, t.daemon.Name, t.daemon.Node, unixctl.Version(version))
	for _, q := range questions[t.daemon.Name] {
		answer, err := unixctl.Call(ctx, socket, q.command, q.arguments...)
		if err == nil {
			q.read(t, answer)
		} else if q.instead != nil {
			q.instead(t)
		}
	}
}

// find is the socket that answers.
func (t *teller) find(ctx context.Context) (socket, version string, err error) {
	err = errors.New("it has no control socket")
	for _, socket = range t.daemon.Sockets {
		if version, err = unixctl.Call(ctx, socket, unixctl.VersionCommand); err == nil {
			break
		}
	}
	return socket, version, err
}

func (t *teller) gauge(d *prometheus.Desc, value float64, labels ...string) {
	t.tell(d, prometheus.GaugeValue, value, labels)
}

func (t *teller) counter(d *prometheus.Desc, value float64, labels ...string) {
	t.tell(d, prometheus.CounterValue, value, labels)
}

// tell takes the first of several values that an answer has under one name.
func (t *teller) tell(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	key := d.String() + strings.Join(labels, "\x00")
	if _, twice := t.told[key]; twice {
		return
	}
	if t.told == nil {
		t.told = map[string]struct{}{}
	}
	t.told[key] = struct{}{}
	t.metrics = append(t.metrics, prometheus.MustNewConstMetric(d, kind, value, labels...))
}
