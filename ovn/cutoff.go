package ovn

import (
	"context"
	"time"
)

const (
	// patience is how long a leader waits for a Northbound that is away. A cluster of databases that elects another
	// leader, or a server that is restarted, is back before.
	patience = time.Minute
	// look is how often a controller looks whether it is connected to the Northbound.
	look = 100 * time.Millisecond
)

// fit waits for a connection to the Northbound, or until ctx is done. A controller without one cannot lead, and would
// keep the Lease from one that can.
func (c *controller) fit(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.connected:
	}
	looks := time.NewTicker(look)
	defer looks.Stop()
	for !c.database.Connected() {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
	}
}

// cutOff returns true when there has been no connection for that long, and false when ctx is done.
func cutOff(ctx context.Context, long time.Duration, connected func() bool) bool {
	looks := time.NewTicker(look)
	defer looks.Stop()
	last := time.Now() // that there was one
	for {
		select {
		case <-ctx.Done():
			return false
		case <-looks.C:
		}
		if connected() {
			last = time.Now()
		} else if time.Since(last) >= long {
			return true
		}
	}
}
