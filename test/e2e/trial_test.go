//go:build cluster

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A trial asks URLs from a place, some of which are to be answered and the others not. What turns out otherwise is
// asked again, with more time for the answer: where many ask at once, a new connection may take seconds.
type trial struct {
	from    place
	want    map[string]bool // by the URL, of those that are still to turn out right: is there an answer?
	timeout time.Duration
}

const longestAnswer = 8 * time.Second

func newTrial(from place, want map[string]bool) *trial {
	return &trial{from: from, want: maps.Clone(want), timeout: time.Second}
}

// round asks, and returns the replies that are not as they are wanted.
func (r *trial) round() (wrong []reply, err error) {
	h := r.from.ask(append([]string{"-timeout", r.timeout.String(), "-at-once", "40"},
		slices.Sorted(maps.Keys(r.want))...)...)
	r.timeout = min(2*r.timeout, longestAnswer)
	for _, reply := range h.replies {
		if len(reply.Answers) > 0 == r.want[reply.URL] {
			delete(r.want, reply.URL)
		} else {
			wrong = append(wrong, reply)
		}
	}
	if h.err == nil && len(wrong) > 0 {
		h.err = fmt.Errorf("%s; want an answer: %t", wrong[0], r.want[wrong[0].URL])
	}
	if h.err == nil && len(r.want) > 0 {
		h.err = errors.New("ask has not told of all URLs")
	}
	return wrong, h.err
}
