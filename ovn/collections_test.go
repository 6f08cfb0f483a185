package ovn

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// TestPercentOfASmallHeap: the growth is bounded, and a heap that is not small grows as ever.
func TestPercentOfASmallHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 6 << 20: 200, 12 << 20: 100, 500 << 20: 100} {
		if got := percentFor(live); got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
	}
}

// TestCollectionsBecomeAsEver: once much is live; and GOGC decides if it is set.
func TestCollectionsBecomeAsEver(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(-1)
		debug.SetGCPercent(now)
		return now
	}
	usual := percent()
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	debug.SetGCPercent(50)
	collectSeldom()
	if now := percent(); now != 50 {
		t.Errorf("it is %d where GOGC is 50", now)
	}
	debug.SetGCPercent(usualPercent)
	collectSeldom()
	if now := percent(); now != mostPercent {
		t.Errorf("it begins with %d", now)
	}
	much := make([]byte, 2*leastGrowth)
	nodetest.Eventually(t, time.Minute, func() error {
		runtime.GC()
		if now := percent(); now != usualPercent {
			return fmt.Errorf("it is %d when %d bytes are live", now, len(much))
		}
		return nil
	})
	runtime.KeepAlive(much)
}
