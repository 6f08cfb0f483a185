package hns

import (
	"sync"
	"time"
)

// faults are what the emulator was told to do wrong. The zero value does nothing wrong.
type faults struct {
	mu    sync.Mutex
	hangs map[string]hang
	held  map[string]int // how many calls of a function hang now
	fails map[string]failing
	// delay is how long a vNIC comes after its container.
	delay    time.Duration
	dhcp     bool
	noDriver bool
	noVMMS   bool
}

// hang holds calls for a time: the next ones, or all where count is negative.
type hang struct {
	Time  time.Duration
	Count int
}

// failing makes calls return an error.
type failing struct {
	With  Error
	Count int
}

// next takes what the next call of a function must suffer.
func (f *faults) next(function string) (time.Duration, Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, hangs := f.hangs[function]
	if hangs {
		if h.Count--; h.Count == 0 {
			delete(f.hangs, function)
		} else {
			f.hangs[function] = h
		}
	}
	e, fails := f.fails[function]
	if fails {
		if e.Count--; e.Count == 0 {
			delete(f.fails, function)
		} else {
			f.fails[function] = e
		}
	}
	return h.Time, e.With
}

// suffer holds a call for as long as a fault says, and tells what the call returns then. over ends the call, for those
// who read the state.
func (f *faults) suffer(function string) (fault Error, over func()) {
	hold, fault := f.next(function)
	if hold == 0 {
		return fault, func() {}
	}
	count := func(by int) {
		f.set(func(f *faults) {
			if f.held == nil {
				f.held = map[string]int{}
			}
			if f.held[function] += by; f.held[function] == 0 {
				delete(f.held, function)
			}
		})
	}
	count(1)
	time.Sleep(hold)
	return fault, func() { count(-1) }
}

func (f *faults) hang(function string, h hang) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs == nil {
		f.hangs = map[string]hang{}
	}
	f.hangs[function] = h
}

func (f *faults) fail(function string, e failing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails == nil {
		f.fails = map[string]failing{}
	}
	f.fails[function] = e
}

// set changes the faults that are no single call's.
func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) clear() {
	f.set(func(f *faults) {
		f.hangs, f.fails, f.delay, f.dhcp, f.noDriver, f.noVMMS = nil, nil, 0, false, false, false
	})
}

func (f *faults) vnicDelay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.delay
}

func (f *faults) dhcpFails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dhcp
}

func (f *faults) driverMissing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.noDriver
}

func (f *faults) vmmsMissing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.noVMMS
}

// view is the faults as the state shows them.
func (f *faults) view() map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := map[string]any{}
	for function, h := range f.hangs {
		view["hang "+function] = map[string]any{"seconds": h.Time.Seconds(), "count": h.Count}
	}
	for function, calls := range f.held {
		view["held "+function] = calls
	}
	for function, e := range f.fails {
		view["fail "+function] = map[string]any{"error": e.With.Error(), "count": e.Count}
	}
	if f.delay > 0 {
		view["delay-vnic"] = f.delay.Seconds()
	}
	if f.dhcp {
		view["dhcp-fail"] = true
	}
	if f.noDriver {
		view["no-driver"] = true
	}
	if f.noVMMS {
		view["no-vmms"] = true
	}
	return view
}
