package southbound

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRemoteChassisAreLookedAtWithPauses: however much changes, and whatever fails.
func TestRemoteChassisAreLookedAtWithPauses(t *testing.T) {
	always := make(chan struct{})
	close(always)
	for _, c := range []struct {
		what    string
		changed chan struct{}
		look    func(n int) (time.Duration, error)
		pauses  []time.Duration // from look to look; there is none after the last
	}{
		{"nothing changes", nil, func(int) (time.Duration, error) { return 0, nil }, nil},
		{"something changes always", always, func(int) (time.Duration, error) { return 0, nil },
			[]time.Duration{remoteSpacing, remoteSpacing, remoteSpacing}},
		{"a look takes long", always, func(n int) (time.Duration, error) { return time.Duration(n) * remoteSpacing, nil },
			[]time.Duration{remoteSpacing, 9 * remoteSpacing, 18 * remoteSpacing}},
		{"it fails six times, and nothing changes", nil, func(n int) (time.Duration, error) {
			if n < 6 {
				return 0, errors.New("refused")
			}
			return 0, nil
		}, []time.Duration{2 * remoteSpacing, 4 * remoteSpacing, 8 * remoteSpacing, 16 * remoteSpacing, remoteRetry,
			remoteRetry}},
		{"it fails once, and something changes always", always, func(n int) (time.Duration, error) {
			if n == 1 {
				return 0, errors.New("refused")
			}
			return 0, nil
		}, []time.Duration{remoteSpacing, 2 * remoteSpacing, remoteSpacing}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var pauses []time.Duration
			looks, failed, last := 0, 0, time.Now()
			paced(ctx, func() <-chan struct{} { return c.changed }, func(failures int) (time.Duration, error) {
				if now := time.Now(); looks > 0 {
					pauses, last = append(pauses, now.Sub(last)), now
				}
				if failures != failed {
					t.Errorf("%s: look %d is told of %d failures, not of %d", c.what, looks, failures, failed)
				}
				took, err := c.look(looks)
				if failed++; err == nil {
					failed = 0
				}
				if looks++; c.changed != nil && len(pauses) == len(c.pauses) {
					cancel()
				}
				return took, err
			})
			if !slices.Equal(pauses, c.pauses) {
				t.Errorf("%s: pauses %v, not %v", c.what, pauses, c.pauses)
			}
		})
	}
}
