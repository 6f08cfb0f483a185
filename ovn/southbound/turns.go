package southbound

import (
	"context"
	"io"
	"slices"
	"time"
)

// turns are of readings: the server, which does one thing at a time, gets one after the other, and who has read
// least lately goes first. So a node that starts waits for the reading that is under way, and not for all that
// stolen nodes have asked for. What the server answers it keeps in memory until the guard has it, so it does not get
// another reading while a few answers are under way.
type turns struct {
	working bool // the server has a reading, and has not begun to answer
	telling int  // answers that are under way
	waiting []*turn
}

// turn is a reading's.
type turn struct {
	debt float64       // the node's when it came
	come chan struct{} // closed when it is this one's turn
	// Of pace: the server has begun to answer, and others no longer wait for it.
	answered, gone bool
}

const (
	// longestTurn is how long others wait for one, at most.
	longestTurn = 5 * time.Second
	// mostTelling is how many answers are under way when another reading begins, except those of slow nodes: the next one
	// is worked on while these are sent.
	mostTelling = 4
)

// queue has a node's reading wait for its turn.
func (p *pace) queue(node string) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &turn{debt: p.owes(node), come: make(chan struct{})}
	p.turns.waiting = append(p.turns.waiting, t)
	p.turns.next()
	return t
}

// next has the one go that owes least, of these the one that has waited longest.
func (q *turns) next() {
	if q.working || q.telling >= mostTelling || len(q.waiting) == 0 {
		return
	}
	first := 0
	for i, t := range q.waiting {
		if t.debt < q.waiting[first].debt {
			first = i
		}
	}
	q.working = true
	close(q.waiting[first].come)
	q.waiting = append(q.waiting[:first], q.waiting[first+1:]...)
}

// answer notes that the server has begun to answer.
func (p *pace) answer(t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.answered || t.gone {
		return
	}
	t.answered, p.turns.working = true, false
	p.turns.telling++
	p.turns.next()
}

// leave ends a turn, or the wait for it, and says whether the server has begun to answer.
func (p *pace) leave(t *turn) (answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-t.come:
	default:
		p.turns.waiting = slices.DeleteFunc(p.turns.waiting, func(other *turn) bool { return other == t })
		return false
	}
	if t.gone = true; t.answered {
		p.turns.telling--
	} else {
		p.turns.working = false
	}
	p.turns.next()
	return t.answered
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
			if s.turn.CompareAndSwap(t, nil) && !s.guard.pace.leave(t) {
				s.guard.pace.overstay(s.node)
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

// answerTurn is when the server has begun to answer.
func (s *session) answerTurn() {
	if t := s.turn.Load(); t != nil {
		s.guard.pace.answer(t)
	}
}

// endTurn is when the guard has all of the answer, or the connection ends.
func (s *session) endTurn() {
	if t := s.turn.Swap(nil); t != nil {
		s.guard.pace.leave(t)
	}
}
