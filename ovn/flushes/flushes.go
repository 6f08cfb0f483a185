package flushes

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
)

// Path is from an address of a load balancer to one of its endpoints, or to none.
type Path struct {
	family   string // of a template's row; the address is a variable then
	at       string
	endpoint string
}

// pauses are the times for which paths to endpoints that have gone are hidden before the nodes are shown them
// again, and for which they are shown, in the first round and in the second. They are long enough for Open vSwitch to
// have dropped its cached flows, and for ovn-northd and ovn-controller to have seen both. In the second round they are
// long enough also where these are slow.
var pauses = [2]time.Duration{time.Second, 5 * time.Second}

// signals go a step on in the rounds of pauses.
var signals = [len(pauses)]*part.SignalKind{
	part.NewSignal("flush of Service", pauses[0]), part.NewSignal("late flush of Service", pauses[1]),
}

// Part is what of each Service's paths is flushed again.
type Part struct {
	part.Immediate
	*part.Outbox
	of    map[string]*flushing
	dirty map[string]struct{}
}

// New is a part without paths.
func New(o *part.Outbox) *Part {
	return &Part{Outbox: o, of: map[string]*flushing{}, dirty: map[string]struct{}{}}
}

// Take is part of [part.Part].
func (b *Part) Take(batch *part.Batch) {
	for round, signal := range signals {
		for _, name := range batch.Signals(signal) {
			b.again(name, round)
		}
	}
	for _, name := range batch.Again("Flush") {
		b.dirty[name] = struct{}{}
	}
}

// Dirty is part of [part.Part].
func (b *Part) Dirty(all bool) iter.Seq2[part.Stage, ovsdb.Owner] {
	return part.Of(all, b.of, b.dirty, part.Balancers, northbound.FlushOwner)
}

// Change is part of [part.Part].
func (b *Part) Change(owner ovsdb.Owner) part.Outcome {
	_, name := part.Split(owner)
	return part.Rows(b.change(name))
}

// Clean is part of [part.Part].
func (b *Part) Clean() { part.Empty(&b.dirty) }

// flushing are a Service's paths, and those that its load balancers have no more.
type flushing struct {
	paths  map[Path]struct{}
	rounds [len(pauses)]paths
}

// paths are those of a round: that wait for being shown, and those that the nodes are shown.
type paths struct{ gone, shown map[Path]struct{} }

func (r *paths) rests() bool { return len(r.gone)+len(r.shown) == 0 }

func (f *flushing) rests() bool {
	return !slices.ContainsFunc(f.rounds[:], func(r paths) bool { return !r.rests() })
}

// flushAgain has paths of a Service flushed in a round.
func (b *Part) flushAgain(name string, round int, paths map[Path]struct{}) {
	if len(paths) == 0 {
		return
	}
	r := &b.of[name].rounds[round]
	if r.rests() {
		b.Expect(part.Signal{What: signals[round], Name: name})
	}
	if r.gone == nil {
		r.gone = map[Path]struct{}{}
	}
	maps.Copy(r.gone, paths)
}

// PathsOf are those of load balancers that ovn-controller flushes.
func PathsOf(all []ovsdb.Row) map[Path]struct{} {
	paths := map[Path]struct{}{}
	for _, r := range all {
		row, ok := r.Model.(*nb.LoadBalancer)
		if !ok || row.Options["ct_flush"] != "true" {
			continue
		}
		for at, endpoints := range row.Vips {
			p := Path{family: row.Options["address-family"], at: at}
			paths[p] = struct{}{}
			for p.endpoint = range strings.SplitSeq(endpoints, ",") {
				paths[p] = struct{}{}
			}
		}
	}
	return paths
}

// Follow takes in which paths a Service has now. Those to endpoints that are gone are to be flushed again;
// an address that is gone leaves no client that asks there.
func (b *Part) Follow(name string, now map[Path]struct{}) {
	f := b.of[name]
	if f == nil {
		if len(now) > 0 {
			b.of[name] = &flushing{paths: now}
		}
		return
	}
	gone := map[Path]struct{}{}
	for p := range f.paths {
		_, still := now[p]
		if _, serves := now[Path{family: p.family, at: p.at}]; serves && !still {
			gone[p] = struct{}{}
		}
	}
	f.paths = now
	b.flushAgain(name, 0, gone)
	b.tidy(name)
}

// again goes a step on in a round: what has been shown is flushed, and what has gone since then is shown.
func (b *Part) again(name string, round int) {
	f := b.of[name]
	if f == nil {
		return
	}
	r := &f.rounds[round]
	maps.DeleteFunc(r.gone, func(p Path, _ struct{}) bool {
		_, back := f.paths[p]
		return back
	})
	ended := r.shown
	r.shown, r.gone = r.gone, nil
	b.dirty[name] = struct{}{}
	if !r.rests() {
		b.Expect(part.Signal{What: signals[round], Name: name})
	}
	if round+1 < len(f.rounds) {
		b.flushAgain(name, round+1, ended)
	}
	b.tidy(name)
}

// tidy forgets a Service that has nothing left.
func (b *Part) tidy(name string) {
	if f := b.of[name]; len(f.paths) == 0 && f.rests() {
		delete(b.of, name)
	}
}

// change is what nodes are shown of a Service's paths that are gone.
func (b *Part) change(name string) ovsdb.Change {
	r := northbound.NewBuilder(northbound.FlushOwner(name))
	f := b.of[name]
	if f == nil {
		return r.Change
	}
	shown := map[Path]struct{}{}
	for _, round := range f.rounds {
		maps.Copy(shown, round.shown)
	}
	rows := map[string]*nb.LoadBalancer{}
	kind := "udp"
	namespace, service, _ := strings.Cut(name, "/")
	for _, p := range slices.SortedFunc(maps.Keys(shown), Path.compare) {
		row := rows[p.family]
		if row == nil {
			where := "flush" + strings.TrimPrefix(p.family, "ipv")
			row = &nb.LoadBalancer{Name: northbound.LoadBalancerName(namespace, service, where, objects.Protocol(kind)),
				Protocol: &kind, Vips: map[string]string{},
				Options: map[string]string{"ct_flush": "true", "neighbor_responder": "none"}}
			if p.family != "" {
				row.Options["template"], row.Options["address-family"] = "true", p.family
			}
			rows[p.family] = row
			r.Member(nb.LogicalSwitchTable, northbound.JoinSwitchID, "load_balancer", r.Add(nb.LoadBalancerTable, "udp"+p.family,
				row))
		}
		if before := row.Vips[p.at]; before != "" {
			p.endpoint = before + "," + p.endpoint
		}
		row.Vips[p.at] = p.endpoint
	}
	return r.Change
}

func (p Path) compare(o Path) int {
	return cmp.Or(cmp.Compare(p.family, o.family), cmp.Compare(p.at, o.at), cmp.Compare(p.endpoint, o.endpoint))
}
