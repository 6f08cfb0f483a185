package attach

import (
	"context"
	"sync"
)

// sandboxes lets one call at a time work on an attachment, or the agent of its own accord, and on different
// ones side by side. They are known by their device's name.
type sandboxes struct {
	mu   sync.Mutex
	busy map[string]*work
}

// work is what somebody does about an attachment.
type work struct {
	call bool          // a runtime waits for it; else it is the agent's own
	done chan struct{} // closed when it ends
}

func newSandboxes() *sandboxes { return &sandboxes{busy: map[string]*work{}} }

// lock is for calls, and waits for whatever works on the device. The caller calls unlock when it is done.
func (s *sandboxes) lock(ctx context.Context, device string) (unlock func(), err error) {
	for {
		unlock, other := s.acquire(device, true)
		if unlock != nil {
			return unlock, nil
		}
		if err := other.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// lockIdle waits for the agent's own work on the device alone: unlock is nil if a call works on it.
func (s *sandboxes) lockIdle(ctx context.Context, device string) (unlock func(), err error) {
	for {
		unlock, other := s.acquire(device, false)
		if unlock != nil || other.call {
			return unlock, nil
		}
		if err := other.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// try locks the device unless something works on it; then it returns what ends with that.
func (s *sandboxes) try(device string) (unlock func(), other <-chan struct{}) {
	unlock, busy := s.acquire(device, false)
	if unlock == nil {
		return nil, busy.done
	}
	return unlock, nil
}

func (s *sandboxes) acquire(device string, call bool) (unlock func(), other *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.busy[device]; other != nil {
		return nil, other
	}
	w := &work{call: call, done: make(chan struct{})}
	s.busy[device] = w
	return func() {
		s.mu.Lock()
		delete(s.busy, device)
		s.mu.Unlock()
		close(w.done)
	}, nil
}

func (w *work) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
