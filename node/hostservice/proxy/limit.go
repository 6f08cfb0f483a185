package proxy

import "sync/atomic"

// limit bounds how many of something there are: a proxy must not take the files that the rest of the agent needs.
// Remote clients, such as those that ask by a second network card, have half of it at most: the rest is the host's own.
type limit struct {
	most    int64
	now     atomic.Int64
	remotes atomic.Int64
}

func (l *limit) acquire(remote bool) bool {
	if remote && l.remotes.Add(1) > (l.most+1)/2 {
		l.remotes.Add(-1)
		return false
	}
	if l.now.Add(1) <= l.most {
		return true
	}
	l.release(remote)
	return false
}

func (l *limit) release(remote bool) {
	if remote {
		l.remotes.Add(-1)
	}
	l.now.Add(-1)
}
