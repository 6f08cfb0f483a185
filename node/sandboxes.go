package node

import (
	"context"
	"sync"
)

// sandboxes lets one call at a time work on an attachment, and calls for different ones side by
// side. They are known by their device's name.
type sandboxes struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed when the call ends
}

func newSandboxes() *sandboxes { return &sandboxes{busy: map[string]chan struct{}{}} }

// lock waits for the call that works on the device. The caller calls unlock when it is done.
func (s *sandboxes) lock(ctx context.Context, device string) (unlock func(), err error) {
	for {
		unlock, other := s.try(device)
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try locks the device unless a call works on it; then it returns what ends with that call.
func (s *sandboxes) try(device string) (unlock func(), other <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call, busy := s.busy[device]; busy {
		return nil, call
	}
	done := make(chan struct{})
	s.busy[device] = done
	return func() {
		s.mu.Lock()
		delete(s.busy, device)
		s.mu.Unlock()
		close(done)
	}, nil
}
