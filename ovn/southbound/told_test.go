package southbound

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestNobodyFillsTheLog: each is told of a few times a minute, and nobody by taking many names.
func TestNobodyFillsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told told
		count := func(name func(int) string) (n int) {
			for i := range 5000 {
				if told.more(name(i)) {
					n++
				}
			}
			return n
		}
		one := func(int) string { return "l1" }
		if n := count(one); n != linesEach {
			t.Errorf("%d lines about one node", n)
		}
		if n := count(func(i int) string { return fmt.Sprint("198.51.100.", i) }); n != linesAll-1 {
			t.Errorf("%d lines about many", n)
		}
		time.Sleep(time.Minute)
		if n := count(one); n != linesEach {
			t.Errorf("%d lines a minute later", n)
		}
	})
}
