package ovn

import (
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

// While the heap is small, the garbage collector lets it grow by more than by as much as is live. Otherwise it collects
// a dozen times while a controller reads its first lists, and each time there is little to free. The heap's maximum
// stays as it is: it comes later, when the rows of all owners are made.
const (
	leastGrowth  = 12 << 20
	usualPercent = 100
	mostPercent  = 4 * usualPercent // with it the heap may have 16 MB at the beginning
)

// collectSeldom has the garbage collector leave a small heap alone, unless GOGC says how often it collects.
func collectSeldom() {
	if usual := debug.SetGCPercent(mostPercent); usual != usualPercent {
		debug.SetGCPercent(usual)
		return
	}
	eachCollection(func() (more bool) {
		live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
		runtimemetrics.Read(live)
		percent := percentFor(live[0].Value.Uint64())
		debug.SetGCPercent(percent)
		return percent > usualPercent
	})
}

// percentFor is how much the heap may grow when so many bytes are live, as GOGC says it.
func percentFor(live uint64) int {
	return min(max(int(usualPercent*leastGrowth/max(live, 1)), usualPercent), mostPercent)
}

// eachCollection calls a function after each collection until it wants no more.
func eachCollection(call func() (more bool)) {
	type collected struct{ _ *byte } // a pointer, so that it shares its memory with nothing else
	runtime.AddCleanup(new(collected), func(struct{}) {
		if call() {
			eachCollection(call)
		}
	}, struct{}{})
}
