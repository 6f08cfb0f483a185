package southbound

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/test/transcript"
)

// TestRemoteChassisAreLookedAtWithPauses: however much changes, and whatever fails.
func TestRemoteChassisAreLookedAtWithPauses(t *testing.T) {
	always := make(chan struct{})
	close(always)
	for _, c := range []struct {
		what    string
		changed chan struct{}
		look    func(n int) (took, again time.Duration, err error)
		pauses  []time.Duration // from look to look; there is none after the last
	}{
		{"nothing changes", nil, func(int) (took, again time.Duration, err error) { return }, nil},
		{"something changes always", always, func(int) (took, again time.Duration, err error) { return },
			[]time.Duration{remoteSpacing, remoteSpacing, remoteSpacing}},
		{"a look takes long", always, func(n int) (took, again time.Duration, err error) {
			return time.Duration(n) * remoteSpacing, 0, nil
		}, []time.Duration{remoteSpacing, 9 * remoteSpacing, 18 * remoteSpacing}},
		{"it fails six times, and nothing changes", nil, func(n int) (took, again time.Duration, err error) {
			if n < 6 {
				return 0, 0, errors.New("refused")
			}
			return 0, 0, nil
		}, []time.Duration{2 * remoteSpacing, 4 * remoteSpacing, 8 * remoteSpacing, 16 * remoteSpacing, remoteRetry,
			remoteRetry}},
		{"it fails once, and something changes always", always, func(n int) (took, again time.Duration, err error) {
			if n == 1 {
				return 0, 0, errors.New("refused")
			}
			return 0, 0, nil
		}, []time.Duration{remoteSpacing, 2 * remoteSpacing, remoteSpacing}},
		{"something waits for its time, and nothing changes", nil, func(n int) (took, again time.Duration, err error) {
			return 0, []time.Duration{chassisTime, 1, 0}[n], nil
		}, []time.Duration{chassisTime, remoteSpacing}},
		{"something waits for its time, and something changes always", always,
			func(int) (took, again time.Duration, err error) { return 0, chassisTime, nil },
			[]time.Duration{remoteSpacing, remoteSpacing}},
		{"something waits for its time, and another thing fails", nil, func(n int) (took, again time.Duration, err error) {
			if n == 0 {
				return 0, chassisTime, errors.New("refused")
			}
			return 0, 0, nil
		}, []time.Duration{2 * remoteSpacing}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var pauses []time.Duration
			looks, failed, last := 0, 0, time.Now()
			paced(ctx, func() <-chan struct{} { return c.changed }, func(failures int) (took, again time.Duration, err error) {
				if now := time.Now(); looks > 0 {
					pauses, last = append(pauses, now.Sub(last)), now
				}
				if failures != failed {
					t.Errorf("%s: look %d is told of %d failures, not of %d", c.what, looks, failures, failed)
				}
				took, again, err = c.look(looks)
				if failed++; err == nil {
					failed = 0
				}
				if looks++; c.changed != nil && len(pauses) == len(c.pauses) {
					cancel()
				}
				return took, again, err
			})
			if !slices.Equal(pauses, c.pauses) {
				t.Errorf("%s: pauses %v, not %v", c.what, pauses, c.pauses)
			}
		})
	}
}

// TestRemoteChassisArePaced: a node whose port is another one always has its chassis made or corrected so often at
// once, and then once in a while. What is removed does not wait, and nobody else does.
func TestRemoteChassisArePaced(t *testing.T) {
	kept := func(node string) *sb.Chassis {
		return &sb.Chassis{OtherConfig: remoteConfig, ExternalIDs: map[string]string{contract.RemoteNodeKey: node}}
	}
	l9, removal := &remoteNode{name: "l9"}, remoteChange{old: kept("l9")}
	for _, c := range []struct {
		what      string
		wants     []remoteChange // again and again
		immediate int            // of wants, these are made also when the node is held back
	}{
		{"made", []remoteChange{{node: l9}}, 0},
		{"corrected", []remoteChange{{node: l9, old: kept("l9")}}, 0},
		{"made and removed in turn", []remoteChange{removal, {node: l9}}, 1},
		{"instead of its own", []remoteChange{{node: l9, old: &sb.Chassis{}, private: &sb.ChassisPrivate{}}}, 0},
		{"instead of another node's", []remoteChange{{node: l9, old: kept("l8")}}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log transcript.Transcript
			k := &remotes{log: slog.New(slog.NewTextHandler(&log, nil))}
			// counted is how many of what may be changed now count. What counts is made.
			counted := func(changes []remoteChange) (n, others int, again time.Duration) {
				now, again := k.pace(changes)
				for _, change := range now {
					if change.node == nil {
						others++
						continue
					}
					n++
					k.count(change.node.name, 1)
				}
				return n, others, again
			}
			for hour := range 3 {
				n, began := 0, time.Now()
				for time.Since(began) < time.Hour {
					made, others, again := counted(c.wants)
					if n += made; made > 0 && again > 0 || made == 0 && (again <= 0 || again > chassisTime) {
						t.Fatalf("%s: after %d changes %d are made, and others %s later", c.what, n, made, again)
					}
					if made == 0 && others != c.immediate {
						t.Fatalf("%s: %d are made of a node that is held back, want %d", c.what, others, c.immediate)
					}
					time.Sleep(remoteSpacing)
				}
				most := 60
				if hour == 0 {
					most += chassisBurst + 1
				}
				if n < most-1 || n > most {
					t.Errorf("%s: %d changes in hour %d, want %d", c.what, n, hour, most)
				}
			}
			if n := strings.Count(log.String(), "object=Node/l9"); n != 3 {
				t.Errorf("%s: %d lines in three hours", c.what, n)
			}
			counted(c.wants)
			made, _, again := counted([]remoteChange{c.wants[len(c.wants)-1], {node: &remoteNode{name: "l8"}}})
			if made != 1 || again <= 0 {
				t.Errorf("%s: another node's chassis waits", c.what)
			}
			time.Sleep(again) // it is made when its time has come
			if made, _, _ := counted(c.wants); made != 1 {
				t.Errorf("%s: it is to be made %s later, and is not", c.what, again)
			}
		})
	}
}
