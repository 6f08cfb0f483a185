package nodetest

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what has to happen. A machine that runs other tests at the same time may leave
// a process without a processor for many seconds.
const Patience = 2 * time.Minute

// slower is how many times longer such a machine takes.
const slower = 6

// Eventually tries until try returns nil, and fails with its last error when an idle machine's limit has
// passed several times, and Patience as well.
func Eventually(tb testing.TB, limit time.Duration, try func() error) {
	tb.Helper()
	limit = max(slower*limit, Patience)
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %v", limit, err)
		}
		<-time.After(pause)
	}
}
