package hns

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/models/contract"
)

// Worker makes the calls of HNS, one at a time. A call that has not answered by its deadline is left
// to itself: the next call's turn begins, and its answer, should one come, goes to whoever has to
// clean up. Calls cannot be cancelled, so their number is bounded: beyond it nothing is tried any more.
type Worker struct {
	deadline time.Duration
	maxHung  int
	turn     chan struct{} // holds one token while no call is running

	mu      sync.Mutex
	running operation
	since   time.Time
	hung    map[*handover]hungCall

	seconds   *prometheus.HistogramVec
	abandoned *prometheus.CounterVec
	stuck     prometheus.GaugeFunc
}

// operation names a call and its object, for people.
type operation struct{ call, object string }

func (o operation) String() string {
	if o.object == "" {
		return o.call
	}
	return o.call + " " + o.object
}

// hungCall is one whose deadline is over.
type hungCall struct {
	operation
	since time.Time
}

// HungError: HNS did not answer a call in time, or does not answer so many that none was made.
type HungError struct {
	Operation string
	After     time.Duration
	// Refused: the call was not made, since Hung others have not been answered yet.
	Refused bool
	Hung    int
}

func (e *HungError) Error() string {
	if e.Refused {
		return fmt.Sprintf("HNS hangs: %s was not tried, since %d earlier calls are unanswered; %s", e.Operation, e.Hung,
			contract.RestartHNS)
	}
	return fmt.Sprintf("HNS hangs: %s was not answered within %v", e.Operation, e.After)
}

// Timeout marks the error as one that time may heal.
func (e *HungError) Timeout() bool { return true }

// NewWorker makes calls with a deadline, and none while maxHung earlier ones are unanswered.
func NewWorker(deadline time.Duration, maxHung int) *Worker {
	w := &Worker{
		deadline: deadline, maxHung: maxHung, turn: make(chan struct{}, 1), hung: map[*handover]hungCall{},
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weft_hns_call_seconds", Help: "Seconds of the calls of HNS that were answered, by call and result.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60},
		}, []string{"call", "result"}),
		abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_hns_hung_calls_total", Help: "Calls of HNS that were not answered within their deadline.",
		}, []string{"call"}),
	}
	w.stuck = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_hns_hung_calls", Help: "Calls of HNS whose deadline is over and that are still not answered.",
	}, func() float64 { return float64(w.Hung()) })
	w.turn <- struct{}{}
	return w
}

// Metrics of the worker's calls.
func (w *Worker) Metrics() []prometheus.Collector {
	return []prometheus.Collector{w.seconds, w.abandoned, w.stuck}
}

// Hung is the number of calls whose deadline is over and that are still not answered.
func (w *Worker) Hung() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hung)
}

// Unanswered is nil while no deadline is over. Otherwise it names the call that has waited longest, so that the text
// stays the same as long as HNS hangs.
func (w *Worker) Unanswered() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.hung) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Values(w.hung)), func(a, b hungCall) int {
		return a.since.Compare(b.since)
	})
	return fmt.Errorf("HNS hangs: %s is not answered; %s", first, contract.RestartHNS)
}

// handover decides once who gets a call's answer: its caller, or nobody any more.
type handover struct{ decided atomic.Bool }

func (h *handover) decide() bool { return h.decided.CompareAndSwap(false, true) }

type answer[T any] struct {
	value T
	err   error
}

// do makes one call. When its caller has gone before the answer came, because of ctx or of the
// deadline (0: the worker's own), the answer goes to orphaned, which may be nil.
func do[T any](ctx context.Context, w *Worker, op operation, deadline time.Duration, call func() (T, error),
	orphaned func(T, error)) (T, error) {
	var none T
	if deadline == 0 {
		deadline = w.deadline
	}
	if err := w.begin(ctx, op); err != nil {
		return none, err
	}
	turn := &handover{}   // the worker's next turn begins with the answer or the deadline
	caller := &handover{} // the caller waits for the answer, the deadline or ctx
	answered, expired := make(chan answer[T], 1), make(chan struct{})
	timer := time.AfterFunc(deadline, func() {
		if turn.decide() {
			w.abandon(turn, op, deadline)
			close(expired)
		}
	})
	go func() {
		start := time.Now()
		value, err := call()
		w.observe(op, err, time.Since(start))
		if timer.Stop(); turn.decide() {
			w.end()
		} else {
			w.forget(turn, op, time.Since(start))
		}
		if caller.decide() {
			answered <- answer[T]{value, err}
		} else if orphaned != nil {
			orphaned(value, err)
		}
	}()
	var gone error
	select {
	case a := <-answered:
		return a.value, a.err
	case <-expired:
		gone = &HungError{Operation: op.String(), After: deadline}
	case <-ctx.Done():
		gone = fmt.Errorf("%s: %w", op, ctx.Err())
	}
	if !caller.decide() { // the answer came at the same moment
		a := <-answered
		return a.value, a.err
	}
	return none, gone
}

// begin waits for the worker's turn.
func (w *Worker) begin(ctx context.Context, op operation) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	select {
	case <-w.turn:
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Errorf("%s waits for HNS, which has been busy with %s for %v: %w", op, w.running,
			time.Since(w.since).Round(time.Millisecond), ctx.Err())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.hung) >= w.maxHung {
		w.turn <- struct{}{}
		return &HungError{Operation: op.String(), Refused: true, Hung: len(w.hung)}
	}
	w.running, w.since = op, time.Now()
	return nil
}

func (w *Worker) end() { w.turn <- struct{}{} }

func (w *Worker) abandon(call *handover, op operation, after time.Duration) {
	w.mu.Lock()
	w.hung[call] = hungCall{op, time.Now()}
	hung := len(w.hung)
	w.mu.Unlock()
	w.abandoned.WithLabelValues(op.call).Inc()
	slog.Error("HNS does not answer: the call is left to itself", "call", op.call, "hns-object", op.object, "after", after,
		"unanswered", hung)
	w.end()
}

func (w *Worker) forget(call *handover, op operation, took time.Duration) {
	w.mu.Lock()
	delete(w.hung, call)
	w.mu.Unlock()
	slog.Warn("HNS has answered a call that was given up", "call", op.call, "hns-object", op.object, "after", took)
}

func (w *Worker) observe(op operation, err error, took time.Duration) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	w.seconds.WithLabelValues(op.call, result).Observe(took.Seconds())
}
