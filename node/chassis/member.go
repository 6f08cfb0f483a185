//go:build linux

package chassis

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/node/tunnel"
	"github.com/weftnet/weft/node/unixctl"
)

// member is a node that this host holds: its run directory, its streams and its ovn-controller. It
// lives within one term.
type member struct {
	node
	term  *tenure.Term
	lease *coordinationv1.Lease // as this host has taken it

	config      Config
	credentials tunnel.Credentials
	runDir      *runDir
	spawner     *spawner
	metrics     *metrics
	log         *slog.Logger
	report      func(reason *reasons.Event, message string)
	guard       *guard

	leaving chan struct{} // closed to end it gently
	once    sync.Once
	ctx     context.Context // within the term's
	cancel  context.CancelFunc
	ended   chan struct{} // closed when nothing of it is left
	status  status
}

// start begins its life.
func (m *member) start() {
	m.leaving, m.ended = make(chan struct{}), make(chan struct{})
	m.ctx, m.cancel = context.WithCancel(m.term)
	m.status.begin(m.address)
	go func() {
		defer close(m.ended)
		defer m.metrics.forget(m.name)
		defer m.cancel()
		m.live()
	}()
}

// leave ends it gently and returns when it has ended.
func (m *member) leave() {
	m.once.Do(func() { close(m.leaving) })
	<-m.ended
}

// abandon ends it at once, since another host may hold the node.
func (m *member) abandon() {
	m.cancel()
	<-m.ended
}

// over: not a byte may pass any more.
func (m *member) over() bool { return m.ctx.Err() != nil || m.term.Over() }

func (m *member) isLeaving() bool {
	select {
	case <-m.leaving:
		return true
	default:
		return m.over()
	}
}

const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	// ranWell is after how long a run counts as good, and its end as the first trouble.
	ranWell = time.Minute
)

// live runs ovn-controller again and again.
func (m *member) live() {
	backoff := firstBackoff
	for first := true; !m.isLeaving(); first = false {
		if !first {
			m.metrics.restarts.WithLabelValues(m.name).Inc()
		}
		begun := time.Now()
		err := m.run()
		if m.isLeaving() {
			break
		}
		if time.Since(begun) >= ranWell {
			backoff = firstBackoff
		}
		pause := time.Duration((0.8 + 0.4*rand.Float64()) * float64(backoff))
		m.log.Warn("ovn-controller has ended; starting it again", "error", err, "pause", pause.Round(time.Millisecond))
		if m.status.rest(err, time.Now()) {
			m.report(chassisControllerEnded, fmt.Sprintf("ovn-controller: %v; running pods keep their flows, new ones wait "+
				"until it works again", err))
		}
		timer := time.NewTimer(pause)
		select {
		case <-m.leaving:
		case <-m.ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		backoff = min(2*backoff, lastBackoff)
	}
	if err := os.RemoveAll(m.runDir.folder(m.name)); err != nil {
		m.log.Warn("the node's run directory stays", "error", err)
	}
}

// run is one life of ovn-controller, with sockets of its own. It returns when nothing of it is left.
func (m *member) run() error {
	folder, err := m.runDir.make(m.name)
	if err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	life, end := context.WithCancel(m.ctx)
	r := &relay{member: m}
	defer r.wait.Wait()
	defer end()
	if err := r.listen(life, folder); err != nil {
		return err
	}
	process, err := m.config.startController(m.spawner, m.runDir.lock, m.name, folder, m.log)
	if err != nil {
		return fmt.Errorf("start %s: %w", m.config.OVNController, err)
	}
	m.status.run()
	r.wait.Go(func() { m.watch(life, process) })
	select {
	case <-process.exited:
		return process.end()
	case <-m.ctx.Done():
		process.kill()
		return errTermOver
	case <-m.leaving:
		process.leave(m.ctx, m.log)
		return nil
	}
}

const (
	watchEvery = time.Second
	// watchStart is the pause while it is not connected yet.
	watchStart = 200 * time.Millisecond
	// deaf is how long an ovn-controller with a database may leave its control socket unanswered.
	deaf = time.Minute
)

// watch asks ovn-controller how it is, until ctx ends.
func (m *member) watch(ctx context.Context, process *controller) {
	heard, pause := time.Now(), watchStart
	for {
		signal.Sleep(ctx, pause)
		if ctx.Err() != nil {
			return
		}
		question, cancel := context.WithTimeout(ctx, watchEvery)
		answer, err := unixctl.Call(question, process.socket, "connection-status")
		cancel()
		answer = strings.TrimSpace(answer)
		now := time.Now()
		// It answers nobody before it has read the database.
		if err == nil || !m.status.hasDatabase(now, deaf) {
			heard = now
		}
		if now.Sub(heard) >= deaf {
			m.log.Error("ovn-controller does not answer and is killed", "for", deaf)
			process.blame(fmt.Errorf("it did not answer for %s and was killed", deaf))
			process.kill()
			return
		}
		m.status.southbound(answer, err)
		if reason, message := m.status.complaint(now); reason != nil {
			m.report(reason, message)
		}
		if pause = watchStart; answer == "connected" {
			pause = watchEvery
		}
	}
}
