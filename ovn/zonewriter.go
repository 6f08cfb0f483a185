package ovn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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
	view    *interconnect.View
	claimed bool
	whole   atomic.Bool // its Northbound has all that this term has given so far
}

func newZonedWriter(c *cluster, zs zones) *zonedWriter {
	w := &zonedWriter{}
	for _, z := range zs {
		w.zones = append(w.zones, &zoneWriter{zone: z, cluster: c})
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

// write does a zone's part as long as its Northbound is there. After an error of the connection it is to be claimed and
// written as a whole.
func (z *zoneWriter) write(ctx context.Context, do func(context.Context, Northbound) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if cutOff(ctx, 0, z.connected) {
			stop()
		}
	}()
	err := errors.New("its Northbound is away")
	if z.connected() {
		err = do(ctx, z.database.Writer(z.cluster))
	}
	if lost(err) {
		z.claimed = false
		z.whole.Store(false)
	}
	if err != nil {
		err = fmt.Errorf("zone %s: %w", z.Name, err)
	}
	return err
}

// Claim is part of Northbound. It claims all zones that are there, and fails if none could be claimed.
func (w *zonedWriter) Claim(ctx context.Context, entitled func(context.Context) error) error {
	return w.all(func(z *zoneWriter) error {
		z.whole.Store(false)
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
	return w.all(func(z *zoneWriter) error { return z.replace(ctx, rows[z]) })
}

func (z *zoneWriter) replace(ctx context.Context, rows []ovsdb.Change) error {
	if !z.claimed {
		return fmt.Errorf("zone %s: its Northbound is not claimed", z.Name)
	}
	err := z.write(ctx, func(ctx context.Context, n Northbound) error { return n.Replace(ctx, rows) })
	z.whole.Store(!lost(err))
	return err
}

// Apply is part of Northbound, for the zones that have all that there was before.
func (w *zonedWriter) Apply(ctx context.Context, changes []ovsdb.Change) error {
	rows := map[*zoneWriter][]ovsdb.Change{}
	for _, z := range w.zones {
		if z.whole.Load() {
			rows[z] = z.view.Rows(changes)
		}
	}
	return w.all(func(z *zoneWriter) error {
		if !z.whole.Load() {
			return fmt.Errorf("zone %s: its Northbound is to be written as a whole", z.Name)
		}
		return z.write(ctx, func(ctx context.Context, n Northbound) error { return n.Apply(ctx, rows[z]) })
	})
}

// all has something done for all zones at the same time. The error is of owners that a zone refused, or, if nothing
// was done for any zone, says why.
func (w *zonedWriter) all(do func(*zoneWriter) error) error {
	errs := make([]error, len(w.zones))
	var done sync.WaitGroup
	for i, z := range w.zones {
		done.Go(func() { errs[i] = do(z) })
	}
	done.Wait()
	if !slices.ContainsFunc(errs, func(err error) bool { return !lost(err) }) {
		return errors.Join(errs...)
	}
	return refusals(errs)
}

// refusals are the owners that some zones refused, nil for none. Other errors are left out.
func refusals(errs []error) error {
	refused := map[ovsdb.Owner]error{}
	for _, err := range errs {
		var of *ovsdb.RefusedError
		if errors.As(err, &of) {
			for owner, cause := range of.Owners {
				refused[owner] = errors.Join(refused[owner], cause)
			}
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return &ovsdb.RefusedError{Owners: refused}
}

// returned is part of zonal.
func (w *zonedWriter) returned() bool {
	return slices.ContainsFunc(w.zones, func(z *zoneWriter) bool { return !z.whole.Load() && z.connected() })
}

// bringBack is part of zonal. A zone that is lost again is no error.
func (w *zonedWriter) bringBack(ctx context.Context, entitled func(context.Context) error,
	everything func() []ovsdb.Change) error {
	var changes []ovsdb.Change
	var errs []error
	for _, z := range w.zones {
		if z.whole.Load() || !z.connected() || z.claim(ctx, entitled) != nil {
			continue
		}
		if changes == nil {
			changes = everything()
		}
		z.view = z.newView()
		errs = append(errs, z.replace(ctx, z.view.Rows(changes)))
	}
	return refusals(errs)
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
