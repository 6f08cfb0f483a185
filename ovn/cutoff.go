package ovn

import (
	"context"
	"time"

	"github.com/weftnet/weft/models/signal"
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
	for !c.database.Connected() && ctx.Err() == nil {
		signal.Sleep(ctx, look)
	}
}

// unfit waits until there is no connection to the Northbound, or until ctx is done.
func (c *controller) unfit(ctx context.Context) {
	for c.database.Connected() && ctx.Err() == nil {
		signal.Sleep(ctx, look)
	}
}

// cutOff returns true when there has been no connection for that long, and false when ctx is done.
func cutOff(ctx context.Context, long time.Duration, connected func() bool) bool {
	last := time.Now() // that there was one
	for ; ctx.Err() == nil; signal.Sleep(ctx, look) {
		if connected() {
			last = time.Now()
		} else if time.Since(last) >= long {
			return true
		}
	}
	return false
}
