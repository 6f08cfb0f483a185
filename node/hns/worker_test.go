package hns

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metrics "github.com/prometheus/client_model/go"
)

func call(ctx context.Context, w *Worker, object string, f func() (string, error), late func(string, error)) (string,
	error) {
	return do(ctx, w, operation{"Call", object}, 0, f, late)
}

func TestOneCallAtATime(t *testing.T) {
	w := NewWorker(time.Minute, 3)
	var running, made atomic.Int32
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			answer, err := call(t.Context(), w, "x", func() (string, error) {
				defer running.Add(-1)
				if running.Add(1) > 1 {
					t.Error("two calls at the same time")
				}
				made.Add(1)
				return "yes", nil
			}, nil)
			if answer != "yes" || err != nil {
				t.Errorf("answer %q, error %v", answer, err)
			}
		})
	}
	callers.Wait()
	if made.Load() != 50 {
		t.Errorf("%d calls were made of 50", made.Load())
	}
}

func TestACallThatHangsHoldsUpOthersForItsDeadlineOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorker(10*time.Second, 3)
		release, late := make(chan struct{}), make(chan string, 1)
		started := make(chan struct{})
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := call(t.Context(), w, "stuck", func() (string, error) {
				close(started)
				<-release
				return "at last", nil
			}, func(answer string, err error) { late <- answer })
			var hung *HungError
			if !errors.As(err, &hung) || hung.Refused || !strings.Contains(err.Error(),
				"Call stuck was not answered within 10s") {
				t.Errorf("the call that hangs: %v", err)
			}
		})
		<-started
		begin := time.Now()
		answer, err := call(t.Context(), w, "other", func() (string, error) { return "served", nil }, nil)
		if answer != "served" || err != nil || time.Since(begin) != 10*time.Second {
			t.Errorf("the other call: %q, %v, after %v", answer, err, time.Since(begin))
		}
		callers.Wait()
		var counted metrics.Metric
		if err := w.abandoned.WithLabelValues("Call").Write(&counted); err != nil || w.Hung() != 1 ||
			counted.GetCounter().GetValue() != 1 {
			t.Errorf("%d calls hang, %v were counted, error %v", w.Hung(), &counted, err)
		}
		if err := w.Unanswered(); err == nil || !strings.Contains(err.Error(), "Call stuck is not answered; on the node: ") {
			t.Errorf("what hangs is told as %v", err)
		}
		close(release)
		if got := <-late; got != "at last" {
			t.Errorf("the late answer is %q", got)
		}
		if err := w.Unanswered(); err != nil {
			t.Error(err)
		}
		if w.Hung() != 0 {
			t.Errorf("%d calls hang after the answer", w.Hung())
		}
	})
}

func TestTooManyHungCallsAreAClearError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorker(time.Second, 2)
		release := make(chan struct{})
		for range 2 {
			_, err := call(t.Context(), w, "stuck", func() (string, error) { <-release; return "", nil }, nil)
			if err == nil {
				t.Fatal("a call that hangs returned")
			}
		}
		made := false
		_, err := call(t.Context(), w, "next", func() (string, error) { made = true; return "", nil }, nil)
		var hung *HungError
		if made || !errors.As(err, &hung) || !hung.Refused || !strings.Contains(err.Error(), "Restart-Service hns -Force") {
			t.Errorf("made %v, error %v", made, err)
		}
		close(release)
		synctest.Wait()
		if _, err := call(t.Context(), w, "next", func() (string, error) { return "", nil }, nil); err != nil {
			t.Errorf("after HNS has answered: %v", err)
		}
	})
}

func TestACallerWhoLeavesIsToldWhatHeWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorker(time.Minute, 2)
		release, started := make(chan struct{}), make(chan struct{})
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := call(t.Context(), w, "slow", func() (string, error) { close(started); <-release; return "", nil },
				nil); err != nil {
				t.Errorf("the slow call: %v", err)
			}
		})
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := call(ctx, w, "waits", func() (string, error) { t.Error("made"); return "", nil }, nil)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "busy with Call slow for 3s") {
			t.Errorf("the call that waited: %v", err)
		}
		close(release)
		callers.Wait()
		left, leave := context.WithCancel(t.Context())
		late := make(chan string, 1)
		_, err = call(left, w, "left", func() (string, error) { leave(); synctest.Wait(); return "nobody's", nil },
			func(a string, _ error) { late <- a })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the call whose caller left: %v", err)
		}
		if got := <-late; got != "nobody's" {
			t.Errorf("its answer went to nobody: %q", got)
		}
	})
}

// Answers, deadlines and callers who leave meet here in many orders.
func TestEachAnswerHasOneTaker(t *testing.T) {
	w := NewWorker(2*time.Millisecond, 1000)
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond+time.Hour*time.Duration(i%2))
			defer cancel()
			var late atomic.Int32
			answer, err := call(ctx, w, "x", func() (string, error) {
				time.Sleep(time.Duration(i%5) * time.Millisecond)
				return "yes", nil
			}, func(string, error) { late.Add(1) })
			if err == nil && answer != "yes" {
				t.Errorf("no error and answer %q", answer)
			}
			if err == nil && late.Load() != 0 {
				t.Error("an answer was taken twice")
			}
		})
	}
	callers.Wait()
}
