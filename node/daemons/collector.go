package daemons

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/weftnet/weft/node/unixctl"
)

// Daemon is one that is asked.
type Daemon struct {
	// Name is that of its program or, for a server of OVN's databases, of its socket: ovs-vswitchd, ovsdb-server,
	// ovn-controller, ovn-northd, ovnnb_db, ovnsb_db or ovnsb_relay.
	Name string
	// Node is the node that it works for, "" for one that works for all of them.
	Node string
	// Sockets are those at which it may answer. The first of the list that answers is its own.
	Sockets []string
}

// Bounds of asking. Prometheus waits 10 s for an answer unless it is told otherwise.
const (
	// Fresh is how old an answer may be that is told again: daemons are asked no more often, whoever scrapes.
	Fresh = 10 * time.Second
	// patience is how long one daemon may take to answer at all, and again for all questions that follow.
	// patienceForAll is how long all of them may take.
	patience, patienceForAll = 2 * time.Second, 6 * time.Second
	// together is how many daemons have further questions at a time. All are asked together whether they answer: none
	// that hangs keeps another one waiting, which would be told as down without being asked.
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
	turns := semaphore.NewWeighted(together)
	var asked sync.WaitGroup
	for i, d := range daemons {
		told[i].daemon = d
		asked.Go(func() { told[i].ask(ctx, turns) })
	}
	asked.Wait()
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

// ask says whether the daemon answers, and has its turn of questions if it does.
func (t *teller) ask(ctx context.Context, turns *semaphore.Weighted) {
	socket, version, err := t.find(ctx)
	if err != nil {
		t.gauge(up, 0, t.daemon.Name, t.daemon.Node)
		return
	}
	t.gauge(up, 1, t.daemon.Name, t.daemon.Node)
	t.gauge(build, 1, t.daemon.Name, t.daemon.Node, unixctl.Version(version))
	if turns.Acquire(ctx, 1) != nil {
		return
	}
	defer turns.Release(1)
	t.question(ctx, socket)
}

// question puts all questions that are for the daemon. What one release of a daemon does not know is left out.
func (t *teller) question(ctx context.Context, socket string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, q := range questions[t.daemon.Name] {
		answer, err := unixctl.Call(ctx, socket, q.command, q.arguments...)
		if err == nil {
			q.read(t, answer)
		} else if q.instead != nil {
			q.instead(t)
		}
	}
}

// find is the socket that answers. All are asked together, since one that hangs takes all the time that there is.
func (t *teller) find(ctx context.Context) (socket, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type reply struct {
		version string
		err     error
	}
	replies := make([]chan reply, len(t.daemon.Sockets))
	for i, socket := range t.daemon.Sockets {
		replies[i] = make(chan reply, 1)
		go func() {
			version, err := unixctl.Call(ctx, socket, unixctl.VersionCommand)
			replies[i] <- reply{version, err}
		}()
	}
	err = errors.New("it has no control socket")
	for i, socket := range t.daemon.Sockets {
		r := <-replies[i]
		if r.err == nil {
			return socket, r.version, nil
		}
		err = r.err
	}
	return "", "", err
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
