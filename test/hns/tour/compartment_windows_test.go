package tour

import (
	"runtime"
	"testing"

	"github.com/Microsoft/hcsshim"
)

// inCompartment runs f on a thread in a network compartment.
func inCompartment(t *testing.T, compartment uint32, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := hcsshim.SetCurrentThreadCompartmentId(compartment)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
