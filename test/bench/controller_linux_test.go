package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/bench/ovsdblog"
)

const metricsAddress = "127.0.0.1:9641"

// controller is the shipped binary at work, and the watch over it.
type controller struct {
	*process
	nb       *database
	api      *apiserver
	identity string

	mutex   sync.Mutex
	samples []sample
	err     error
	ended   chan struct{}
}

// sample is what can be seen of a controller without disturbing it.
type sample struct {
	at   time.Time
	size int64         // of the Northbound's log
	cpu  time.Duration // of the controller
}

const sampleEvery = 10 * time.Millisecond

var controllers int

func startController(b testing.TB, s *apiserver, nb *database, more ...string) *controller {
	b.Helper()
	controllers++
	s.forgetLease(b)
	s.rest(b)
	c := &controller{nb: nb, api: s, identity: fmt.Sprintf("bench-%d", controllers), ended: make(chan struct{})}
	args := append([]string{"controller", "--kubeconfig=" + s.kubeconfig, "--ovn-northbound=" + nb.remote,
		"--pod-cidrs=" + load.PodCIDR, "--service-cidrs=" + load.ServiceCIDR,
		"--metrics-address=" + metricsAddress, "--identity=" + c.identity}, more...)
	c.process = start(b, "weft", runDir(b, "weft"), filepath.Join(os.Getenv(sandboxDir), "weft"), args...)
	go c.watch()
	return c
}

func (c *controller) stop(b testing.TB) {
	b.Helper()
	close(c.ended)
	c.process.stop(b)
}

func (c *controller) watch() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		now := sample{at: time.Now()}
		var err error
		if now.cpu, err = c.cpu(); err == nil {
			now.size, err = c.nb.size()
		}
		c.mutex.Lock()
		c.samples, c.err = append(c.samples, now), err
		c.mutex.Unlock()
		if err != nil {
			return
		}
		select {
		case <-c.ended:
			return
		case <-tick.C:
		}
	}
}

// Quiet is a second in which the Northbound did not change and the controller hardly worked.
const (
	quietTime = time.Second
	quietCPU  = 25 * time.Millisecond
)

// lastBusy is when the controller last worked, if it is quiet by now.
func (c *controller) lastBusy() (at time.Time, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.err != nil {
		return at, c.err
	}
	if len(c.samples) == 0 {
		return at, errors.New("the watch has not begun")
	}
	last := c.samples[len(c.samples)-1]
	for i := len(c.samples) - 1; i >= 0; i-- {
		s := c.samples[i]
		if s.size != last.size || last.cpu-s.cpu > quietCPU {
			if last.at.Sub(s.at) < quietTime {
				break
			}
			return c.samples[i+1].at, nil
		}
	}
	return at, errors.New("the controller is still at work")
}

// result is what a controller did from a moment on until it had nothing left to do.
type result struct {
	lastRow      time.Duration // from the moment
	idle         time.Duration // from the moment: the annotations are written too
	lead         time.Duration // from the process's start
	cpu          time.Duration
	cpuLastRow   time.Duration // the part of it until the last row
	peak         int
	transactions int
	rows         int
}

// settle waits until the Northbound has what it should and the controller is quiet.
func (c *controller) settle(b testing.TB, from time.Time, cpuBefore time.Duration, want content) result {
	b.Helper()
	var r result
	var busy time.Time
	until(b, 3*time.Minute, "controller done", c.process, func(ctx context.Context) error {
		var err error
		if busy, err = c.lastBusy(); err != nil {
			return err
		}
		holder, since, err := c.api.lease(ctx)
		if err != nil {
			return err
		}
		if holder != c.identity {
			return fmt.Errorf("%q leads", holder)
		}
		r.lead = since.Sub(c.started)
		if err := c.nb.expect(want); err != nil {
			return err
		}
		if n := c.api.told(b); n != want.pods {
			return fmt.Errorf("of %d pods of %d their nodes can know the addresses", n, want.pods)
		}
		return nil
	})
	after, err := c.cpu()
	if err != nil {
		b.Fatal(err)
	}
	r.cpu, r.peak, r.idle = after-cpuBefore, c.peak(b), max(0, busy.Sub(from))
	r.lastRow, r.transactions, r.rows = written(c.nb.read(b), from)
	r.cpuLastRow = c.cpuAt(from.Add(r.lastRow)) - cpuBefore
	return r
}

// cpuAt is the processor time used until a moment.
func (c *controller) cpuAt(at time.Time) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	i, _ := slices.BinarySearchFunc(c.samples, at, func(s sample, at time.Time) int { return s.at.Compare(at) })
	return c.samples[min(i, len(c.samples)-1)].cpu
}

// written says what a log holds from a moment on.
func written(db *ovsdblog.Database, from time.Time) (last time.Duration, transactions, rows int) {
	from = from.Truncate(time.Millisecond) // as the log does
	for _, record := range db.Records {
		if record.Time.Before(from) {
			continue
		}
		transactions++
		last = record.Time.Sub(from)
		for _, change := range record.Changes {
			rows += change.Inserted + change.Modified + change.Deleted
		}
	}
	return last, transactions, rows
}

// effort is a phase of load and what everything that took part in it used of the processors, from
// the first request to the last answer.
type effort struct {
	load.Phase
	cpu time.Duration
}

// perform runs a phase of load; others are the processes that work on it beside the API server.
func perform(b testing.TB, s *apiserver, phase phase, others ...*process) effort {
	b.Helper()
	s.rest(b)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	all := append([]*process{s.etcd, s.kube}, others...)
	before := spent(b, all...)
	p, err := phase(ctx, s.api)
	if err != nil {
		b.Fatal(err)
	}
	return effort{p, spent(b, all...) - before}
}

// during runs a phase of load under a controller and waits for the controller.
func (c *controller) during(b testing.TB, phase phase, want content) (effort, result) {
	b.Helper()
	e := perform(b, c.api, phase, c.nb.server, c.process)
	return e, c.settle(b, e.Start, c.cpuAt(e.Start), want)
}

// profile keeps what a controller that was started with --profiling says of itself: the processor's
// profile of its first seconds, then memory.
func (c *controller) profile(b testing.TB, dir string) (wait func()) {
	b.Helper()
	fetch := func(ctx context.Context, path, file string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddress+path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, response.Status)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, file), text, 0o644)
	}
	until(b, 2*time.Minute, "profile of the controller", c.process, func(ctx context.Context) error {
		return fetch(ctx, "/healthz", "healthz.txt")
	})
	done := make(chan error, 1)
	go func() { done <- fetch(context.Background(), "/debug/pprof/profile?seconds=5", "cpu.pprof") }()
	return func() {
		err := <-done
		for _, file := range []string{"heap", "allocs", "goroutine", "mutex"} {
			if err == nil {
				err = fetch(context.Background(), "/debug/pprof/"+file, file+".pprof")
			}
		}
		if err == nil {
			err = fetch(context.Background(), "/metrics", "metrics.txt")
		}
		if err != nil {
			b.Errorf("profile of the controller: %v", err)
		}
	}
}
