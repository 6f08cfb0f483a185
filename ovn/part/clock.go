package part

import "time"

// Clock is the time of the last events, which parts read in place of the machine's.
type Clock struct{ seconds int64 } // since 1970

// At tells what time it is.
func (c *Clock) At(now time.Time) { c.seconds = now.Unix() }

// Now is the time in seconds since 1970.
func (c *Clock) Now() int64 { return c.seconds }
