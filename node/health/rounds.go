package health

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Stuck is how long a round of one of the agent's loops may take before something is broken. Each has bounds of its
// own, of seconds; a call into the system that never returns has none.
const Stuck = 5 * time.Minute

// Rounds are what the agent's loops are at. A loop that waits for something to do is at nothing.
type Rounds struct {
	mu    sync.Mutex
	begun map[string]time.Time
}

func NewRounds() *Rounds { return &Rounds{begun: map[string]time.Time{}} }

// Do does a round of a loop.
func (r *Rounds) Do(loop string, round func()) {
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

// Overdue names a loop whose round has not ended in time.
func (r *Rounds) Overdue() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, loop := range slices.Sorted(maps.Keys(r.begun)) {
		if busy := time.Since(r.begun[loop]); busy > Stuck {
			return fmt.Errorf("%s: the same round has been under way for %s; restart the agent", loop, busy.Round(time.Second))
		}
	}
	return nil
}
