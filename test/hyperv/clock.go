//go:build linux

package hyperv

import "time"

// clock is the driver's, which tests set ahead.
type clock struct{ now func() time.Time }

func (c *clock) advance(d time.Duration) {
	before := c.now
	c.now = func() time.Time { return before().Add(d) }
}
