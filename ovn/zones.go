package ovn

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// zone is the Northbound of one zone.
type zone struct {
	settings.Zone
	dialed   chan struct{} // closed when database is there
	database database
}

// connected says whether the zone's Northbound can be written now.
func (z *zone) connected() bool {
	select {
	case <-z.dialed:
		return z.database.Connected()
	default:
		return false
	}
}

// zonePatience is how long a controller that starts waits for the Northbounds of further zones, once it has one.
const zonePatience = 10 * time.Second

// zoneReturned asks the leader to write a zone whose Northbound is back.
var zoneReturned = part.NewSignal("return of a zone's Northbound", part.Patience)

// addressesFree asks for another batch: pods may wait for addresses that are free now.
var addressesFree = part.NewSignal("addresses that are free again", part.Patience)

// watchReturns tells the leader when a zone's Northbound is back, until ctx is done. A zone that cannot be claimed is
// tried again and again.
func watchReturns(ctx context.Context, northbound Northbound, returned func()) {
	zones, ok := northbound.(zonal)
	if !ok {
		return
	}
	for ; ctx.Err() == nil; signal.Sleep(ctx, time.Second) {
		if zones.returned() {
			returned()
		}
	}
}

// zones are the Northbounds of a cluster that has zones, as one database. One that is away keeps nobody from the
// others: it is written as a whole when it is back.
type zones []*zone

// dialZones connects the Northbounds of all zones. It waits for the first one, and then for the others as long as a
// start may take: what a Northbound holds of earlier terms counts for more than annotations.
func dialZones(ctx context.Context, list []northboundConfig, patience time.Duration,
	dial func(context.Context, northboundConfig) (database, func(), error)) (database, func(), error) {
	ctx, stop := context.WithCancelCause(ctx)
	var all zones
	var dialing sync.WaitGroup
	for _, n := range list {
		z := &zone{Zone: n.Zone, dialed: make(chan struct{})}
		all = append(all, z)
		dialing.Go(func() {
			db, closer, err := dial(ctx, n)
			if err != nil {
				stop(err) // not that it is away, which is waited for
				return
			}
			z.database = db
			close(z.dialed)
			<-ctx.Done()
			closer()
		})
	}
	closer := func() {
		stop(nil)
		dialing.Wait()
	}
	var since time.Time // there is one
	for ; ctx.Err() == nil; signal.Sleep(ctx, look) {
		some, every := all.Connected(), !slices.ContainsFunc(all, func(z *zone) bool { return !z.connected() })
		if some && since.IsZero() {
			since = time.Now()
		}
		if every || some && time.Since(since) > patience {
			return all, closer, nil
		}
	}
	closer()
	return nil, nil, context.Cause(ctx)
}

// each are the zones that have been connected.
func (zs zones) each(yield func(*zone) bool) {
	for _, z := range zs {
		select {
		case <-z.dialed:
			if !yield(z) {
				return
			}
		default:
		}
	}
}

// Connected is part of database.
func (zs zones) Connected() bool { return slices.ContainsFunc(zs, (*zone).connected) }

// Writer is part of database.
func (zs zones) Writer(c *cluster) Northbound { return newZonedWriter(c, zs) }

// Records is part of database. Of a node and of its pods its own zone alone has any.
func (zs zones) Records(s *settings.Settings) records.Records {
	all := records.Of(s, nil, nil)
	for z := range zs.each {
		r := z.database.Records(s)
		maps.Copy(all.Pods, r.Pods)
		maps.Copy(all.Nodes, r.Nodes)
		maps.Copy(all.Egress, r.Egress)
	}
	return all
}

// Disabled is part of database.
func (zs zones) Disabled() (list []string) {
	for z := range zs.each {
		list = append(list, z.database.Disabled()...)
	}
	return list
}

// Watch is part of database.
func (zs zones) Watch(ctx context.Context, changed func([]ovsdb.Owner)) error {
	var one sync.Mutex // it is told by one goroutine at a time
	return zs.whenDialed(ctx, func(z *zone) error {
		return z.database.Watch(ctx, func(owners []ovsdb.Owner) {
			one.Lock()
			defer one.Unlock()
			changed(owners)
		})
	})
}

// Hosting is part of database. A cluster with zones has no rows whose chassis matters.
func (zs zones) Hosting() map[part.Event]string { return nil }

// WatchHosting is part of database.
func (zs zones) WatchHosting(ctx context.Context, _ map[part.Event]string, _ func(part.Event, string)) {
	<-ctx.Done()
}

// whenDialed runs something for each zone once it has been connected, and gives the first error.
func (zs zones) whenDialed(ctx context.Context, do func(*zone) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, z := range zs {
		all.Go(func() {
			select {
			case <-ctx.Done():
			case <-z.dialed:
				if err := do(z); err != nil {
					stop(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
