package ovn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/ovn/interconnect"
	"github.com/weftnet/weft/ovsdb"
)

// zonedWriter writes the rows of one term to all zones, to each its view of them. It is used by the leader's goroutine,
// except for what says otherwise.
type zonedWriter struct{ zones []*zoneWriter }

// zoneWriter writes one zone's rows.
type zoneWriter struct {
	*zone
	cluster *cluster
	failed  func()
	inStep  prometheus.Gauge
	view    *interconnect.View
	claimed bool
	refused map[ovsdb.Owner]error // owners whose last change the zone has refused
	whole   atomic.Bool           // its Northbound has all that this term has given so far
	pause   time.Duration         // before the next try, after one that failed
	next    atomic.Int64          // when that is, in nanoseconds
}

func newZonedWriter(c *cluster, zs zones) *zonedWriter {
	w := &zonedWriter{}
	for _, z := range zs.list {
		writer := &zoneWriter{zone: z, cluster: c, refused: map[ovsdb.Owner]error{},
			failed: func() { zs.metrics.failed("northbound") }, inStep: zs.metrics.inStep.WithLabelValues(z.Name)}
		writer.setWhole(false)
		w.zones = append(w.zones, writer)
	}
	return w
}

// newView is of the zone as nodes are in zones now.
func (z *zoneWriter) newView() *interconnect.View {
	nodes := z.cluster.nodes
	return &interconnect.View{Settings: z.cluster.settings, Zone: z.Zone, TunnelEnd: nodes.TunnelEnd,
		Foreign: func(node string) bool {
			n := nodes.At(node)
			return n != nil && n.Zone != z.Name
		},
		Number: func(node string) int {
			if n := nodes.At(node); n != nil {
				return n.ID
			}
			return 0
		}}
}

func (z *zoneWriter) setWhole(whole bool) {
	z.whole.Store(whole)
	z.inStep.Set(0)
	if whole {
		z.inStep.Set(1)
		z.pause = 0
	}
}

// write does a zone's part as long as its Northbound is there. After an error of the connection it is to be claimed and
// written as a whole, with ever longer pauses between tries.
func (z *zoneWriter) write(ctx context.Context, do func(context.Context, Northbound) error) error {
	within, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if cutOff(within, 0, z.connected) {
			stop()
		}
	}()
	err := errors.New("its Northbound is away")
	if z.connected() {
		err = do(within, z.database.Writer(z.cluster))
	}
	if !lost(err) {
		return err
	}
	z.claimed = false
	z.setWhole(false)
	z.pause = min(max(2*z.pause, firstPause), lastPause)
	z.next.Store(time.Now().Add(z.pause).UnixNano())
	if ctx.Err() == nil {
		z.failed()
		z.log.Warn("a zone cannot be written; the others go on, and it is tried again", "error", err)
	}
	return fmt.Errorf("zone %s: %w", z.Name, err)
}

// Claim is part of Northbound. It claims all zones that are there, and fails if none could be claimed.
func (w *zonedWriter) Claim(ctx context.Context, entitled func(context.Context) error) error {
	return w.all(func(z *zoneWriter) error {
		z.setWhole(false)
		return z.claim(ctx, entitled)
	})
}

func (z *zoneWriter) claim(ctx context.Context, entitled func(context.Context) error) error {
	err := z.write(ctx, func(ctx context.Context, n Northbound) error { return n.Claim(ctx, entitled) })
	z.claimed = err == nil
	return err
}

// Replace is part of Northbound, for the zones that are claimed.
func (w *zonedWriter) Replace(ctx context.Context, changes []ovsdb.Change) error {
	rows := map[*zoneWriter][]ovsdb.Change{}
	for _, z := range w.zones {
		if z.claimed {
			z.view = z.newView()
			rows[z] = z.view.Rows(changes)
		}
	}
	if err := w.all(func(z *zoneWriter) error { return z.replace(ctx, rows[z]) }); err != nil {
		return err
	}
	return w.refusals(changes)
}

func (z *zoneWriter) replace(ctx context.Context, rows []ovsdb.Change) error {
	if !z.claimed {
		return fmt.Errorf("zone %s: its Northbound is not claimed", z.Name)
	}
	err := z.write(ctx, func(ctx context.Context, n Northbound) error { return n.Replace(ctx, rows) })
	if lost(err) {
		return err
	}
	clear(z.refused)
	z.note(rows, err)
	z.setWhole(true)
	return nil
}

// note remembers what a zone has refused of changes.
func (z *zoneWriter) note(changes []ovsdb.Change, err error) {
	var refused *ovsdb.RefusedError
	errors.As(err, &refused)
	for _, change := range changes {
		delete(z.refused, change.Owner)
		if refused != nil && refused.Owners[change.Owner] != nil {
			z.refused[change.Owner] = refused.Owners[change.Owner]
		}
	}
}

// Apply is part of Northbound, for the zones that have all that there was before.
func (w *zonedWriter) Apply(ctx context.Context, changes []ovsdb.Change) error {
	rows := map[*zoneWriter][]ovsdb.Change{}
	for _, z := range w.zones {
		if z.whole.Load() {
			rows[z] = z.view.Rows(changes)
		}
	}
	if err := w.all(func(z *zoneWriter) error {
		if !z.whole.Load() {
			return fmt.Errorf("zone %s: its Northbound is to be written as a whole", z.Name)
		}
		err := z.write(ctx, func(ctx context.Context, n Northbound) error { return n.Apply(ctx, rows[z]) })
		if lost(err) {
			return err
		}
		z.note(rows[z], err)
		return nil
	}); err != nil {
		return err
	}
	return w.refusals(changes)
}

// all has something done for all zones at the same time. If nothing was done for any zone, the error says why.
func (w *zonedWriter) all(do func(*zoneWriter) error) error {
	errs := make([]error, len(w.zones))
	var done sync.WaitGroup
	for i, z := range w.zones {
		done.Go(func() { errs[i] = do(z) })
	}
	done.Wait()
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// refusals are the owners of changes that some zones refuse, nil for none.
func (w *zonedWriter) refusals(changes []ovsdb.Change) error {
	refused := map[ovsdb.Owner]error{}
	for _, change := range changes {
		for _, z := range w.zones {
			if cause := z.refused[change.Owner]; cause != nil {
				refused[change.Owner] = errors.Join(refused[change.Owner], fmt.Errorf("zone %s: %w", z.Name, cause))
			}
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return &ovsdb.RefusedError{Owners: refused}
}

// isBack says whether the zone's Northbound is there, does not have all that it should, and may be tried again.
func (z *zoneWriter) isBack() bool {
	return !z.whole.Load() && z.connected() && time.Now().UnixNano() >= z.next.Load()
}

// returned is part of zonal.
func (w *zonedWriter) returned() bool { return slices.ContainsFunc(w.zones, (*zoneWriter).isBack) }

// bringBack is part of zonal. A zone that is lost again is no error.
func (w *zonedWriter) bringBack(ctx context.Context, entitled func(context.Context) error,
	everything func() []ovsdb.Change) error {
	var changes []ovsdb.Change
	for _, z := range w.zones {
		if !z.isBack() || z.claim(ctx, entitled) != nil {
			continue
		}
		if changes == nil {
			changes = everything()
		}
		z.view = z.newView()
		_ = z.replace(ctx, z.view.Rows(changes)) // it is told, and tried again
	}
	return w.refusals(changes)
}

// has is part of zonal.
func (w *zonedWriter) has(node string) bool {
	n := w.zones[0].cluster.nodes.At(node)
	return n == nil || !slices.ContainsFunc(w.zones, func(z *zoneWriter) bool {
		return z.Name == n.Zone && !z.whole.Load()
	})
}

// complete is part of zonal.
func (w *zonedWriter) complete() bool {
	return !slices.ContainsFunc(w.zones, func(z *zoneWriter) bool { return !z.whole.Load() })
}
