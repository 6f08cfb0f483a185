package signal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/models/signal"
)

// Signals that nobody has received are one, and one that comes after it was received is another.
func TestSignalsAreOneUntilTheyAreReceived(t *testing.T) {
	s := signal.New()
	count := func() (n int) {
		for {
			select {
			case <-s:
				n++
			default:
				return n
			}
		}
	}
	if n := count(); n != 0 {
		t.Errorf("%d signals before the first", n)
	}
	for range 2 {
		s.Set()
		s.Set()
		if n := count(); n != 1 {
			t.Errorf("two signals are received as %d", n)
		}
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		signal.Sleep(t.Context(), time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		signal.Sleep(ctx, time.Hour)
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
