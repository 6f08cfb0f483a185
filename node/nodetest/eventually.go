package nodetest

import (
	"testing"
	"time"
)

// patience is how many times longer a machine takes that runs other tests at the same time.
const patience = 6

// Eventually tries until try returns nil, and fails with its last error when an idle machine's limit has
// passed several times.
func Eventually(tb testing.TB, limit time.Duration, try func() error) {
	tb.Helper()
	limit *= patience
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
