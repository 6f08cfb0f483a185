package ovn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	log      *slog.Logger
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
func watchReturns(ctx context.Context, zones zonal, returned func()) {
	for ; ctx.Err() == nil; signal.Sleep(ctx, time.Second) {
		if zones.returned() {
			returned()
		}
	}
}

// zones are the Northbounds of a cluster that has zones, as one database. One that is away keeps nobody from the
// others: it is written as a whole when it is back.
type zones struct {
	list    []*zone
	metrics *metrics
}

// dialZones connects the Northbounds of all zones. It waits for the first one, and then for the others as long as a
// start may take: what a Northbound holds of earlier terms counts for more than annotations. It fails if no zone has a
// Northbound that would do. Otherwise one that would not is away.
func dialZones(ctx context.Context, list []northboundConfig, patience time.Duration, m *metrics,
	log *slog.Logger, dial func(context.Context, northboundConfig) (database, func(), error)) (database, func(), error) {
	ctx, stop := context.WithCancel(ctx)
	all := zones{metrics: m}
	failed := make([]atomic.Pointer[error], len(list))
	var dialing sync.WaitGroup
	for i, n := range list {
		z := &zone{Zone: n.Zone, log: n.logger(log), dialed: make(chan struct{})}
		all.list = append(all.list, z)
		dialing.Go(func() {
			for ; ctx.Err() == nil; signal.Sleep(ctx, lastPause) {
				db, closer, err := dial(ctx, n)
				if err == nil {
					failed[i].Store(nil)
					z.database = db
					close(z.dialed)
					<-ctx.Done()
					closer()
					return
				}
				if ctx.Err() == nil { // not that it is away, which is waited for
					z.log.Error("the Northbound of a zone cannot be used; it is tried again", "error", err)
					m.failed("northbound")
				}
				failed[i].Store(&err)
			}
		})
	}
	closer := func() {
		stop()
		dialing.Wait()
	}
	var since time.Time // there is one
	for ; ctx.Err() == nil; signal.Sleep(ctx, look) {
		some, every := all.Connected(), !slices.ContainsFunc(all.list, func(z *zone) bool { return !z.connected() })
		if some && since.IsZero() {
			since = time.Now()
		}
		if every || some && time.Since(since) > patience {
			return all, closer, nil
		}
		var errs []error
		for i := range failed {
			if err := failed[i].Load(); err != nil {
				errs = append(errs, fmt.Errorf("zone %s: %w", list[i].Name, *err))
			}
		}
		if len(errs) == len(list) {
			closer()
			return nil, nil, errors.Join(errs...)
		}
	}
	closer()
	return nil, nil, ctx.Err()
}

// each are the zones that have been connected.
func (zs zones) each(yield func(*zone) bool) {
	for _, z := range zs.list {
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
func (zs zones) Connected() bool { return slices.ContainsFunc(zs.list, (*zone).connected) }

// Writer is part of database.
func (zs zones) Writer(c *cluster) Northbound { return newZonedWriter(c, zs) }

// Recall is part of database. Of a node, the word of its own zone counts for most. Then comes that of a zone in which
// it has been, and then that of others, which know its chassis, its tunnels and its gateway. So nobody takes these from
// a node whose own zone is away.
func (zs zones) Recall(s *settings.Settings, zoneOf func(node string) string) records.Records {
	all := records.Of(s, nil, nil)
	own, former := map[string]records.Node{}, map[string]records.Node{}
	for z := range zs.each {
		r := z.database.Recall(s, zoneOf)
		maps.Copy(all.Pods, r.Pods)
		for name, n := range r.Nodes {
			switch {
			case n.Remote:
				all.Nodes[name] = n
			case zoneOf(name) == z.Name:
				own[name] = n
			default:
				former[name] = n
			}
		}
	}
	maps.Copy(all.Nodes, former)
	maps.Copy(all.Nodes, own)
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
	for _, z := range zs.list {
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
