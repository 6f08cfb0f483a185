package node

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// stuck is how long a round of one of the agent's loops may take before something is broken. Each has bounds of its
// own, of seconds; a call into the system that never returns has none.
const stuck = 5 * time.Minute

// rounds are what the agent's loops are at. A loop that waits for something to do is at nothing.
type rounds struct {
	mu    sync.Mutex
	begun map[string]time.Time
}

func newRounds() *rounds { return &rounds{begun: map[string]time.Time{}} }

// do does a round of a loop.
func (r *rounds) do(loop string, round func()) {
	r.mu.Lock()
	r.begun[loop] = time.Now()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.begun, loop)
	}()
	round()
}

// overdue names a loop whose round has not ended in time.
func (r *rounds) overdue() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, loop := range slices.Sorted(maps.Keys(r.begun)) {
		if busy := time.Since(r.begun[loop]); busy > stuck {
			return fmt.Errorf("%s: the same round has been under way for %s; restart the agent", loop, busy.Round(time.Second))
		}
	}
	return nil
}
