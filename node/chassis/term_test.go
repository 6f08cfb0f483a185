//go:build linux

package chassis

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestATermEndsWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := newTenure(6 * time.Second)
		defer tenure.close()
		if tenure.current() != nil {
			t.Fatal("a term before the first renewal")
		}
		if !tenure.renewed(time.Now().Add(-2 * time.Second)) { // it was two seconds under way
			t.Error("the first renewal begins no term")
		}
		first := tenure.current()
		time.Sleep(3 * time.Second)
		if tenure.renewed(time.Now()) || tenure.current() != first {
			t.Error("a renewal in time begins another term")
		}
		time.Sleep(6*time.Second - time.Nanosecond)
		if first.over() || first.Err() != nil {
			t.Error("the term ends early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !first.over() || first.Err() == nil || tenure.current() != nil {
			t.Error("the term does not end")
		}
		if tenure.renewed(time.Now().Add(-6*time.Second)) || tenure.current() != nil {
			t.Error("a renewal that was too long under way begins a term")
		}
		if !tenure.renewed(time.Now()) || tenure.current() == first || tenure.terms() != 2 {
			t.Error("a renewal after the end does not begin another term")
		}
		if !first.over() {
			t.Error("a term that has ended goes on")
		}
	})
}
