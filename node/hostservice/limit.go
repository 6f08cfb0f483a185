package hostservice

import "sync/atomic"

// limit bounds how many of something there are: a proxy shall not take the files that the rest of the agent
// needs.
type limit struct {
	most int64
	now  atomic.Int64
}

func (l *limit) take() bool {
	if l.now.Add(1) <= l.most {
		return true
	}
	l.now.Add(-1)
	return false
}

func (l *limit) give() { l.now.Add(-1) }
