package southbound

import (
	"context"
	"io"
	"time"
)

// turns are of readings: the server, which does one thing at a time, gets one after the other, and who has read
// least lately goes first. So a node that starts waits for the reading that is under way, and not for all that
// stolen nodes have asked for.
type turns struct {
	taken   bool
	waiting []*turn
}

// turn is a reading's.
type turn struct {
	debt float64       // the node's when it came
	come chan struct{} // closed when it is this one's turn
}

// longestTurn is how long others wait for one, at most.
const longestTurn = 5 * time.Second

// queue has a node's reading wait for its turn.
func (p *pace) queue(node string) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &turn{debt: p.owes(node), come: make(chan struct{})}
	p.turns.waiting = append(p.turns.waiting, t)
	if !p.turns.taken {
		p.turns.next()
	}
	return t
}

// next has the one go that owes least, of these the one that has waited longest.
func (q *turns) next() {
	first := -1
	for i, t := range q.waiting {
		if first < 0 || t.debt < q.waiting[first].debt {
			first = i
		}
	}
	if q.taken = first >= 0; q.taken {
		close(q.waiting[first].come)
		q.waiting = append(q.waiting[:first], q.waiting[first+1:]...)
	}
}

// leave ends a turn, or the wait for it.
func (p *pace) leave(t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-t.come:
		p.turns.next()
		return
	default:
	}
	for i, waiting := range p.turns.waiting {
		if waiting == t {
			p.turns.waiting = append(p.turns.waiting[:i], p.turns.waiting[i+1:]...)
		}
	}
}

// takeTurn waits until the server may get a reading. What the node is being told is read first, without a turn: nobody
// waits for a node that does not read.
func (s *session) takeTurn(ctx context.Context) error {
	s.told()
	t := s.guard.pace.queue(s.node)
	select {
	case <-t.come:
		s.turn.Store(t)
		time.AfterFunc(longestTurn, func() {
			if s.turn.CompareAndSwap(t, nil) {
				s.guard.pace.overstay(s.node)
				s.guard.pace.leave(t)
			}
		})
		return nil
	case <-s.over:
		s.guard.pace.leave(t)
		return io.EOF
	case <-ctx.Done():
		s.guard.pace.leave(t)
		return ctx.Err()
	}
}

// told returns when the client has what it is being told.
func (s *session) told() {
	s.writing.Lock()
	defer s.writing.Unlock()
}

// endTurn is when the server has begun to answer, or the connection ends.
func (s *session) endTurn() {
	if t := s.turn.Swap(nil); t != nil {
		s.guard.pace.leave(t)
	}
}
