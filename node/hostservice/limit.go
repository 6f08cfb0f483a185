package hostservice

import (
	"net/netip"
	"sync/atomic"
)

// limit bounds how many of something there are: a proxy shall not take the files that the rest of the agent
// needs. Strangers, as who asks a second network card, have half of it at most: the rest is the host's own.
type limit struct {
	most      int64
	now       atomic.Int64
	strangers atomic.Int64
}

func (l *limit) take(stranger bool) bool {
	if stranger && l.strangers.Add(1) > (l.most+1)/2 {
		l.strangers.Add(-1)
		return false
	}
	if l.now.Add(1) <= l.most {
		return true
	}
	l.give(stranger)
	return false
}

func (l *limit) give(stranger bool) {
	if stranger {
		l.strangers.Add(-1)
	}
	l.now.Add(-1)
}

// isStranger says whether a client is not the host itself, which asks an address of its own from that address.
func isStranger(client, asked netip.Addr) bool { return !asked.IsLoopback() && client != asked }
